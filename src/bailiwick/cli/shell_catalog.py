r"""What `\l`, `\dn`, `\dt` and `\d` show, asked for in SQL like anything else.

So everyone sees what the gateway shows them, and no more. The gateway's own tables, in the catalog `system`,
are listed only for a pattern that asks for them.
"""

from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

import pyarrow as pa

from bailiwick.cli import sql_text

SYSTEM: Final = "system"

Ask = Callable[[str], Awaitable[pa.Table]]
"""A statement's whole answer."""


async def catalogs(ask: Ask) -> pa.Table:
    return await ask(sql_text.CATALOGS)


async def namespaces(ask: Ask, pattern: str | None) -> pa.Table:
    listed = await ask(sql_text.SYSTEM_NAMESPACES if _is_about_system(pattern) else sql_text.NAMESPACES)
    return _fitting(listed, pattern, lambda row: (row[0],))


async def tables(ask: Ask, pattern: str | None) -> pa.Table:
    """Tables and views whose name, with or without their namespace, fits the pattern."""
    listed = await ask(sql_text.SYSTEM_TABLES if _is_about_system(pattern) else sql_text.TABLES)
    return _fitting(listed, pattern, lambda row: (f"{row[0]}.{row[1]}", row[1]))


async def columns(ask: Ask, name: tuple[str, ...]) -> pa.Table:
    if len(name) == 3 and name[0].lower() == SYSTEM:
        return await ask(sql_text.system_columns(name[1], name[2]))
    return await ask(sql_text.describe_table(name))


def fits(name: str, pattern: str | None) -> bool:
    """Whether a name fits `*` and `?`; upper and lower case are the same, as they are to Spark."""
    if pattern is None:
        return True
    # Brackets would mean something to the library and nothing to the person.
    return fnmatchcase(name.lower(), pattern.lower().replace("[", "[[]"))


def _is_about_system(pattern: str | None) -> bool:
    return pattern is not None and pattern.lower().startswith(SYSTEM)


def _fitting(
    listed: pa.Table, pattern: str | None, names: Callable[[Sequence[str]], tuple[str, ...]]
) -> pa.Table:
    rows = zip(*(column.to_pylist() for column in listed.columns), strict=True)
    is_fitting = [any(fits(name, pattern) for name in names(row)) for row in rows]
    return listed.filter(pa.array(is_fitting, pa.bool_()))
