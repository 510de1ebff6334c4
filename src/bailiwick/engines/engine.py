"""An engine, as the gateway sees it: something that runs one statement at a time in a session we opened.

It decides nothing. Who may ask, how long it may take and where the rows go is known above.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bailiwick.engines.description import Description
from bailiwick.engines.task import EngineTask
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import LeaseId, NodeId, OperationId, QueryId
from bailiwick.policy.expressions import Checked, ExpressionKind

if TYPE_CHECKING:
    # pyarrow is behind them, and an engine is begun before that is imported.
    from bailiwick.engines.parameters import ParameterValue
    from bailiwick.engines.write import Write


@dataclass(frozen=True, slots=True)
class Batch:
    """One `arrow_batch` of Spark: a whole Arrow IPC stream (schema, record batch, end), not decoded."""

    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Spark's own count of tasks, so far. Not of bytes read: that would tell of rows which a policy hides."""

    tasks_done: int
    tasks_total: int
    tasks_running: int = 0


@dataclass(frozen=True, slots=True)
class Completed:
    """The operation ended well. Always the last event of a successful execution."""


Event = Batch | Progress | Completed


class EngineLost(Exception):  # noqa: N818  (it says what happened; whose fault it is, `Engine.explain_loss` knows)
    """The way to the engine broke, or it does not answer. What it was doing may or may not have happened."""


class EngineSession(ABC):
    """A Spark session that only we know the name of."""

    handle: str
    """The secret by which the catalog knows this session; it reaches the engine once and no client ever."""

    @abstractmethod
    async def describe(
        self,
        sql: str,
        *,
        lease: LeaseId,
        timeout_s: float,
        parameters: "Sequence[ParameterValue]" = (),
        principal: str = "",
    ) -> Description:
        """Ask Spark what `sql` is for `principal`, with these parameters or without any. Runs nothing.

        Raises BailiwickError if it makes no sense.
        """

    async def check_expression(
        self,
        table: tuple[str, ...] | None,
        kind: ExpressionKind,
        column: str | None,
        sql: str,
        value_type: str | None,
        *,
        lease: LeaseId,
        timeout_s: float,
    ) -> Checked:
        """What a rule's expression is, as `policy.expressions.ExpressionCheck` says, by what enforces it.

        An engine without a guard refuses all of them.
        """
        del table, kind, column, sql, value_type, lease, timeout_s
        raise BailiwickError(Code.NOT_SUPPORTED, "This engine enforces no rules.")

    @abstractmethod
    def execute(
        self,
        sql: str,
        *,
        operation: OperationId,
        lease: LeaseId,
        reattachable: bool = False,
        parameters: "Sequence[ParameterValue]" = (),
        principal: str = "",
        may_call: bool = False,
        explains: bool = False,
        query_id: QueryId | None = None,
    ) -> AsyncIterator[Event]:
        """Run `sql`, with a parameter for each `?`, for `principal`, as `current_user()` names it.

        `may_call` lets it call procedures; `explains` says that it is an EXPLAIN, which must not tell rules.
        Its tasks are remembered under `query_id`, and without one not at all.

        Closing the iterator early does not stop Spark: call `interrupt` for that. Raises EngineLost when the
        engine goes away under it. With `reattachable` a broken stream alone is mended, as long as the engine
        lives.
        """

    def write(
        self, write: "Write", *, operation: OperationId, lease: LeaseId, query_id: QueryId | None = None
    ) -> AsyncIterator[Event]:
        """Write rows, in one commit. Otherwise as `execute` with `reattachable`.

        An engine that takes no rows refuses all of them.
        """
        del write, operation, lease, query_id
        raise BailiwickError(Code.NOT_SUPPORTED, "This engine takes no rows.")

    async def tasks(self, timeout_s: float) -> Sequence[EngineTask]:
        """The newest tasks of queries, of all sessions of this engine, the oldest first.

        An engine that remembers none tells of none. QUERY_TIMEOUT without an answer within `timeout_s`.
        """
        del timeout_s
        return ()

    @abstractmethod
    async def interrupt(self, operation: OperationId) -> None:
        """Stop the operation. Fine if it is gone already."""

    @abstractmethod
    async def use(self, catalog: str, namespace: tuple[str, ...], *, lease: LeaseId | None = None) -> None:
        """Make these current. A namespace is looked up under `lease`; a missing one is SCHEMA_NOT_FOUND."""

    @abstractmethod
    async def localise(
        self, *, time_zone: str, double_quoted_identifiers: bool, compressed: bool = False
    ) -> None:
        """Let these hold in what runs next. Costs nothing where they do already, as with the same again.

        `compressed` lets batches come with zstd bodies, which only some clients can read.
        """

    @abstractmethod
    async def settle(self, timeout_s: float) -> bool:
        """Interrupt whatever still runs here. True when Spark confirmed that all of it is gone.

        Only then is the session fit for another query.
        """

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether every operation ended in a way that Spark confirmed."""

    @abstractmethod
    async def close(self) -> None:
        """Forget the session, and end what still runs in it."""


class Engine(ABC):
    """One Spark Connect server."""

    node_id: NodeId

    generation: int = 0
    """Counts the engine's starts. A session opened under an earlier one is gone with it."""

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether sessions can be opened now."""

    @abstractmethod
    async def wait_ready(self, timeout_s: float) -> None:
        """Return when the engine is ready. Raises CIRCUIT_BREAKER_OPEN after `timeout_s`."""

    @abstractmethod
    async def open_session(self) -> EngineSession:
        """A new session with the gateway's confs, its catalog handle in place."""

    def note_trouble(self, why: str) -> None:
        """A query found it dead or silent. Whoever watches over it may want to know."""
        del why

    @abstractmethod
    async def explain_loss(self) -> str | None:
        """After a transport failure: `out_of_memory`, `exited`, `stopped` or None if the engine seems alive.

        Waits up to a second for the process's end to be known.
        """
