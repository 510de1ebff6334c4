"""The page that says what of Flight SQL works, written from the tests that show it.

A test names what it shows by `@pytest.mark.proves("CommandGetTables")`; here those markers are read from the
source, without running anything. What does not work stands below with its reason; a test shows its refusal.
"""

import ast
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.sql_info import Abilities, ValueKind, all_facts

ROOT: Final = Path(__file__).parents[3]
TESTS: Final = ROOT / "tests"
CLIENTS: Final = TESTS / "protocol" / "flight_sql"
_NOTICE: Final = (
    "<!-- Written by `make docs` from what tests prove; edit src/bailiwick/cli/compatibility.py. -->"
)
WORKS, NOT_YET, NEVER = "works", "notyet", "never"

_MARK: Final = "pytest.mark.proves"
_SUBSTRAIT = (NEVER, "Spark takes SQL, not Substrait plans")
_TRANSACTIONS = (NEVER, "every statement commits by itself; SqlInfo says so, and drivers stay in autocommit")
UNSUPPORTED: Final[Mapping[str, tuple[str, str]]] = {
    "CommandStatementSubstraitPlan": _SUBSTRAIT,
    "CreatePreparedSubstraitPlan": _SUBSTRAIT,
    "BeginTransaction": _TRANSACTIONS,
    "EndTransaction": _TRANSACTIONS,
    "BeginSavepoint": _TRANSACTIONS,
    "EndSavepoint": _TRANSACTIONS,
    "ListFlights": (NEVER, "Flight SQL lists tables by CommandGetTables"),
    "DoExchange": (NEVER, "Flight SQL does not use it"),
    "type TIME": (NOT_YET, "Spark does not send it as Arrow; refused at prepare, cast it to a text"),
    "type GEOMETRY, GEOGRAPHY": (NOT_YET, "geospatial types are switched off in Spark; refused at prepare"),
}
"""Status and reason of what does not work."""

TYPES: Final[Mapping[str, str]] = {
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "DECIMAL": "decimal128",
    "STRING": "utf8",
    "CHAR, VARCHAR": "utf8",
    "BINARY": "binary",
    "DATE": "date32",
    "TIMESTAMP": "timestamp[us] in the session's time zone",
    "TIMESTAMP_NTZ": "timestamp[us]",
    "INTERVAL DAY TO SECOND": "duration[us]",
    "INTERVAL YEAR TO MONTH": "interval[months]",
    "INTERVAL": "interval[month, day, nano]",
    "VOID": "null",
    "ARRAY": "list",
    "MAP": "map",
    "STRUCT": "struct",
    "VARIANT": "struct of two binaries",
    "TIME": "—",
    "GEOMETRY, GEOGRAPHY": "—",
}
"""Spark's types, and the Arrow type that each is sent as."""

BESIDES: Final[Mapping[str, str]] = {
    "parameters": "`?` in queries and changes, typed, never put into the text",
    "affected rows": "counted from the commit; −1 where not exact",
    "identifiers": "backticks; double quotes after the session option `double_quoted_identifiers`",
    "information_schema": "`tables`, `columns`, `schemata`, `views`, filtered by who asks",
    "errors": "our code first, then a sentence, on every client",
}


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    status: str
    note: str
    shown_by: tuple[str, ...]
    """Names of test files."""


def calls() -> list[str]:
    return [method.name for method in flight.DESCRIPTOR.services_by_name["FlightService"].methods]


def commands() -> list[str]:
    """What can stand in a descriptor or a ticket."""
    return [name for name in sql.DESCRIPTOR.message_types_by_name if re.match("Command|Ticket", name)]


def actions() -> list[str]:
    """An action's name is that of its request, with or without `Action` before it."""
    names = [*sql.DESCRIPTOR.message_types_by_name, *flight.DESCRIPTOR.message_types_by_name]
    found = [match[1] for name in names if (match := re.fullmatch(r"(?:Action)?(\w+)Request", name))]
    return [name for name in found if name != "Handshake"]


