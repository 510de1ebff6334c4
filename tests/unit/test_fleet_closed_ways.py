"""When the way to an engine is taken down, who waits for an answer has lost it, and was not cancelled."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from pyspark.sql.connect import proto

from bailiwick.engines.engine import EngineLost
from bailiwick.engines.spark_calls import SparkCalls
from bailiwick.ids import new_session_id

METHOD = "AnalyzePlan"


class SilentEngine:
    """Takes every call, and never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(self._take)
        service = "spark.connect.SparkConnectService"
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {METHOD: handler}),)
        )
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        stub = proto.SparkConnectServiceStub(self.channel)
        self.calls = SparkCalls(stub, "token", new_session_id(), "user")

    async def _take(self, _request: bytes, _context: Any) -> bytes:
        self.asked.set()
        await asyncio.Event().wait()
        return b""

    def ask(self) -> asyncio.Task[Any]:
        return asyncio.create_task(
            self.calls.unary(METHOD, proto.AnalyzePlanRequest(session_id="s"), timeout_s=30)
        )


@pytest.fixture
async def engine() -> AsyncIterator[SilentEngine]:
    made = SilentEngine()
    await made.server.start()
    yield made
    await made.channel.close()
    await made.server.stop(grace=None)


async def test_a_call_whose_channel_is_closed_has_lost_its_engine(engine: SilentEngine) -> None:
    waiting = engine.ask()
    await engine.asked.wait()
    await engine.channel.close()
    with pytest.raises(EngineLost):
        await waiting


async def test_a_call_after_the_channel_was_closed_has_lost_its_engine(engine: SilentEngine) -> None:
    await engine.channel.close()
    with pytest.raises(EngineLost):
        await engine.ask()


async def test_whoever_is_cancelled_while_they_wait_is_cancelled(engine: SilentEngine) -> None:
    waiting = engine.ask()
    await engine.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_deadline_of_the_callers_own_is_a_deadline(engine: SilentEngine) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await engine.calls.unary(METHOD, proto.AnalyzePlanRequest(session_id="s"), timeout_s=30)
