"""Policies as rows of a database: one JSON text for each role, grant, filter, mask, tagged column and rule.

Nothing is left out when they are read: a field or a kind that is not known was written by a later version,
and forgetting a part of a filter could show more than it does.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bailiwick.database.errors import UnusableDatabaseError
from bailiwick.policy.model import ColumnTags, Grant, Impersonation, Mask, Policies, Role, RowFilter


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """The definition says everything, so it is its own key."""

    kind: str
    definition: str


_KINDS: Mapping[str, TypeAdapter[Any]] = MappingProxyType(
    {
        "roles": TypeAdapter(Role),
        "grants": TypeAdapter(Grant),
        "filters": TypeAdapter(RowFilter),
        "masks": TypeAdapter(Mask),
        "tags": TypeAdapter(ColumnTags),
        "impersonations": TypeAdapter(Impersonation),
    }
)


def rows(policies: Policies) -> Iterator[Row]:
    """One for each element. Equal elements give equal rows."""
    for kind in _KINDS:
        for element in getattr(policies, kind):
            yield _row(kind, element)


def difference(before: Policies, after: Policies) -> tuple[list[Row], list[Row]]:
    """The rows to remove and those to add. What was not touched is the same object, and costs nothing."""
    removed: set[Row] = set()
    added: set[Row] = set()
    for kind in _KINDS:
        old, new = getattr(before, kind), getattr(after, kind)
        kept = {id(element) for element in old} & {id(element) for element in new}
        removed.update(_row(kind, element) for element in old if id(element) not in kept)
        added.update(_row(kind, element) for element in new if id(element) not in kept)
    return sorted(removed - added), sorted(added - removed)


def policies_of(version: int, found: Iterable[Row]) -> Policies:
    """The policies again. Raises UnusableDatabaseError for what this version of Bailiwick does not know."""
    elements: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    for row in found:
        if row.kind not in elements:
            raise UnusableDatabaseError(f"the database holds policies of an unknown kind, '{row.kind[:40]}'")
        elements[row.kind].append(_element(row))
    return Policies(version, **{kind: tuple(each) for kind, each in elements.items()})


def _row(kind: str, element: object) -> Row:
    return Row(kind, _text(_plain(element)))


def _element(row: Row) -> Any:
    try:
        written = json.loads(row.definition)
        element = _KINDS[row.kind].validate_python(written)
    except (ValueError, ValidationError) as error:
        raise UnusableDatabaseError(f"the database holds {row.kind} that cannot be read") from error
    if not _is_part(written, _plain(element)):
        raise UnusableDatabaseError(f"the database holds {row.kind} with more than this version knows")
    return element


def _plain(value: object) -> Any:
    """As JSON knows it; a set in an order of its own."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, frozenset):
        return sorted((_plain(item) for item in value), key=_text)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _is_part(written: Any, known: Any) -> bool:
    """Whether all that was written has been understood. What was not written has its default."""
    if isinstance(written, dict) and isinstance(known, dict):
        return all(key in known and _is_part(value, known[key]) for key, value in written.items())
    if isinstance(written, list) and isinstance(known, list):
        pairs = zip(written, known, strict=True) if len(written) == len(known) else ((1, 0),)
        return all(_is_part(one, other) for one, other in pairs)
    return bool(written == known)
