"""A query service that answers from a script, for testing doors without an engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from bailiwick.engines.description import Kind, Parameter
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId, new_query_id
from bailiwick.queries.statement import Prepared, RanOn, Result, Statement
from bailiwick.results.batches import Frame, frames_of_table, schema_message


@dataclass(frozen=True, slots=True)
class Script:
    """What happens to one statement."""

    table: pa.Table
    kind: Kind = Kind.READ
    affected_rows: int = -1
    parameters: tuple[Parameter, ...] = ()
    announced: pa.Schema | None = None
    """The schema at prepare, where it differs from what is streamed."""
    schema_unknown: bool = False
    """Whether prepare cannot tell the schema."""
    ran_on: RanOn | None = None
    failure: BailiwickError | None = None
    """Raised after the batches."""
    breaks: bool = False
    """Whether running it raises something that nobody foresaw."""
    held: asyncio.Event | None = None
    """After the first batch nothing comes until this is set."""
    slow: asyncio.Event | None = None
    """Nothing at all is there to read until this is set."""


@dataclass(slots=True)
class Run:
    statement: Statement
    query_id: QueryId
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: bool = False
    cancelling: asyncio.Event = field(default_factory=asyncio.Event)


class ScriptedQueries:
    """Knows its scripts by their SQL, or by how it begins; anything else is a SYNTAX_ERROR."""

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.scripts = scripts
        self.by_prefix: dict[str, Script] = {}
        self.prepared: list[Statement] = []
        self.runs: list[Run] = []
        self.started = asyncio.Event()
        self.tasks = (1, 4)
        """Done, and in all, of whatever runs."""
        self.waiting: int | None = None
        """The place in the queue of whatever runs."""
        self.is_idle = False
        """Whether an engine lies idle for whatever comes."""

    def hold(self, sql: str) -> asyncio.Event:
        """From now on the script stops after its first batch, until the event is set."""
        held = asyncio.Event()
        self.scripts[sql] = replace(self.scripts[sql], held=held)
        return held

    async def prepare(self, statement: Statement) -> Prepared:
        script = self._script(statement)
        self.prepared.append(statement)
        schema = schema_message(script.announced or script.table.schema)
        return Prepared(script.kind, None if script.schema_unknown else schema, script.parameters)

    @asynccontextmanager
    async def run(
        self, statement: Statement, *, query_id: QueryId | None = None, expected_schema: bytes | None = None
    ) -> AsyncIterator[Result]:
        del expected_schema  # The door compares for itself as well, and that is what is tested here.
        script = self._script(statement)
        if script.breaks:
            raise RuntimeError("a secret that no client may see")
        run = Run(statement, query_id or new_query_id())
        self.runs.append(run)
        self.started.set()
        result = _ScriptedResult(run, script)
        try:
            if script.slow is not None:
                await _unless_cancelled(run, script.slow)
            yield result
        finally:
            run.cancelled = not result.complete
            run.ended.set()

    async def cancel(self, query_id: QueryId, by: Principal) -> None:
        run = self._living(query_id)
        if run is None or run.statement.principal != by:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "no such query")
        run.cancelling.set()

    def is_trifle(self, statement: Statement) -> bool:
        return self.is_idle and statement.sql in self.scripts

    def progress(self, query_id: QueryId) -> tuple[int, int] | None:
        return None if self._living(query_id) is None else self.tasks

    def position(self, query_id: QueryId) -> int | None:
        return None if self._living(query_id) is None else self.waiting

    def _living(self, query_id: QueryId) -> Run | None:
        living = (run for run in self.runs if run.query_id == query_id and not run.ended.is_set())
        return next(living, None)

    def _script(self, statement: Statement) -> Script:
        if script := self.scripts.get(statement.sql):
            return script
        for prefix, script in self.by_prefix.items():
            if statement.sql.startswith(prefix):
                return script
        raise BailiwickError(Code.SYNTAX_ERROR, "no such script")


class _ScriptedResult(Result):
    def __init__(self, run: Run, script: Script) -> None:
        self._run = run
        self.query_id = run.query_id
        self.kind = script.kind
        self.schema, self._frames = frames_of_table(script.table)
        self.complete = False
        self._script = script

    @property
    def affected_rows(self) -> int:
        return self._script.affected_rows

    @property
    def ran_on(self) -> RanOn | None:
        return self._script.ran_on

    async def frames(self) -> AsyncIterator[Frame]:
        for frame in self._frames:
            yield frame
            if self._script.held is not None:
                await _unless_cancelled(self._run, self._script.held)
        self.complete = True
        if self._script.failure is not None:
            raise self._script.failure


async def _unless_cancelled(run: Run, event: asyncio.Event) -> None:
    """Wait for `event`. QUERY_CANCELLED if the run is cancelled first."""
    waits = [asyncio.create_task(each.wait()) for each in (event, run.cancelling)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if run.cancelling.is_set():
        raise BailiwickError(Code.QUERY_CANCELLED, "cancelled", query_id=run.query_id)
