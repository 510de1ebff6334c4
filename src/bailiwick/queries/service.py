"""The query service: what doors call.

It takes statements, finds out who answers them (the gateway itself for administration and system tables,
Spark for all the rest), keeps every query's life in one place until it has ended, and ends it when its
deadline passes, when somebody cancels it, when its reader leaves, or when the gateway stops. It knows no
wire. What happens inside a life is told in `spark_life.py` and `local_life.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

import pyarrow as pa

from bailiwick.catalog.inventory import Inventory
from bailiwick.clock import Clock
from bailiwick.clock import wall as wall_clock
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.schedule import ANYWHERE
from bailiwick.identity.abilities import EVERYONES, Whose, may_cancel
from bailiwick.identity.principal import Principal
from bailiwick.identity.statements import redacted
from bailiwick.ids import LeaseId, QueryId, new_query_id
from bailiwick.policy.statements import redacted as without_rules
from bailiwick.queries import failures
from bailiwick.queries.accounts import NO_ACCOUNTS, Accounts
from bailiwick.queries.allowance import allowance
from bailiwick.queries.answering import Answering
from bailiwick.queries.cancel_answers import CancelAnswers
from bailiwick.queries.cancellations import CancelElsewhere, nowhere_else
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.descriptions import Descriptions
from bailiwick.queries.draining import wait_idle
from bailiwick.queries.information_schema import information_schema
from bailiwick.queries.own import Answerer
from bailiwick.queries.query import Failure, Query, State, shown_sql
from bailiwick.queries.recorder import Recorder
from bailiwick.queries.reporting import report_end
from bailiwick.queries.routing import SystemName
from bailiwick.queries.running import Running
from bailiwick.queries.running_result import RunningResult
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.spark_side import SessionPool, SparkSide, WorkOf
from bailiwick.queries.statement import UNKNOWN_ROWS, Prepared, Result, Statement
from bailiwick.queries.store import QueryStore
from bailiwick.queries.submissions import SubmissionStore
from bailiwick.queries.submissions_memory import MemorySubmissionStore
from bailiwick.queries.submitting import Submissions
from bailiwick.queries.system_tables import Node, SystemTable, SystemTables, nodes_table, queries_table
from bailiwick.results.config import ResultsConfig
from bailiwick.results.spool import Spool
from bailiwick.telemetry.breadcrumbs import trail
from bailiwick.telemetry.logs import logger
from bailiwick.telemetry.metrics import Metrics
from bailiwick.telemetry.traces import NO_TRACES, Traces, span

HISTORY_SHOWN_MAX = 10_000
"""So many ended queries at most are shown by `system.runtime.queries`."""

LIVES_END_S = 5.0
"""How long cancelled lives get to notice."""

_log = logger(__name__)

Work = Callable[[Running, SparkSide], Awaitable[None]]
"""What a query's life is, where it is not the answer to its statement."""


