"""The few statements that the command line writes itself, with names and texts quoted."""

from collections.abc import Sequence


def name(text: str) -> str:
    """An identifier, always in backticks."""
    return "`" + text.replace("`", "``") + "`"


def string(text: str) -> str:
    """A string literal of our own statements, in which only the quote is special."""
    return "'" + text.replace("'", "''") + "'"


def dotted(parts: Sequence[str]) -> str:
    return ".".join(map(name, parts))


def create_user(user: str, password: str, roles: Sequence[str]) -> str:
    granted = f" ROLES ({', '.join(map(name, roles))})" if roles else ""
    return f"CREATE USER {name(user)} WITH PASSWORD {string(password)}{granted}"


def change_password(user: str, password: str) -> str:
    return f"ALTER USER {name(user)} PASSWORD {string(password)}"


def create_token(user: str, ttl: str | None) -> str:
    return f"CREATE TOKEN FOR {name(user)}" + (f" TTL {string(ttl)}" if ttl else "")


def revoke_token(token_id: str) -> str:
    return f"REVOKE TOKEN {string(token_id)}"


def progress_of(query_id: str) -> str:
    columns = "tasks_done, tasks_total, state"
    return f"SELECT {columns} FROM system.runtime.queries WHERE query_id = {string(query_id)}"  # noqa: S608


def show_namespaces(catalog: str, parent: Sequence[str]) -> str:
    return f"SHOW NAMESPACES IN {dotted((catalog, *parent))}"


def show_tables(catalog: str, namespace: Sequence[str]) -> str:
    return f"SHOW TABLES IN {dotted((catalog, *namespace))}"


def show_views(catalog: str, namespace: Sequence[str]) -> str:
    return f"SHOW VIEWS IN {dotted((catalog, *namespace))}"


def describe_table(table: Sequence[str]) -> str:
    return f"DESCRIBE TABLE {dotted(table)}"
