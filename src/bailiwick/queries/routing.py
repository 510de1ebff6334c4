"""Which statements are about the gateway itself or its catalog, and so are not for Spark.

A statement that reads `system.<schema>.<table>` or `information_schema.<table>` and nothing else is answered
in this process. Spark cannot see those tables and this process cannot see the lake's, so one statement cannot
read both. Text is never searched for table names: the tree of DuckDB's own parser is, which knows strings,
comments and quotes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bailiwick.errors import BailiwickError, Code

CATALOG = "system"
LAKE = "lake"
INFORMATION_SCHEMA = "information_schema"

Tree = Mapping[str, Any]
"""A parsed statement, as DuckDB's json_serialize_sql gives it."""

SystemName = tuple[str, str, str]
"""Catalog, schema and name of a table of ours, in lower case."""

_TABLES_WITHOUT_NAMES = frozenset({"SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY"})
_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
_FORBIDDEN_FUNCTIONS = frozenset({"current_setting", "write_log", "getvariable", "query", "query_table"})


@dataclass(frozen=True, slots=True)
class SystemQuery:
    """A statement over system tables only."""

    tree: Tree
    """Its parse tree, in which the tables have the names they have inside the sandbox."""
    tables: frozenset[SystemName]
    parameter_count: int = 0
    """How many `?` it has."""


def mentions_system(sql: str) -> bool:
    """A cheap look that never misses a statement about system tables."""
    lowered = sql.lower()
    return CATALOG in lowered or INFORMATION_SCHEMA in lowered


def sandbox_name(name: SystemName) -> tuple[str, str]:
    """Schema and name inside the sandbox, where `system` and `information_schema` are DuckDB's own."""
    catalog, schema, table = name
    return f"{catalog}_{schema}", table


def route(
    sql: str, parse: Callable[[str], Tree | None], known_tables: frozenset[SystemName]
) -> SystemQuery | None:
    """The statement as one over system tables, or None if it is not about them.

    `parse` gives None for what is not one SELECT in DuckDB's eyes. Raises NOT_SUPPORTED for a mixture and
    TABLE_NOT_FOUND for a system table that does not exist.
    """
    tree = parse(sql)
    if tree is None:
        return None
    nodes = list(nodes_of(tree))
    paths = [_path(node) for node in nodes if node.get("type") == "BASE_TABLE"]
    ours = {path: name for path in paths if (name := _system_name(path)) is not None}
    if not ours:
        return None
    for path, name in ours.items():
        if name not in known_tables:
            raise BailiwickError(Code.TABLE_NOT_FOUND, f"There is no table {'.'.join(path)}.")
    _refuse_mixture(nodes, paths)
    for node in nodes:
        _rename(node, frozenset(ours.values()))
    return SystemQuery(tree, frozenset(ours.values()), _parameter_count(nodes))


def _parameter_count(nodes: list[dict[str, Any]]) -> int:
    identifiers = {str(node.get("identifier")) for node in nodes if node.get("class") == "PARAMETER"}
    if not all(identifier.isdecimal() for identifier in identifiers):
        raise _not_supported("Parameters of statements over system tables have no names: write `?`.")
    return len(identifiers)


def _refuse_mixture(nodes: list[dict[str, Any]], paths: list[tuple[str, ...]]) -> None:
    """Everything that a statement reads must be a system table, or come from one."""
    own_names = {entry["key"].lower() for node in nodes for entry in _common_table_expressions(node)}
    for path in paths:
        if _system_name(path) is None and not (len(path) == 1 and path[0].lower() in own_names):
            raise _not_supported(f"System tables cannot be read together with {'.'.join(path)}.")
    for node in nodes:
        kind = node.get("type")
        if kind == "TABLE_FUNCTION":
            function = _function_name(node.get("function") or {})
            if function not in _TABLE_FUNCTIONS:
                raise _not_supported(f"{function}() cannot be read together with system tables.")
        elif _is_table(node) and kind != "BASE_TABLE" and kind not in _TABLES_WITHOUT_NAMES:
            raise _not_supported("System tables can be read by plain queries only.")
        elif node.get("class") == "FUNCTION" and _function_name(node) in _FORBIDDEN_FUNCTIONS:
            raise _not_supported(f"{_function_name(node)}() is not for system tables.")


def _not_supported(message: str) -> BailiwickError:
    return BailiwickError(Code.NOT_SUPPORTED, message)


def _rename(node: dict[str, Any], used: frozenset[SystemName]) -> None:
    """Tables, and columns that are spelled with their table's whole name, get their names of the sandbox."""
    if node.get("type") == "BASE_TABLE":
        name = _system_name(_path(node))
        if name is not None:
            node["catalog_name"] = ""
            node["qualified_name"] = {"path": [*sandbox_name(name)]}
    elif node.get("type") == "COLUMN_REF":
        columns = node.get("column_names") or []
        for length in (3, 2):
            name = _system_name(tuple(columns[:length]))
            if len(columns) > length and name in used:
                node["column_names"] = [*sandbox_name(name), *columns[length:]]
                return


def _system_name(path: tuple[str, ...]) -> SystemName | None:
    """What `path` means if it is one of ours. Without a catalog, `information_schema` is the lake's."""
    match tuple(part.lower() for part in path):
        case ("system", schema, table):
            return CATALOG, schema, table
        case ("lake", "information_schema", table) | ("information_schema", table):
            return LAKE, INFORMATION_SCHEMA, table
    return None


def _is_table(node: Mapping[str, Any]) -> bool:
    """Expressions have a class; of the rest only tables have both an alias and a sample."""
    return "class" not in node and "sample" in node and "alias" in node


def _path(node: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple((node.get("qualified_name") or {}).get("path") or ())


def _function_name(node: Mapping[str, Any]) -> str:
    return str(node.get("function_name", "")).lower()


def _common_table_expressions(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return (node.get("cte_map") or {}).get("map") or []


def nodes_of(tree: Tree) -> Iterator[dict[str, Any]]:
    """Every object of the tree. Without recursion: how deep it is, its author decides."""
    rest: list[Any] = [tree]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            yield one
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
