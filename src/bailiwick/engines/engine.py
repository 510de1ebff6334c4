"""An engine, as the gateway sees it: something that runs one statement at a time in a session we opened.

It decides nothing. Who may ask, how long it may take and where the rows go is known above.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
        standing: LeaseId | None = None,
    ) -> Description:
        """Ask Spark what `sql` is for `principal`, with these parameters or without any. Runs nothing.

        Raises BailiwickError if it makes no sense. For `standing` see `execute_plan`.
        """

    async def parse(
        self, sql: str, *, lease: LeaseId, timeout_s: float, standing: LeaseId | None = None
    ) -> Description:
        """As `describe`, as far as the text alone tells: names are not looked up, and there is no schema.

        Parameters may stand in it, also by name.
        """
        del sql, lease, timeout_s, standing
        raise _takes_no_plans()

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

    def execute_plan(
        self,
        plan: Any,
        *,
        operation: OperationId,
        lease: LeaseId,
        standing: LeaseId | None = None,
        principal: str = "",
        query_id: QueryId | None = None,
        user_tags: Sequence[str] = (),
        reattachable: bool = False,
        may_call: bool = False,
        explains: bool = False,
        makes_view: bool = False,
        reads_only: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Run a `proto.Plan` and give every `ExecutePlanResponse` as it comes. Otherwise as `execute`.

        `standing` is the other lease of a session that is the principal's own (`fleet/dedicated.py`): what a
        view made under it holds may be read, and things that a pooled session refuses may be left behind.
        With `makes_view` tables are loaded under it: what is left behind outlives `lease`. With `reads_only`
        a command that does more than tell is ACCESS_DENIED with the reason `changes`, and has not begun.
        An engine that takes no plans refuses all of them.
        """
        del plan, operation, lease, standing, principal, query_id, user_tags, reattachable, may_call
        del explains, makes_view, reads_only
        raise _takes_no_plans()

    async def analyse(
        self,
        request: Any,
        *,
        lease: LeaseId,
        timeout_s: float,
        standing: LeaseId | None = None,
        principal: str = "",
        query_id: QueryId | None = None,
    ) -> Any:
        """What a `proto.AnalyzePlanRequest` asks, as `proto.AnalyzePlanResponse`. Runs nothing.

        QUERY_TIMEOUT without an answer within `timeout_s`.
        """
        del request, lease, timeout_s, standing, principal, query_id
        raise _takes_no_plans()

    async def config(self, operation: Any) -> Any:
        """What a `proto.ConfigRequest.Operation` gets or sets, as `proto.ConfigResponse`."""
        del operation
        raise _takes_no_plans()

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
    async def localise(self, *, time_zone: str, double_quoted_identifiers: bool) -> None:
        """Let these hold in what runs next. Costs nothing where they do already, as with the same again."""

    @abstractmethod
    async def compress(self, is_wanted: bool) -> None:
        """Let batches of what runs next come with zstd bodies, which only some clients can read, or plain.

        Costs nothing where they do already.
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

    async def settle_lease(self, lease: LeaseId, timeout_s: float) -> bool:
        """As `settle`, for what runs under `lease`: the others go on, where several can be at once."""
        del lease
        return await self.settle(timeout_s)

    def is_lease_settled(self, lease: LeaseId) -> bool:
        """Whether every operation under `lease` ended in a way that Spark confirmed."""
        del lease
        return self.is_settled

    @abstractmethod
    async def close(self) -> None:
        """Forget the session, and end what still runs in it."""


def _takes_no_plans() -> BailiwickError:
    return BailiwickError(Code.NOT_SUPPORTED, "This engine takes no plans.")


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
