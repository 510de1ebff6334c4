"""One operation of Spark, from its request to an end that Spark confirmed.

A task of its own reads the stream, so that a reader who is cancelled does not tear down the call: Spark would
work on unseen. What nobody reads any more is thrown away as it comes. An operation does not stop by itself;
interrupting it is the session's affair.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

import grpc
from pyspark.sql.connect import proto

from bailiwick.engines.engine import Batch, Completed, EngineLost, Event, Progress
from bailiwick.engines.spark_calls import SparkCalls, is_broken
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import LeaseId, OperationId, QueryId
from bailiwick.telemetry.traces import current_trace

RESPONSES_AHEAD_MAX: Final = 4
REATTACH_PAUSES_S: Final = (0.0, 0.1, 0.3)
RELEASE_EVERY_BYTES: Final = 4 << 20
RELEASE_TIMEOUT_S: Final = 5.0

_SILENT: Final = frozenset({None, "result_complete", "sql_command_result"})
"""Responses that say nothing to us; None are the ones with only a schema or metrics."""

_END: Final = None
"""After the last response of an operation that ended well."""


class Operation:
    """Runs `plan` under a lease. `events` or `responses` is for its one reader, the rest for the session.

    With `loads_under` it belongs to its lease, but the catalog and the guard know it by the other one.
    """

    def __init__(
        self,
        calls: SparkCalls,
        plan: proto.Plan,
        *,
        operation: OperationId,
        lease: LeaseId | None,
        reattachable: bool = False,
        sql: str = "",
        tags: Sequence[str] = (),
        loads_under: LeaseId | None = None,
    ) -> None:
        self._calls = calls
        self.id = operation
        self.lease = lease
        self._sql = sql
        self._reattachable = reattachable
        known_by = loads_under or lease
        self._request = proto.ExecutePlanRequest(
            operation_id=operation, tags=[*([known_by] if known_by else []), *tags, *_trace_tags()]
        )
        # Given to the constructor, it would be parsed again, and a deep one refused.
        self._request.plan.CopyFrom(plan)
        self._responses: asyncio.Queue[Any] = asyncio.Queue(RESPONSES_AHEAD_MAX)
        self._is_abandoned = False
        self.is_confirmed = False
        """Whether Spark itself said how it ended: only then is it known to be gone."""
        self.ended: asyncio.Task[None] = asyncio.create_task(self._pump(), name=f"operation-{operation}")

    async def events(self) -> AsyncIterator[Event]:
        """What happens, in order. Ends after Completed, or raises what went wrong."""
        responses = self.responses()
        async with aclosing(responses):
            async for response in responses:
                event = _event(response)
                if event is not None:
                    yield event
        yield Completed()

    async def responses(self) -> AsyncGenerator[Any, None]:
        """Spark's answers as they are, in order. Raises what went wrong."""
        try:
            while (response := await self._responses.get()) is not _END:
                if isinstance(response, Exception):
                    raise response
                yield response
        finally:
            self.abandon()

    def abandon(self) -> None:
        """What comes is not wanted any more. The stream is read on, for its end; that is still told."""
        self._is_abandoned = True
        while not self._responses.empty():
            self._responses.get_nowait()

    async def _pump(self) -> None:
        responses = self._reattached() if self._reattachable else self._plain()
        try:
            async with aclosing(responses):
                async for response in responses:
                    # It has been sent, and may be large.
                    self._request.ClearField("plan")
                    if not self._is_abandoned:
                        await self._responses.put(response)
            self.is_confirmed = True
            await self._responses.put(_END)
        except grpc.aio.AioRpcError as error:
            failure = await self._calls.failure(error, self._sql)
            self.is_confirmed = failure.is_verdict
            await self._responses.put(failure.error)
        except (BailiwickError, EngineLost) as error:
            await self._responses.put(error)
        except asyncio.CancelledError:
            # Either the session closes, or the channel was closed under the call. A reader must not wait on.
            self.abandon()
            self._responses.put_nowait(EngineLost("the session or the channel was closed"))
            raise

    async def _plain(self) -> AsyncGenerator[Any, None]:
        """The server keeps nothing of what it has sent, and forgets the operation at the stream's end."""
        async for response in self._calls.stream("ExecutePlan", self._request):
            yield response

    async def _reattached(self) -> AsyncGenerator[Any, None]:
        """Mends a stream that broke or that the server ended early, from the last response that came."""
        option = self._request.request_options.add()
        option.reattach_options.reattachable = True
        call = self._calls.stream("ExecutePlan", self._request)
        last_id, held_bytes, breaks = "", 0, 0
        try:
            while True:
                try:
                    async for response in call:
                        last_id, breaks = response.response_id, 0
                        yield response
                        if response.HasField("result_complete"):
                            return
                        held_bytes += response.ByteSize()
                        if held_bytes > RELEASE_EVERY_BYTES:
                            await self._release(until=last_id)
                            held_bytes = 0
                except grpc.aio.AioRpcError as error:
                    if not is_broken(error) or breaks == len(REATTACH_PAUSES_S):
                        raise
                    await asyncio.sleep(REATTACH_PAUSES_S[breaks])
                    breaks += 1
                call = self._calls.stream("ReattachExecute", self._reattach_request(last_id))
        finally:
            await self._release()

    def _reattach_request(self, last_id: str) -> proto.ReattachExecuteRequest:
        return proto.ReattachExecuteRequest(operation_id=self.id, last_response_id=last_id or None)

    async def _release(self, until: str | None = None) -> None:
        """Let the server forget what it keeps for us; one that cannot be reached has nothing to forget."""
        request = proto.ReleaseExecuteRequest(operation_id=self.id)
        if until is None:
            request.release_all.SetInParent()
        else:
            request.release_until.response_id = until
        with suppress(BailiwickError, EngineLost):
            await self._calls.unary("ReleaseExecute", request, timeout_s=RELEASE_TIMEOUT_S)


