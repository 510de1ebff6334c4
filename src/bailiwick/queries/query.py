"""One query, as it is recorded and as it is shown. A value: how it changes is for `machine.py` to say."""

from dataclasses import dataclass
from enum import StrEnum

from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import NodeId, OperationId, QueryId
from bailiwick.telemetry.scrub import scrub_secrets

SQL_SHOWN_MAX = 16_384
"""Longer statements are cut where they are recorded; they run whole."""


class State(StrEnum):
    QUEUED = "queued"
    """Waits for a session of an engine."""
    PLANNING = "planning"
    """Has one; nothing runs yet."""
    RUNNING = "running"
    FINISHING = "finishing"
    """The engine is done and free again; the reader is not."""
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset({State.FINISHED, State.FAILED, State.CANCELLED})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query did not finish, as far as it is recorded."""

    code: Code
    message: str

    @classmethod
    def of(cls, error: BailiwickError) -> "Failure":
        # The caller is told what they wrote themselves; what is recorded is read by others, too.
        return cls(error.code, scrub_secrets(error.message))


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try that an engine did not bring to its end, and that was not the last."""

    node_id: NodeId
    failure: Failure
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Moment:
    """A step of a query's story."""

    state: State
    event: str
    at: float


@dataclass(frozen=True, slots=True)
class Query:
    id: QueryId
    principal: str
    tenant: str
    door: str
    sql: str
    """Fit to be shown: without passwords, and cut to a bounded length."""
    created_at: float
    state: State = State.QUEUED
    kind: Kind | None = None
    node_id: NodeId | None = None
    operation: OperationId | None = None
    queue_position: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    rows: int = 0
    bytes: int = 0
    tasks_done: int = 0
    tasks_total: int = 0
    failure: Failure | None = None
    actor: str | None = None
    """Who asked, where that was on behalf of the principal."""
    attempts: tuple[Attempt, ...] = ()
    """What was tried before, on which engine. A handful."""
    is_fallback: bool = False
    """Whether it runs on the gateway's own engine because no other could be reached."""
    story: tuple[Moment, ...] = ()
    """Every change of state so far: a handful, as states are entered again by few retries only."""

    @property
    def may_have_written(self) -> bool:
        """Whether what it changed, if it changed anything, is not known to be undone."""
        return self.kind is Kind.CHANGE and self.operation is not None


def shown_sql(sql: str) -> str:
    """The statement as it is recorded."""
    return sql if len(sql) <= SQL_SHOWN_MAX else f"{sql[:SQL_SHOWN_MAX]}… ({len(sql)} characters)"
