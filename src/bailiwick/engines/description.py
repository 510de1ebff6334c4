"""What Spark says a statement is, before anyone runs it."""

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from bailiwick.errors import BailiwickError, Code

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS: Final = frozenset(
    {
        "kind",
        "command",
        "reads",
        "writes",
        "catalogs",
        "functions",
        "parameters",
        "dynamic_names",
        "deterministic",
        "schema",
    }
)


class Kind(StrEnum):
    READ = "read"
    """A query: gives rows, leaves nothing behind."""
    CHANGE = "change"
    """DDL, DML, procedures: runs once, never retried blindly."""
    SHOWS = "shows"
    """SHOW, DESCRIBE, EXPLAIN: a command that only tells."""
    SESSION = "session"
    """SET, USE, temp views, variables, scripts, cache: would leave something in the session it ran in."""
    OWN = "own"
    """USE and temp views in a session that is somebody's own, where they may stay. Elsewhere SESSION."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A `?` of the statement. `type` is Spark's simple string, or None where Spark cannot tell."""

    position: int
    type: str | None


@dataclass(frozen=True, slots=True)
class Description:
    kind: Kind
    command: str
    """Spark's own name of the root node, e.g. `Project`, `CreateTable`; shown in refusals and audit."""
    reads: tuple[str, ...] = ()
    """Full names (`lake.sales.orders`), quoted where they must be."""
    writes: tuple[str, ...] = ()
    catalogs: frozenset[str] = frozenset()
    functions: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    dynamic_names: bool = False
    """IDENTIFIER(…) or EXECUTE IMMEDIATE: the names above may not be all."""
    deterministic: bool = True
    schema: bytes | None = None
    """An encapsulated Arrow IPC schema message, as Spark will stream it; None where it cannot be told."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `Describe` in the engine answered. What we do not know is refused, not passed over."""
        try:
            return cls._from_object(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BailiwickError(
                Code.INTERNAL_ERROR,
                "Spark described the statement in a way that the gateway does not understand.",
                cause_text=f"{type(error).__name__}: {error}: {text[:1000]}",
            ) from error

    @classmethod
    def _from_object(cls, told: dict[str, Any]) -> Self:
        if told.keys() != _KEYS:
            raise ValueError(f"unexpected or missing keys: {sorted(told.keys() ^ _KEYS)}")
        schema = told["schema"]
        return cls(
            kind=Kind(told["kind"]),
            command=str(told["command"]),
            reads=tuple(full_name(parts) for parts in told["reads"]),
            writes=tuple(full_name(parts) for parts in told["writes"]),
            catalogs=frozenset(map(str, told["catalogs"])),
            functions=tuple(map(str, told["functions"])),
            parameters=tuple(Parameter(int(one["position"]), one["type"]) for one in told["parameters"]),
            dynamic_names=_flag(told["dynamic_names"]),
            deterministic=_flag(told["deterministic"]),
            schema=None if schema is None else base64.b64decode(schema, validate=True),
        )


def full_name(parts: Iterable[str]) -> str:
    """The parts as one writes them in SQL, quoted where they must be, never cut.

    >>> full_name(("lake", "sales", "daily totals"))
    'lake.sales.`daily totals`'
    """
    return ".".join(
        part if _PLAIN_NAME.fullmatch(part) else "`" + part.replace("`", "``") + "`" for part in parts
    )


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"not true or false: {value!r}")
    return value