def _event(response: Any) -> Event | None:
    kind = response.WhichOneof("response_type")
    if kind == "arrow_batch":
        return Batch(response.arrow_batch.data, response.arrow_batch.row_count)
    if kind == "execution_progress":
        return _progress(response.execution_progress)
    if kind in _SILENT:
        return None
    raise BailiwickError(Code.NOT_SUPPORTED, f"Spark answered with {kind}, which is not supported here.")


def _progress(progress: Any) -> Progress:
    return Progress(
        tasks_done=sum(stage.num_completed_tasks for stage in progress.stages),
        tasks_total=sum(stage.num_tasks for stage in progress.stages),
        tasks_running=progress.num_inflight_tasks,
    )


def operation_tags(
    principal: str,
    *,
    may_call: bool = False,
    explains: bool = False,
    query_id: QueryId | None = None,
    standing: LeaseId | None = None,
    reads_only: bool = False,
    user_tags: Sequence[str] = (),
) -> list[str]:
    """What the guard is told of an operation, besides its lease. Spark takes no commas in tags.

    A `standing` lease says that the session is the principal's own. Tags of the principal's are written in a
    way that is never taken for ours.
    """
    tags = []
    if principal:
        tags.append("P" + base64.urlsafe_b64encode(principal.encode()).decode().rstrip("="))
    if query_id:
        tags.append(f"Q{query_id}")
    if standing:
        tags.append(f"S{standing}")
    flags = [flag for flag, is_set in (("C", may_call), ("E", explains), ("R", reads_only)) if is_set]
    return [*tags, *flags, *("U" + tag.encode().hex() for tag in user_tags)]


def _trace_tags() -> list[str]:
    """By which Spark's own records (its jobs, its event log) are joined with the trace of whoever asked."""
    trace = current_trace()
    return [] if trace is None else [f"T{trace.trace_id}"]
