"""Names of what is in the catalog: what may be one, how it is spelled in SQL, how it is kept in one column.

A name is only ever parts, never a text that somebody splits at its dots: a part may itself hold dots, quotes
or slashes.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PART_LENGTH_MAX = 255
DEPTH_MAX = 16

_SEPARATOR = "\x1f"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN_LENGTH_MAX = 100

Namespace = tuple[str, ...]
"""The levels of a schema's name; `()` is the catalog itself."""


class InvalidNameError(ValueError):
    """Nothing can have this name. The message repeats no more than a little of it."""


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table or view inside its catalog."""

    namespace: Namespace
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.namespace, self.name)

    def __str__(self) -> str:
        return spelled(self.parts)


def checked_namespace(levels: Sequence[str]) -> Namespace:
    """`levels` as a namespace of at least one level. Raises InvalidNameError."""
    if not levels:
        raise InvalidNameError("a namespace has at least one level")
    if len(levels) > DEPTH_MAX:
        raise InvalidNameError(f"a namespace has at most {DEPTH_MAX} levels")
    return tuple(checked_part(level) for level in levels)


def checked_table(namespace: Sequence[str], name: str) -> TableName:
    """A table's name of these parts. Raises InvalidNameError."""
    return TableName(checked_namespace(namespace), checked_part(name))


def checked_part(part: str) -> str:
    """`part` itself, if it may be one level of a name. Raises InvalidNameError."""
    if not part:
        raise InvalidNameError("a name cannot be empty")
    if len(part) > PART_LENGTH_MAX:
        raise InvalidNameError(f"a name has at most {PART_LENGTH_MAX} characters: {part[:20]}…")
    if _CONTROL.search(part):
        raise InvalidNameError("a name cannot hold control characters")
    try:
        part.encode()
    except UnicodeEncodeError as error:
        raise InvalidNameError("a name must be valid Unicode") from error
    return part


def spelled(parts: Iterable[str]) -> str:
    """As one writes it in SQL, quoted where it must be; cut when absurdly long.

    >>> spelled(("sales", "daily totals"))
    'sales.`daily totals`'
    """
    return ".".join(_quoted(part) for part in parts)


def joined(namespace: Namespace) -> str:
    """One text for a whole namespace, as the Iceberg protocol and our database have it."""
    return _SEPARATOR.join(namespace)


def parted(text: str) -> Namespace:
    """The levels again. Checks nothing: see `checked_namespace`."""
    return tuple(text.split(_SEPARATOR)) if text else ()


def _quoted(part: str) -> str:
    if len(part) > _SHOWN_LENGTH_MAX:
        part = f"{part[:_SHOWN_LENGTH_MAX]}…"
    if _PLAIN.match(part):
        return part
    return "`" + part.replace("`", "``") + "`"
