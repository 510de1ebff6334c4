r"""What `\l`, `\dn`, `\dt` and `\d` show, asked for in SQL like anything else.

So everyone sees what the gateway shows them, and no more.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Final

import pyarrow as pa

from bailiwick.cli import sql_text
from bailiwick.client.errors import QueryFailed

CATALOG: Final = "lake"
NAMESPACES_MAX: Final = 500
"""More are not walked through: a person wants to see, not to wait."""

Ask = Callable[[str], Awaitable[pa.Table]]
"""A statement's whole answer."""

Namespace = tuple[str, ...]


async def catalogs(ask: Ask) -> pa.Table:
    return await ask("SHOW CATALOGS")


async def namespaces(ask: Ask, pattern: str | None) -> pa.Table:
    found = [".".join(each) async for each in _walk(ask)]
    return pa.table({"namespace": pa.array([each for each in found if fits(each, pattern)], pa.string())})


async def tables(ask: Ask, pattern: str | None) -> pa.Table:
    """Tables and views whose name, with or without their namespace, fits the pattern."""
    rows: list[tuple[str, str, str]] = []
    async for namespace in _walk(ask):
        shown = ".".join(namespace)
        views = set(await _names(ask, sql_text.show_views(CATALOG, namespace), "viewName"))
        listed = await _names(ask, sql_text.show_tables(CATALOG, namespace), "tableName")
        for name in sorted({*listed, *views}):
            if fits(f"{shown}.{name}", pattern) or fits(name, pattern):
                rows.append((shown, name, "view" if name in views else "table"))
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table(
        [pa.array(column, pa.string()) for column in columns], names=["namespace", "name", "type"]
    )


async def columns(ask: Ask, name: tuple[str, ...]) -> pa.Table:
    return await ask(sql_text.describe_table(name))


def fits(name: str, pattern: str | None) -> bool:
    """Whether a name fits `*` and `?`; upper and lower case are the same, as they are to Spark."""
    if pattern is None:
        return True
    # Brackets would mean something to the library and nothing to the person.
    return fnmatchcase(name.lower(), pattern.lower().replace("[", "[[]"))


async def _walk(ask: Ask) -> AsyncIterator[Namespace]:
    """All namespaces, those inside of others after them."""
    waiting: list[Namespace] = [()]
    count = 0
    while waiting and count < NAMESPACES_MAX:
        parent = waiting.pop(0)
        for name in await _names(ask, sql_text.show_namespaces(CATALOG, parent), "namespace"):
            child = (*parent, name.rpartition(".")[2].strip("`"))
            waiting.append(child)
            count += 1
            yield child


async def _names(ask: Ask, statement: str, column: str) -> list[str]:
    try:
        answer = await ask(statement)
    except QueryFailed as failure:
        if failure.code in ("SCHEMA_NOT_FOUND", "ACCESS_DENIED", "UNSUPPORTED"):
            # Gone meanwhile, or not ours to see: the others are still worth showing.
            return []
        raise
    return [str(name) for name in answer.column(column).to_pylist()]
