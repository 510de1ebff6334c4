"""How a policy writes the name of what it is about: parts between dots, quoted where need be, `*` at the end.

Unlike `names.spelled`, which is for people and cuts what is absurdly long, this loses nothing: what is
written here can be read again.
"""

import re
from collections.abc import Iterable

from bailiwick.names import InvalidNameError, checked_part

WILDCARD = "*"
TEXT_LENGTH_MAX = 8_192

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.*\s]+)")


def written(parts: Iterable[str]) -> str:
    """The parts as one text.

    >>> written(("lake", "sales", "daily totals"))
    'lake.sales.`daily totals`'
    """
    return ".".join(part if _PLAIN.match(part) else "`" + part.replace("`", "``") + "`" for part in parts)


def read(text: str) -> tuple[tuple[str, ...], bool]:
    """The parts of `text`, and whether a `*` follows them. Raises InvalidNameError.

    >>> read("lake.sales.*")
    (('lake', 'sales'), True)
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise InvalidNameError(f"a name has at most {TEXT_LENGTH_MAX} characters")
    parts: list[str] = []
    at = 0
    while True:
        if text[at:] == WILDCARD and parts:
            return tuple(parts), True
        match = _PART.match(text, at)
        if match is None:
            raise InvalidNameError(
                f"'{text[:100]}' is not a name: it has parts between dots, like lake.sales"
            )
        parts.append(checked_part((match[1] or "").replace("``", "`") or match[2]))
        at = match.end()
        if at == len(text):
            return tuple(parts), False
        if text[at] != ".":
            raise InvalidNameError(
                f"'{text[:100]}' is not a name: expected a dot after {written(parts)[:100]}"
            )
        at += 1
