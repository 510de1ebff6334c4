"""The Spark Connect door: a client's bytes become plans of ours, and answers become a client's bytes.

It knows who calls, because the service around it has asked first; it knows nothing of gRPC. It only decides
who answers: `statements.py` carries out plans, `settings.py` knows Spark's settings, and so on.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyspark
from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect import screen
from bailiwick.doors.spark_connect.answers import Answers
from bailiwick.doors.spark_connect.config import SparkConnectConfig
from bailiwick.doors.spark_connect.errors import cursor
from bailiwick.doors.spark_connect.operations import Operation, interrupted
from bailiwick.doors.spark_connect.own_tables import put_own_rows
from bailiwick.doors.spark_connect.responses import LogLimits, ResponseLog
from bailiwick.doors.spark_connect.screen import ScreenedAnalysis, ScreenedPlan
from bailiwick.doors.spark_connect.session import Session
from bailiwick.doors.spark_connect.sessions import DOOR, Sessions
from bailiwick.doors.spark_connect.settings import Settings
from bailiwick.doors.spark_connect.shared_session import Place
from bailiwick.doors.spark_connect.statements import Statements
from bailiwick.doors.spark_connect.texts import Texts, is_query
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import new_operation_id, new_query_id
from bailiwick.queries import failures
from bailiwick.queries.service import QueryService
from bailiwick.queries.statement import Statement
from bailiwick.results.spool import Spool
from bailiwick.telemetry.logs import logger

WAITING_EVERY_S = 1.0
"""How often the client of a waiting operation hears of it."""
ON_LOOP_BYTES_MAX = 64 << 10
"""Larger requests are screened in a thread."""
COMPRESSED = b"\x28\xb5\x2f\xfd"
"""How all begins that zstd wrote. It may come to much, however little was sent; so: in a thread, too."""
DRAINED_LOOK_EVERY_S = 0.05
ENDS_TOLD_WITHIN_S = 2.0
"""So long for queries that are ended to say how: a change may have been carried out all the same."""

SENT_BY_CLIENTS_THEMSELVES = frozenset({"Command.ml_command"})
"""Stock clients tidy up after models at their end, whether they had any or not. Nobody asked for it."""

T = TypeVar("T")
_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    principal: Principal
    place: str
    """`loopback` or `remote`."""


class SparkConnectDoor:
    """Belongs to one event loop. Close it before the query service."""

    def __init__(
        self,
        queries: QueryService,
        sessions: Sessions,
        spool: Spool,
        config: SparkConnectConfig,
        log_limits: LogLimits,
    ) -> None:
        self._queries = queries
        self.sessions = sessions
        self._spool = spool
        self._config = config
        self._log_limits = log_limits
        self._texts = Texts(sessions, queries.side)
        self._settings = Settings(sessions)
        self._statements = Statements(queries, sessions, self._texts, self._settings)
        self._sweeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        screen.prepare()
        self._sweeping = asyncio.create_task(self.sessions.sweep_forever(), name="spark-sessions")

    async def drain(self, timeout_s: float) -> None:
        """Let those who read come to an end, for `timeout_s` at most. Who has not by then is told why."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._followed():  # noqa: ASYNC110 - readers come and go, and nobody else asks
                    await asyncio.sleep(DRAINED_LOOK_EVERY_S)
        followed = self._followed()
        if tasks := [each.task for each in followed if each.task is not None and not each.task.done()]:
            await asyncio.wait(tasks, timeout=ENDS_TOLD_WITHIN_S)
        for operation in followed:
            operation.log.break_off(operation.log.error or failures.shutting_down())

    def _followed(self) -> list[Operation]:
        operations = (operation for session in self.sessions for operation in session.operations)
        return [operation for operation in operations if operation.is_followed]

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self.sessions.close()

    def session(self, caller: Caller, session_id: str, observed: str | None) -> Session:
        return self.sessions.find(caller.principal, session_id, observed or "", caller.place)

    def clone(self, caller: Caller, session: Session, session_id: str) -> Session:
        return self.sessions.clone(session, caller.principal, session_id, caller.place)

    async def screened_plan(self, caller: Caller, request: bytes) -> ScreenedPlan:
        """The plan, if it may pass. One that may not is put on record as a statement that was turned away."""
        try:
            may_run_code = self.sessions.may_run_code(caller.principal)
            return await _screened(partial(screen.execute, may_run_code=may_run_code), request)
        except BailiwickError as error:
            kind = error.details.get("kind", "what cannot be read")
            if kind not in SENT_BY_CLIENTS_THEMSELVES:
                error.query_id = error.query_id or new_query_id()
                statement = Statement(f"Spark Connect: {kind}", caller.principal, DOOR)
                self._queries.accounts.turn_away(statement, error)
            raise

    async def screened_analysis(self, caller: Caller, request: bytes) -> ScreenedAnalysis:
        may_run_code = self.sessions.may_run_code(caller.principal)
        return await _screened(partial(screen.analyse, may_run_code=may_run_code), request)

    async def screened_artifacts(self, request: bytes) -> proto.AddArtifactsRequest:
        return await _screened(screen.add_artifacts, request)

    def execute(self, caller: Caller, session: Session, screened: ScreenedPlan, request: bytes) -> Operation:
        """ExecutePlan: the operation, begun."""
        if screened.contents.has_code:
            session.note_code()
        operation_id = screened.operation_id or str(new_operation_id())
        fingerprint = hashlib.sha256(request).digest()

        def make() -> Operation:
            operation = Operation(
                operation_id,
                new_query_id(),
                ResponseLog(self._spool, self._log_limits),
                frozenset(screened.tags),
                screened.reattachable,
                fingerprint,
            )
            life = self._live(caller, session, operation, screened)
            operation.begin(asyncio.create_task(life, name=f"spark-operation-{operation.query_id}"))
            return operation

        return session.operations.begin(operation_id, fingerprint, make)

    def reattached(self, session: Session, operation_id: str) -> Operation:
        """ReattachExecute."""
        operation = session.operations.find(operation_id)
        if not operation.reattachable:
            raise cursor("NOT_REATTACHABLE", "The operation was not begun as one that can be taken up again.")
        return operation

    async def responses(
        self, session: Session, operation: Operation, after: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        """What the operation answers, in pieces of a stream that its client takes up again where it ends.

        Raises what the operation ended with.
        """
        answers, sent_bytes = Answers(session, operation), 0
        clock = asyncio.get_running_loop().time
        ends_at = clock() + self._config.stream_s
        reading = operation.log.read(after, idle_s=WAITING_EVERY_S)
        with operation.read(), contextlib.ExitStack() as stack:
            if not operation.reattachable:
                stack.callback(session.operations.forget, operation.id)
            async for response in reading:
                if response is not None:
                    yield response
                    sent_bytes += len(response)
                elif self._queries.position(operation.query_id) is not None:
                    await answers.waiting()
                is_enough = clock() > ends_at or sent_bytes > self._config.stream_bytes_max
                if is_enough and operation.reattachable:
                    return

    def failed(self, session: Session, operation: Operation, error: BailiwickError) -> bool:
        """Note that the client is told of its operation's end. Whether it may send the same again."""
        may_retry = error is operation.log.error and operation.log.count == 0 and error.retryable
        if may_retry and error.retry_after_s is not None:
            session.operations.forget(operation.id, may_come_again=True)
        return may_retry

    def release(self, session: Session, request: Any) -> None:
        """ReleaseExecute. What is gone already is fine."""
        if request.HasField("release_all"):
            session.operations.forget(request.operation_id)
            return
        try:
            operation = session.operations.find(request.operation_id)
        except BailiwickError:
            return
        operation.log.release(request.release_until.response_id)

    async def interrupt(self, caller: Caller, session: Session, request: Any) -> list[str]:
        """Interrupt: which operations were ended, as the client calls them. None but the session's own."""
        kinds = proto.InterruptRequest
        running = [operation for operation in session.operations if not operation.log.is_ended]
        match request.interrupt_type:
            case kinds.INTERRUPT_TYPE_ALL:
                chosen = running
            case kinds.INTERRUPT_TYPE_TAG:
                chosen = [each for each in running if request.operation_tag in each.tags]
            case kinds.INTERRUPT_TYPE_OPERATION_ID:
                chosen = [each for each in running if each.id == request.operation_id]
            case _:
                raise BailiwickError(Code.INVALID_ARGUMENTS, "The call does not say what to interrupt.")
        for operation in chosen:
            if not self._queries.carry_out(operation.query_id, caller.principal.name):
                operation.end(interrupted(caller.principal.name))
        return [operation.id for operation in chosen]

    async def configure(self, caller: Caller, session: Session, operation: Any) -> Any:
        """Config."""
        return await self._settings.answer(session, caller.principal, operation)

    async def analyse(self, caller: Caller, session: Session, screened: ScreenedAnalysis) -> Any:
        """AnalyzePlan: the response, without the session's names."""
        if screened.kind == "spark_version":
            response = proto.AnalyzePlanResponse()
            response.spark_version.version = pyspark.__version__
            return response
        if screened.contents.has_code:
            session.note_code()
        principal = caller.principal
        session.brought_rows.check(screened.contents.digests)
        await put_own_rows(screened.contents.reads, self._queries.answering.tables, principal)
        await self._texts.check_reads(session, principal, screened.sql_texts)

        async def answer(place: Place) -> Any:
            async with place.lease(principal, None, self.sessions.work_for(principal)) as lease:
                return await lease.session.analyse(
                    await session.brought_rows.put_into(screened.request),
                    lease=lease.id,
                    timeout_s=self._queries.side.limits.timeout_s,
                    standing=place.standing,
                    principal=principal.name,
                )

        is_plain = all(map(is_query, screened.sql_texts)) and not screened.contents.may_make_views
        return await self.sessions.ask_anywhere(session, principal, answer, leaves_nothing=is_plain)

    async def _live(
        self, caller: Caller, session: Session, operation: Operation, screened: ScreenedPlan
    ) -> None:
        """One operation's life. Whatever goes wrong in it is told to who reads it, and to nobody else."""
        log = operation.log
        try:
            await self._statements.carry_out(session, operation, screened, caller.principal)
            await Answers(session, operation).complete()
            log.finish()
        except asyncio.CancelledError:
            log.fail(operation.ended_by or failures.shutting_down())
        except BailiwickError as error:
            log.fail(error)
        except Exception as error:
            _log.exception("operation_broke", query_id=operation.query_id)
            log.fail(failures.internal(error))


async def _screened(judge: Callable[[bytes], T], request: bytes) -> T:
    if len(request) <= ON_LOOP_BYTES_MAX and COMPRESSED not in request:
        return judge(request)
    return await asyncio.to_thread(judge, request)
