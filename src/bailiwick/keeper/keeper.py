"""The keeper's work: one life of an engine after the other, until it is told to stop.

    starting ──► ready ──► draining ──► ended: the next life, or the keeper's own end
       └───────────┴── the process ends ──► ended: the next life, after a pause

It starts the engine, waits for its end, says why, pauses, starts the next. Beside that `heartbeat.py` tells
the gateway how things stand. However this ends, no engine is left behind: it ends with its standard input.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from typing import Any, Final

from bailiwick import __version__
from bailiwick.clock import Clock, monotonic
from bailiwick.doors.config import TlsConfig
from bailiwick.doors.tls import Tls
from bailiwick.engines.launch import OUT_OF_MEMORY_EXIT_CODE
from bailiwick.engines.process import EngineProcess
from bailiwick.errors import CannotStartError
from bailiwick.fleet.measures import measured, memory_limit_bytes
from bailiwick.fleet.registry import EndReason
from bailiwick.fleet.report import EngineState, Report
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.keeper.config import KeeperConfig
from bailiwick.keeper.engine import EngineStarter
from bailiwick.keeper.forwarder import Forwarder
from bailiwick.keeper.gateway import Answered, GatewayCalls, GatewayRefusedError, GatewayUnreachableError
from bailiwick.keeper.heartbeat import Heartbeats, Standing
from bailiwick.keeper.watch import Watch
from bailiwick.telemetry.logs import logger

BACKOFF_MAX_S: Final = 30.0
STEADY_S: Final = 60.0

Announce = Callable[[str], None]

_log = logger(__name__)


class Keeper:
    """Open it with `opened`, `run` it once. A first `stop` lets running queries end, a second does not."""

    def __init__(
        self,
        config: KeeperConfig,
        calls: GatewayCalls,
        forwarder: Forwarder,
        starter: EngineStarter,
        announce: Announce,
        *,
        watch: Watch | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self._config = config
        self._calls = calls
        self._forwarder = forwarder
        self._starter = starter
        self._announce = announce
        self._watch = watch or Watch()
        self._clock = clock
        self._standing = Standing()
        self._memory_limit_bytes = memory_limit_bytes()
        self._stopping = asyncio.Event()
        self._at_once = asyncio.Event()

    @classmethod
    async def opened(cls, stack: AsyncExitStack, config: KeeperConfig, announce: Announce) -> "Keeper":
        """With its door open and everything found that an engine needs. Raises CannotStartError."""
        config.check()
        tls = await stack.enter_async_context(Tls.open(_tls(config)))
        tokens = await asyncio.to_thread(ServiceTokens, config.token_file)
        forwarder = Forwarder(config.bind, config.port, tls=tls)
        stack.push_async_callback(forwarder.stop)
        await forwarder.start()
        starter = EngineStarter(config)
        await starter.prepare()
        return cls(config, GatewayCalls(config.gateway, tokens, config.files), forwarder, starter, announce)

    def stop(self) -> None:
        if self._stopping.is_set():
            self._at_once.set()
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop`. CannotStartError if at first the gateway refuses, or no engine comes up."""
        beats = Heartbeats(self._calls, self._standing, self._report)
        beating = asyncio.create_task(beats.beat_for_ever(), name="heartbeats")
        try:
            await self._live_for_ever()
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _live_for_ever(self) -> None:
        backoff_s = self._config.engine.restart_backoff_s
        is_first = True
        while not self._stopping.is_set():
            started_at = self._clock()
            reason = await self._live(is_first)
            is_first = False
            await self._end_life(reason)
            if self._stopping.is_set():
                return
            if reason == "stopped" or self._clock() - started_at > STEADY_S:
                backoff_s = self._config.engine.restart_backoff_s
            else:
                await self._pause(backoff_s)
                backoff_s = min(max(backoff_s, 0.1) * 2, BACKOFF_MAX_S)

    async def _live(self, is_first: bool) -> EndReason | None:
        """One life from its first report to its end. Why it ended; None if it never began."""
        standing = self._standing
        answer = await self._accepted(is_first)
        if answer is None:
            return None
        standing.catalog_uri = answer.catalog_uri
        try:
            process = standing.process = await self._starter.start(standing.life, answer.catalog_uri)
        except OSError as error:  # No disk, no processes: such things pass.
            _log.warning("engine_not_started", reason=error.strerror)
            return "exited"
        try:
            if await self._is_up(process):
                await self._serve(process)
            elif is_first and not self._stopping.is_set():
                raise CannotStartError(f"the engine did not start; see {self._starter.log}")
        finally:
            self._forwarder.aim(None)
            is_ended_by_us = not process.exited.done()
            code = await process.end(self._config.engine.stop_grace_s)
        return _meaning(code, is_ended_by_us)

    async def _accepted(self, is_first: bool) -> Answered | None:
        """The gateway's word for this life, however long it takes; None if asked to stop."""
        standing = self._standing
        while standing.answer is None and not self._stopping.is_set():
            if is_first and standing.refused is not None:
                raise CannotStartError(f"the gateway refuses this engine: {standing.refused}")
            await _any(standing.heard, self._stopping)
        return None if self._stopping.is_set() else standing.answer

    async def _is_up(self, process: EngineProcess) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.engine.start_timeout_s):
                await _any(self._stopping, futures=(process.port, process.exited))
        return process.port.done() and not process.exited.done() and not self._stopping.is_set()

    async def _serve(self, process: EngineProcess) -> None:
        """Until the process ends, or is not wanted any more and has drained. One that hangs is ended."""
        port = process.port.result()
        self._forwarder.aim(port)
        self._standing.become(EngineState.READY)
        _log.info("engine_ready", node_id=self._config.name, pid=process.pid)
        token = self._standing.life.engine_token.reveal()
        watching = asyncio.create_task(self._end_hung(process, f"127.0.0.1:{port}", token))
        try:
            await self._until_over(process)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _end_hung(self, process: EngineProcess, address: str, token: str) -> None:
        await self._watch.wait_hung(address, token)
        await process.end(0)

    async def _until_over(self, process: EngineProcess) -> None:
        standing, is_announced = self._standing, False
        while not process.exited.done() and not self._stopping.is_set():
            answer = standing.answer
            if answer is not None:
                if not is_announced:
                    self._announce(f"ready node={self._config.name} engine={self._forwarder.address}")
                    is_announced = True
                if answer.catalog_uri != standing.catalog_uri:
                    # What runs in it asks a gateway that is not there any more: nothing to drain.
                    _log.warning("catalog_moved", consequence="the engine is started anew")
                    return
                if answer.drain:
                    break
            await _any(standing.heard, self._stopping, futures=(process.exited,))
        if not process.exited.done():
            await self._drain(process)

    async def _drain(self, process: EngineProcess) -> None:
        """Let what runs end, for `drain_s` at most. The gateway knows what runs; without it, the engine."""
        standing = self._standing
        standing.become(EngineState.DRAINING)
        _log.info("engine_draining", node_id=self._config.name, timeout_s=self._config.drain_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.drain_s):
                while not process.exited.done() and not self._at_once.is_set():
                    await _any(standing.heard, self._at_once, futures=(process.exited,))
                    if self._is_idle(process):
                        return

    def _is_idle(self, process: EngineProcess) -> bool:
        if self._standing.answer is not None:
            return self._standing.answer.in_use == 0
        is_silent = measured(process, self._memory_limit_bytes).active_operations == 0
        # A gateway that hears us but has not heard of the drain yet may still send something.
        return is_silent and not self._standing.is_heard

    def _report(self) -> Report:
        standing, config = self._standing, self._config
        seen = measured(standing.process, self._memory_limit_bytes)
        return Report(
            node_id=config.name,
            life=standing.life.name,
            address=self._forwarder.address,
            version=__version__,
            spark_version=version("pyspark"),
            engine_class=config.engine_class,
            master=config.engine.master,
            cores=self._starter.cores,
            heap_bytes=self._starter.heap_bytes,
            state=standing.state,
            memory=seen.memory,
            active_operations=seen.active_operations,
            engine_token=standing.life.engine_token,
            catalog_credential=standing.life.catalog_credential,
            stamp_key=standing.life.stamp_key,
        )

    async def _end_life(self, reason: EndReason | None) -> None:
        """Tell that it is over, if it ever began. Nothing is reported of it from here on."""
        standing = self._standing
        async with standing.telling:
            if reason is not None:
                _log.info("engine_ended", node_id=self._config.name, reason=reason)
                with suppress(GatewayRefusedError, GatewayUnreachableError):
                    await self._calls.ended(self._config.name, standing.life.name, reason)
            standing.begin_anew()
            standing.is_over = self._stopping.is_set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _tls(config: KeeperConfig) -> TlsConfig:
    if config.files is None:
        return TlsConfig()
    return TlsConfig(
        certificate_file=config.files.certificate,
        key_file=config.files.key,
        client_ca_file=config.files.authority,
        client_certificates="required",
    )


def _meaning(code: int, is_ended_by_us: bool) -> EndReason:
    if is_ended_by_us:
        return "stopped"
    return "out_of_memory" if code == OUT_OF_MEMORY_EXIT_CODE else "exited"


async def _any(*events: asyncio.Event, futures: "tuple[asyncio.Future[Any], ...]" = ()) -> None:
    """Return when one of these has happened. The futures are left as they are."""
    waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait([*waits, *futures], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
