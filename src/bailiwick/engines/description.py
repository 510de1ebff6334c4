"""What Spark says a statement is, before anyone runs it."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    READ = "read"
    """A query: gives rows, leaves nothing behind."""
    CHANGE = "change"
    """DDL, DML, procedures: runs once, never retried blindly."""
    SHOWS = "shows"
    """SHOW, DESCRIBE, EXPLAIN: a command that only tells."""
    SESSION = "session"
    """SET, USE, temp views, variables, scripts, cache: would leave something in the session it ran in."""


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
