"""A SQLAlchemy dialect: `create_engine("bailiwick://user:password@host:50051/schema")`.

It is ADBC's Flight SQL driver with Spark's words: backticks, STRING, no constraints, no transactions. Public
dialects for Flight SQL quote names with double quotes, which are texts in Spark. Every statement commits by
itself: `commit` has nothing left to do, and `rollback` undoes nothing.
"""
# ruff: noqa: ARG002, N802, N815 - which methods there are, and what they take, is SQLAlchemy's to say

import re
from typing import Any

from sqlalchemy import exc, types
from sqlalchemy.engine import Connection, default
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.engine.url import URL
from sqlalchemy.sql import compiler

from bailiwick.client.address import DEFAULT_PORT

_KNOWN_TYPES: dict[str, types.TypeEngine[Any]] = {
    "BOOLEAN": types.BOOLEAN(),
    "TINYINT": types.SMALLINT(),
    "SMALLINT": types.SMALLINT(),
    "INT": types.INTEGER(),
    "BIGINT": types.BIGINT(),
    "FLOAT": types.REAL(),
    "DOUBLE": types.DOUBLE(),
    "STRING": types.TEXT(),
    "BINARY": types.LargeBinary(),
    "DATE": types.DATE(),
    "TIMESTAMP": types.TIMESTAMP(timezone=True),
    "TIMESTAMP_NTZ": types.TIMESTAMP(),
}