class QueryService:
    """Use as a context: queries run inside, and nothing is left of them after."""

    def __init__(
        self,
        *,
        pool: SessionPool,
        answerers: Sequence[Answerer],
        nodes: Callable[[], Sequence[Node]],
        store: QueryStore,
        spool: Spool,
        limits: LimitsConfig,
        results: ResultsConfig,
        catalog_version: Callable[[], int],
        policy_version: Callable[[], int] = lambda: 0,
        accounts: Accounts = NO_ACCOUNTS,
        metrics: Metrics,
        traces: Traces = NO_TRACES,
        affected_rows: Callable[[LeaseId], int] = lambda _lease: UNKNOWN_ROWS,
        inventory: Inventory | None = None,
        system_tables: Sequence[SystemTable] = (),
        submissions: SubmissionStore | None = None,
        work_of: WorkOf = lambda _statement, _reads: ANYWHERE,
        cancel_elsewhere: CancelElsewhere = nowhere_else,
        wall: Clock = wall_clock,
    ) -> None:
        """`answerers` know what the gateway answers by itself.

        `system_tables` are there besides queries, nodes and, with an inventory, `information_schema`. Without
        `accounts` nothing is put on record; without `submissions` clients' keys are known as long as this is.
        """
        self.accounts = accounts
        self._cancel_elsewhere = cancel_elsewhere
        self._store = store
        self.spool = spool
        self._limits = limits
        self._results = results
        self._metrics = metrics
        self._traces = traces
        self._wall = wall
        self._tasks = asyncio.TaskGroup()
        self.side = SparkSide(
            pool=pool,
            tasks=self._tasks,
            limits=limits,
            message_bytes_max=results.message_bytes_max,
            catalog_version=catalog_version,
            policy_version=policy_version,
            affected_rows=affected_rows,
            descriptions=Descriptions(),
            begin_change=self._begin_change,
            wall=wall,
            work_of=work_of,
        )
        self._sandbox = Sandbox()
        own = [queries_table(self.visible, wall), nodes_table(nodes), *system_tables]
        if inventory is not None:
            own += information_schema(inventory, lambda: self.system_tables)
        self._tables = SystemTables(self._sandbox, own)
        answering = (CancelAnswers(self.cancel), *answerers)
        self.answering = Answering(answering, self._tables, self.side, self._timeout_s)
        self._recorder = Recorder(store, history_days=limits.history_days, wall=wall)
        self._recording: asyncio.Task[None] | None = None
        self._active: dict[QueryId, Running] = {}
        self._lives: set[asyncio.Task[None]] = set()
        self._is_draining = False
        self._submissions = Submissions(submissions or MemorySubmissionStore(), self._find, limits, wall)
        self._measure()

    async def __aenter__(self) -> Self:
        lost = await self._store.fail_unfinished(Failure.of(failures.restarted()), at=self._wall())
        if lost:
            _log.warning("queries_lost_by_restart", count=lost)
        await self._tasks.__aenter__()
        self._recording = self._tasks.create_task(self._recorder.run(), name="recorder")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drain(0.0)
        if self._recording is not None:
            self._recording.cancel()
        # What went wrong outside is not the tasks' affair: it goes its own way.
        await self._tasks.__aexit__(None, None, None)
        await self._recorder.flush()
        self._sandbox.close()

    @property
    def system_tables(self) -> Mapping[SystemName, pa.Schema]:
        """The tables that are answered here, with their columns."""
        return self._tables.schemas

    async def prepare(self, statement: Statement) -> Prepared:
        """What the statement is. Nothing runs; what may not run is refused here already.

        A refusal has an id like a query's, under which the log keeps its whole cause.
        """
        try:
            self._check(statement)
            with span("prepare"):
                return await self.answering.prepare(statement)
        except BailiwickError as error:
            error.query_id = error.query_id or new_query_id()
            self.accounts.turn_away(statement, error)
            raise

    @asynccontextmanager
    async def run(
        self,
        statement: Statement,
        *,
        query_id: QueryId | None = None,
        expected_schema: bytes | None = None,
        work: Work | None = None,
    ) -> AsyncIterator[Result]:
        """Run the statement. Inside, a read has begun and a change has happened; frames come as they come.

        Leaving before the last frame cancels the query. Raises SEMANTIC_ERROR if the result's schema is not
        `expected_schema`. With `work`, that is what the query does; its statement only says so to people. A
        statement with a key runs once, whoever sends it how often: see `submitting.py`.
        """
        self._check(statement)
        await self.accounts.admit()
        query_id = query_id or new_query_id()
        if statement.submission is not None:
            async with self._run_once(statement, query_id, expected_schema, work) as result:
                yield result
            return
        running = self._begin(statement, query_id, expected_schema, work)
        try:
            await running.wait_ready()
            yield RunningResult(running)
        finally:
            self._leave(running)

    @asynccontextmanager
    async def _run_once(
        self, statement: Statement, query_id: QueryId, expected_schema: bytes | None, work: Work | None
    ) -> AsyncIterator[Result]:
        patience_s = self._timeout_s(statement)
        claim = await self._submissions.claim(statement, query_id, patience_s=patience_s)
        if isinstance(claim, Result):
            yield claim
            return
        with claim.unless_begun():
            running = self._begin(statement, query_id, expected_schema, work)
            witness = self._tasks.create_task(claim.witness(running), name=f"witness-{query_id}")
        try:
            await asyncio.shield(witness)
            await running.wait_ready()
            yield RunningResult(running)
        finally:
            if claim.goes_on(running):
                self._tasks.create_task(self._see_off(running), name=f"see-off-{query_id}")
            else:
                self._leave(running)

    async def cancel(self, query_id: QueryId, by: Principal) -> None:
        """End the query. One that has ended already is fine; one that `by` may not end does not exist."""
        running = self._active.get(query_id)
        query = await self._find(query_id)
        if query is None or not may_cancel(by, query.principal, query.tenant):
            raise failures.unknown_query(query_id)
        if running is not None:
            running.cancel(failures.cancelled_by(by.name))
        elif not query.state.is_terminal:
            await self._cancel_elsewhere(query_id, by.name)

    def carry_out(self, query_id: QueryId, by: str) -> bool:
        """End a query of ours, as another gateway has allowed. False if it does not run here."""
        running = self._active.get(query_id)
        if running is not None:
            running.cancel(failures.cancelled_by(by))
        return running is not None

    def is_trifle(self, statement: Statement) -> bool:
        """Whether it has little to read, as far as is known, and a session lies idle for it."""
        return not self._is_draining and self.side.is_trifle(statement)

    def progress(self, query_id: QueryId) -> tuple[int, int] | None:
        """Tasks done and tasks in all, as far as Spark knows now; None for a query that does not live."""
        running = self._active.get(query_id)
        return None if running is None or running.is_ended else (running.tasks_done, running.tasks_total)

    def position(self, query_id: QueryId) -> int | None:
        """Its place in the queue, from 1; None for a query that does not wait."""
        running = self._active.get(query_id)
        is_queued = running is not None and running.state is State.QUEUED
        return self.side.pool.position(query_id) if is_queued else None

    async def visible(self, whose: Whose = EVERYONES) -> list[Query]:
        """Their queries: those that live, then the newest that ended."""
        await self._recorder.flush()
        history = await self._store.recent(whose, limit=HISTORY_SHOWN_MAX)
        queries = {query.id: query for query in history}
        for running in self._active.values():
            if whose.covers(running.query.principal, running.query.tenant):
                queries[running.id] = replace(running.query, queue_position=self.position(running.id))
        return list(queries.values())

    async def drain(self, timeout_s: float) -> None:
        """Take nothing on any more, give what runs `timeout_s` to end, then end it."""
        self._is_draining = True
        if timeout_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await wait_idle(self._active)
        for running in list(self._active.values()):
            running.cancel(failures.shutting_down())
        if self._lives:
            await asyncio.wait(self._lives, timeout=LIVES_END_S)
        for life in self._lives:
            life.cancel()

    async def _find(self, query_id: QueryId) -> Query | None:
        running = self._active.get(query_id)
        if running is not None:
            return running.query
        await self._recorder.flush()
        return await self._store.find(query_id)

    async def _begin_change(self, running: Running) -> None:
        await self._submissions.begin(running.id)
        await self.accounts.begin_change(running)

    def _leave(self, running: Running) -> None:
        running.leave()
        self._active.pop(running.id, None)

    async def _see_off(self, running: Running) -> None:
        """Nobody reads it any more, and it shall come to its end all the same."""
        try:
            with suppress(BailiwickError):
                async for _ in RunningResult(running).frames():
                    pass
        finally:
            self._leave(running)

    async def end_all(self) -> None:
        """End what runs: other gateways have taken this one for dead, and told its queries' ends."""
        for running in list(self._active.values()):
            running.cancel(failures.given_up_on())

    def _check(self, statement: Statement) -> None:
        if self._is_draining:
            raise failures.shutting_down()
        try:
            size_bytes = len(statement.sql.encode())
        except UnicodeEncodeError:
            raise BailiwickError(Code.PARSE_ERROR, "The statement is not valid Unicode.") from None
        if size_bytes > self._limits.sql_bytes_max:
            raise failures.sql_too_long(size_bytes, self._limits.sql_bytes_max)
        if statement.timeout_s is not None and not statement.timeout_s > 0:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "A timeout must be more than 0 s.")

    def _timeout_s(self, statement: Statement) -> float:
        return allowance(self._limits, statement.principal.roles).deadline_s(statement.timeout_s)

    def _begin(
        self,
        statement: Statement,
        query_id: QueryId,
        expected_schema: bytes | None,
        work: Work | None,
    ) -> Running:
        if query_id in self._active:
            raise BailiwickError(Code.INVALID_ARGUMENTS, f"Query {query_id} is running already.")
        principal = statement.principal
        query = Query(
            query_id,
            principal.name,
            principal.tenant,
            statement.door,
            shown_sql(without_rules(redacted(statement.sql))),
            created_at=self._wall(),
            actor=principal.actor,
        )
        running = Running(
            query,
            statement,
            recorder=self._recorder,
            spool=self.spool,
            results=self._results,
            wall=self._wall,
            on_end=self._note_end,
            expected_schema=expected_schema,
        )
        self._active[query_id] = running
        self._recorder.note(query)
        with trail(query_id), self._traces.query(query_id):
            life = self._tasks.create_task(self._live(running, work), name=f"query-{query_id}")
        self._lives.add(life)
        life.add_done_callback(self._lives.discard)
        running.begin(life, self._timeout_s(statement))
        return running

    async def _live(self, running: Running, work: Work | None) -> None:
        """One query's life. Whatever goes wrong in it is told to whoever waits for it, and to nobody else."""
        try:
            if work is None:
                await self.answering.answer(running)
            else:
                await work(running, self.side)
        except asyncio.CancelledError:
            # Cancelled by whoever ended the query; if nobody has, the service itself is going down.
            running.cancel(failures.shutting_down())
        except BailiwickError as error:
            running.fail(error)
        except Exception as error:
            _log.exception("query_broke", query_id=running.id)
            running.fail(failures.internal(error))

    def _note_end(self, running: Running) -> None:
        self.accounts.end(running)
        report_end(running, self._metrics, self._traces)

    def _measure(self) -> None:
        def count(*states: State) -> int:
            return sum(running.state in states for running in self._active.values())

        self._metrics.queries_running.set_function(lambda: count(State.PLANNING, State.RUNNING))
        self._metrics.queue_length.set_function(lambda: count(State.QUEUED))
        self._metrics.spool_bytes.set_function(lambda: self.spool.held_bytes)