def proofs(tests: Path = TESTS) -> dict[str, tuple[str, ...]]:
    """Which test files show what."""
    found: dict[str, set[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for subject in _subjects(ast.parse(text)) if _MARK in text else ():
            found.setdefault(subject, set()).add(path.stem)
    return {subject: tuple(sorted(files)) for subject, files in found.items()}


def entries(
    names: Sequence[str], notes: Mapping[str, str], shown: Mapping[str, tuple[str, ...]]
) -> list[Entry]:
    """One for each name. A name that nothing shows and nothing explains is `notyet`, and says so."""
    made = []
    for name in names:
        files = shown.get(name, ())
        status, reason = UNSUPPORTED.get(name, (WORKS, "") if files else (NOT_YET, "no test shows it"))
        made.append(Entry(name.removeprefix("type "), status, reason or notes.get(name, ""), files))
    return made


def compatibility_page() -> str:
    shown = proofs()
    types = {f"type {name}": f"Arrow `{arrow}`" for name, arrow in TYPES.items()}
    return f"""{_NOTICE}
# What of Flight SQL works

`works`: a test shows it through a real client on a real gateway. `notyet` and `never` have a reason, and are
refused with a sentence and the code `NOT_SUPPORTED`. The last column names the test files, most of them in
`tests/protocol/flight_sql/`.

## Clients

| client | version | tests |
|---|---|---|
{_clients()}

## Calls

{_table(entries(calls(), {}, shown))}

## Commands

{_table(entries(commands(), {}, shown))}

## Actions

{_table(entries(actions(), {}, shown))}

## Types

{_table(entries(list(types), types, shown))}

## And besides

{_table(entries(list(BESIDES), BESIDES, shown))}

## SqlInfo

All codes are answered, as `{"`, `".join(shown.get("SqlInfo", ("nothing",)))}` shows; a `no` is an answer too.

| code | name | status | answer |
|---|---|---|---|
{_sql_info(is_shown="SqlInfo" in shown)}
"""


def _subjects(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == _MARK:
                    yield from (ast.literal_eval(argument) for argument in decorator.args)


def _table(rows: Sequence[Entry]) -> str:
    lines = ["| name | status | | shown by |", "|---|---|---|---|"]
    for row in rows:
        files = ", ".join(f"`{name}`" for name in row.shown_by)
        lines.append(f"| {row.name} | `{row.status}` | {row.note} | {files} |")
    return "\n".join(lines)


def _clients() -> str:
    texts = [(ROOT / "requirements" / name).read_text() for name in ("dev.in", "runtime.in")]
    pins = dict(re.findall(r"^([\w.-]+)(?:\[\w+\])?==(\S+)$", "\n".join(texts), re.MULTILINE))
    driver = tomllib.loads((CLIENTS / "jdbc/driver.toml").read_text())
    node = json.loads((CLIENTS / "node/package.json").read_text())["dependencies"]
    node_name = "@lakehouse-rs/flight-sql-client"
    listed = (
        ("ADBC for Python", pins["adbc-driver-flightsql"], "test_adbc"),
        ("Flight SQL JDBC", driver["revision"], "test_jdbc"),
        ("polars", pins["polars"], "test_polars"),
        ("pandas", pins["pandas"], "test_pandas"),
        ("SQLAlchemy", pins["sqlalchemy"], "test_sqlalchemy"),
        ("pyarrow.flight", pins["pyarrow"], "test_pyarrow_flight"),
        (f"node, {node_name}", node[node_name], "test_node"),
        ("DuckDB", pins["duckdb"], "test_duckdb"),
    )
    return "\n".join(f"| {name} | {version} | `{file}` |" for name, version, file in listed)


def _sql_info(*, is_shown: bool) -> str:
    facts = all_facts(Abilities(cancel=True, bulk_ingestion=True, batch_updates=True))
    lines = []
    for name, code in sorted(sql.SqlInfo.items(), key=lambda item: item[1]):
        status = WORKS if is_shown and code in facts else NOT_YET
        lines.append(f"| {code} | {name} | `{status}` | {_answer(name, *facts[code])} |")
    return "\n".join(lines)


def _answer(name: str, kind: ValueKind, value: Any) -> str:
    if name.endswith("_VERSION") and value:
        return "the version"
    match kind:
        case ValueKind.FLAG:
            return "yes" if value else "no"
        case ValueKind.TEXTS:
            return f"{len(value)} words"
        case ValueKind.INT32_LISTS:
            return f"{len(value)} types"
        case ValueKind.TEXT:
            return f"`` {value} ``" if value and "`" in value else f"`{value}`" if value else "—"
        case _:
            return str(value)