class SparkIdentifierPreparer(compiler.IdentifierPreparer):
    def __init__(self, dialect: default.DefaultDialect, **options: Any) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`", **options)

    def _requires_quotes(self, value: str) -> bool:
        return True

    def quote_schema(self, schema: str, force: Any = None) -> str:
        """`a.b` is the schema b in a, not one whose name has a dot."""
        return ".".join(self.quote(part) for part in schema.split("."))


class SparkCompiler(compiler.SQLCompiler):
    def limit_clause(self, select: Any, **options: Any) -> str:
        # ADBC sends every whole number as a BIGINT, and Spark's limits are INTs.
        text = ""
        if select._limit_clause is not None:
            text += f"\n LIMIT CAST({self.process(select._limit_clause, **options)} AS INT)"
        if select._offset_clause is not None:
            text += f"\n OFFSET CAST({self.process(select._offset_clause, **options)} AS INT)"
        return text

    def render_literal_value(self, value: Any, type_: Any) -> str:
        # Spark reads a backslash in a text as the beginning of an escape.
        return super().render_literal_value(value, type_).replace("\\", "\\\\")

    def visit_empty_set_expr(self, element_types: Any, **options: Any) -> str:
        return f"SELECT {', '.join('NULL' for _ in element_types)} WHERE false"


class SparkDdlCompiler(compiler.DDLCompiler):
    def create_table_constraints(self, table: Any, *arguments: Any, **options: Any) -> str:
        """None: tables of the lake have no keys and no checks. NOT NULL is a part of its column."""
        return ""


class SparkTypeCompiler(compiler.GenericTypeCompiler):
    """Texts of any length are STRING; moments without a time zone are TIMESTAMP_NTZ."""

    def _string(self, type_: Any, **options: Any) -> str:
        return "STRING"

    visit_CHAR = visit_VARCHAR = visit_NCHAR = visit_NVARCHAR = visit_TEXT = visit_CLOB = visit_UUID = _string
    visit_string = visit_unicode = visit_text = visit_unicode_text = visit_enum = visit_uuid = _string

    def visit_INTEGER(self, type_: Any, **options: Any) -> str:
        return "INT"

    def visit_REAL(self, type_: Any, **options: Any) -> str:
        return "FLOAT"

    def _double(self, type_: Any, **options: Any) -> str:
        return "DOUBLE"

    visit_FLOAT = visit_DOUBLE = visit_DOUBLE_PRECISION = _double

    def visit_NUMERIC(self, type_: Any, **options: Any) -> str:
        return f"DECIMAL({type_.precision or 38}, {type_.scale or (0 if type_.precision else 10)})"

    visit_DECIMAL = visit_NUMERIC

    def _binary(self, type_: Any, **options: Any) -> str:
        return "BINARY"

    visit_BLOB = visit_BINARY = visit_VARBINARY = visit_large_binary = _binary

    def visit_TIMESTAMP(self, type_: Any, **options: Any) -> str:
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    visit_DATETIME = visit_TIMESTAMP


class _Cursor:
    """ADBC's cursor, which for a statement without columns says so as SQLAlchemy wants to hear it."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    @property
    def description(self) -> Any:
        return self._cursor.description or None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class BailiwickExecutionContext(default.DefaultExecutionContext):
    def create_default_cursor(self) -> Any:
        return _Cursor(self._dbapi_connection.cursor())


class BailiwickDialect(default.DefaultDialect):
    name = "bailiwick"
    driver = "flightsql"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_alter = False
    supports_native_boolean = True
    supports_native_decimal = True
    # An update's count is not known where files are rewritten; the ORM must not take that for a lost row.
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_default_values = False
    supports_multivalues_insert = True
    insert_returning = update_returning = delete_returning = False
    postfetch_lastrowid = False
    requires_name_normalize = False
    execution_ctx_cls = BailiwickExecutionContext
    preparer: type[compiler.IdentifierPreparer] = SparkIdentifierPreparer
    statement_compiler = SparkCompiler
    ddl_compiler = SparkDdlCompiler
    type_compiler_cls = SparkTypeCompiler

    @classmethod
    def import_dbapi(cls) -> Any:
        from adbc_driver_flightsql import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """`?token=…` instead of a password, `?tls=true` for TLS; anything else is an option of ADBC's."""
        options = {key: value if isinstance(value, str) else value[-1] for key, value in url.query.items()}
        scheme = "grpc+tls" if _truth("tls", options.pop("tls", "false")) else "grpc"
        if token := options.pop("token", None):
            options["adbc.flight.sql.authorization_header"] = f"Bearer {token}"
        if url.username is not None:
            options |= {"username": url.username, "password": url.password or ""}
        host = f"[{url.host}]" if url.host and ":" in url.host else url.host or "localhost"
        address = f"{scheme}://{host}:{url.port or DEFAULT_PORT}"
        return [address], {"db_kwargs": options, "schema": url.database}

    def connect(self, *arguments: Any, **options: Any) -> Any:
        schema = options.pop("schema", None)
        connection = self.loaded_dbapi.connect(*arguments, autocommit=True, **options)
        if schema:
            connection.adbc_current_db_schema = schema
        return connection

    def do_commit(self, dbapi_connection: Any) -> None:
        """Nothing: each statement has committed by itself."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Nothing: there are no transactions to undo."""

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        told = connection.connection.dbapi_connection.adbc_get_info()["vendor_version"]  # type: ignore[union-attr]
        return tuple(int(part) for part in re.findall(r"\d+", told))

    def _get_default_schema_name(self, connection: Connection) -> str:
        return connection.connection.dbapi_connection.adbc_current_db_schema or ""  # type: ignore[union-attr]

    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        return _texts(connection, "SELECT schema_name FROM lake.information_schema.schemata ORDER BY 1")

    def get_table_names(self, connection: Connection, schema: str | None = None, **_: Any) -> list[str]:
        return self._relations(connection, schema, "BASE TABLE")

    def get_view_names(self, connection: Connection, schema: str | None = None, **_: Any) -> list[str]:
        return self._relations(connection, schema, "VIEW")

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> bool:
        sql = (
            "SELECT table_name FROM lake.information_schema.tables WHERE table_schema = ? AND table_name = ?"
        )
        return bool(_texts(connection, sql, self._schema(schema), table_name))

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[ReflectedColumn]:
        sql = (
            "SELECT column_name, data_type, is_nullable, column_default, comment "
            "FROM lake.information_schema.columns WHERE table_schema = ? AND table_name = ? "
            "ORDER BY ordinal_position"
        )
        rows = connection.exec_driver_sql(sql, (self._schema(schema), table_name)).all()
        if not rows:
            raise exc.NoSuchTableError(table_name)
        return [
            {
                "name": name,
                "type": type_of(data_type),
                "nullable": is_nullable == "YES",
                "default": default_,
                "comment": comment,
            }
            for name, data_type, is_nullable, default_, comment in rows
        ]

    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **_: Any
    ) -> str:
        sql = (
            "SELECT view_definition FROM lake.information_schema.views "
            "WHERE table_schema = ? AND table_name = ?"
        )
        found = _texts(connection, sql, self._schema(schema), view_name)
        if not found:
            raise exc.NoSuchTableError(view_name)
        return found[0]

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> Any:
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        return []

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        return []

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        return []

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        return []

    def _relations(self, connection: Connection, schema: str | None, kind: str) -> list[str]:
        sql = (
            "SELECT table_name FROM lake.information_schema.tables "
            "WHERE table_schema = ? AND table_type = ? ORDER BY 1"
        )
        return _texts(connection, sql, self._schema(schema), kind)

    def _schema(self, schema: str | None) -> str:
        return schema or self.default_schema_name or ""


def type_of(data_type: str) -> types.TypeEngine[Any]:
    """SQLAlchemy's type for one of Spark's; arrays, maps and structs come as what ADBC makes of them."""
    if decimal := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", data_type):
        return types.DECIMAL(int(decimal[1]), int(decimal[2]))
    return _KNOWN_TYPES.get(data_type, types.NullType())


def _texts(connection: Connection, sql: str, *parameters: str) -> list[str]:
    return list(connection.exec_driver_sql(sql, parameters or None).scalars())


def _truth(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise exc.ArgumentError(f"{name} is true or false, not {value!r}")
    return value.lower() == "true"
