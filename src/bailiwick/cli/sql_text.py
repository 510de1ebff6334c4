"""The few statements that the command line writes itself, with names and texts quoted."""

from collections.abc import Sequence
from typing import Final

_IS_TABLE: Final = "CASE WHEN table_type = 'VIEW' THEN 'view' ELSE 'table' END AS type"

CATALOGS: Final = (
    "SELECT catalog_name AS catalog FROM information_schema.schemata "
    "UNION SELECT catalog_name FROM system.information_schema.schemata ORDER BY 1"
)
NAMESPACES: Final = (
    "SELECT schema_name AS namespace FROM information_schema.schemata "
    "WHERE schema_name <> 'information_schema' ORDER BY 1"
)
SYSTEM_NAMESPACES: Final = (
    "SELECT 'system.' || schema_name AS namespace FROM system.information_schema.schemata ORDER BY 1"
)
TABLES: Final = (
    f"SELECT table_schema AS namespace, table_name AS name, {_IS_TABLE} FROM information_schema.tables "  # noqa: S608
    "WHERE table_schema <> 'information_schema' ORDER BY 1, 2"
)
SYSTEM_TABLES: Final = (
    f"SELECT 'system.' || table_schema AS namespace, table_name AS name, {_IS_TABLE} "  # noqa: S608
    "FROM system.information_schema.tables ORDER BY 1, 2"
)


def name(text: str) -> str:
    """An identifier, always in backticks."""
    return "`" + text.replace("`", "``") + "`"


def string(text: str) -> str:
    """A string literal of our own statements, in which only the quote is special."""
    return "'" + text.replace("'", "''") + "'"


def dotted(parts: Sequence[str]) -> str:
    return ".".join(map(name, parts))


def create_user(user: str, password: str, roles: Sequence[str], tenant: str | None = None) -> str:
    granted = f" ROLES ({', '.join(map(name, roles))})" if roles else ""
    belongs = f" TENANT {string(tenant)}" if tenant is not None else ""
    return f"CREATE USER {name(user)} WITH PASSWORD {string(password)}{granted}{belongs}"


def change_password(user: str, password: str) -> str:
    return f"ALTER USER {name(user)} PASSWORD {string(password)}"


def create_token(user: str, ttl: str | None) -> str:
    return f"CREATE TOKEN FOR {name(user)}" + (f" TTL {string(ttl)}" if ttl else "")


def revoke_token(token_id: str) -> str:
    return f"REVOKE TOKEN {string(token_id)}"


def show_audit(user: str | None, since: str | None, after: int | None, limit: int) -> str:
    of_user = f" FOR USER {name(user)}" if user is not None else ""
    since_then = f" SINCE {string(since)}" if since is not None else ""
    from_there = f" AFTER {after}" if after is not None else ""
    return f"SHOW AUDIT{of_user}{since_then}{from_there} LIMIT {limit}"


def verify_audit(anchor: str | None = None) -> str:
    return "VERIFY AUDIT" + (f" ANCHOR {string(anchor)}" if anchor is not None else "")


def progress_of(query_id: str) -> str:
    columns = "tasks_done, tasks_total, state"
    return f"SELECT {columns} FROM system.runtime.queries WHERE query_id = {string(query_id)}"  # noqa: S608


def describe_table(table: Sequence[str]) -> str:
    return f"DESCRIBE TABLE {dotted(table)}"


def system_columns(schema: str, table: str) -> str:
    columns = "column_name AS col_name, data_type, comment"
    where = f"table_schema = {string(schema.lower())} AND table_name = {string(table.lower())}"
    return f"SELECT {columns} FROM system.information_schema.columns WHERE {where} ORDER BY ordinal_position"  # noqa: S608
