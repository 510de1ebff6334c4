"""The Spark that the gateway starts for itself and keeps alive.

It starts a child process, notices its end, says why, and starts another after a pause. Each life has a
number, its `generation`; sessions of an earlier one are gone. What a lost query should do is decided above.
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

from bailiwick.clock import Clock, wall
from bailiwick.engines import launch
from bailiwick.engines.class_archive import ClassArchive
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.engine import Engine, EngineSession
from bailiwick.engines.jars import Jars, Report, cache_directory, ensure_jars
from bailiwick.engines.java import find_java
from bailiwick.engines.process import EngineProcess
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import NodeId
from bailiwick.policy.stamp import StampKey

_BACKOFF_MAX_S = 30.0
_STEADY_S = 60.0
_LOSS_KNOWN_S = 1.0
_LOSS_RECENT_S = 10.0


class Channel(Protocol):
    """A connection to one life of an engine."""

    async def open_session(self, handle: str, conf: Mapping[str, str]) -> EngineSession: ...

    async def close(self) -> None: ...


Connect = Callable[[str, str], Channel]
"""Address and token to a channel; `SparkConnectChannel` is one."""


@dataclass(slots=True)
class _Life:
    """From one start of the process to its end."""

    generation: int
    started_at: float
    token: str = field(repr=False)
    process: EngineProcess
    channel: Channel | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    lost: asyncio.Event = field(default_factory=asyncio.Event)


class EmbeddedEngine(Engine):
    """Supervises one child process. Use as a context: it is ready inside and gone after."""

    def __init__(
        self,
        config: EngineConfig,
        data_directory: Path,
        *,
        catalog_uri: str,
        credential: str,
        connect: Connect,
        report: Report = lambda _line: None,
        clock: Clock = wall,
    ) -> None:
        self.node_id = NodeId("embedded")
        self.generation = 0
        self.restarts = 0
        self._config = config
        self._places = launch.Places.under(data_directory, config)
        self._catalog_uri = catalog_uri
        self._credential = credential
        self._connect = connect
        self._report = report
        self._clock = clock
        self._life: _Life | None = None
        self._stamp_key: StampKey | None = None
        self._changed = asyncio.Event()
        self._loss: tuple[str, float] | None = None
        self._stopping = False
        self._supervisor: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Bring the engine up, and keep it up until `stop`. Raises if it does not come up the first time."""
        await self.begin()
        try:
            await self.first_ready()
        except BaseException:
            await self.stop()
            raise

    async def begin(self) -> None:
        """Start it, and do not wait: it is kept up until `stop`."""
        command, jars = await asyncio.to_thread(self._prepare)
        self._supervisor = asyncio.create_task(self._supervise(command, jars), name="engine-supervisor")

    async def first_ready(self) -> None:
        """Return when it is up. Unlike later ones, a first start that fails is told at once: it will not get
        better by itself.
        """
        ready = asyncio.create_task(self.wait_ready(self._config.start_timeout_s))
        failed = asyncio.create_task(self._wait_any_loss())
        try:
            await asyncio.wait((ready, failed), return_when=asyncio.FIRST_COMPLETED)
            if self.is_ready:
                return
            raise BailiwickError(
                Code.INTERNAL_ERROR, f"The engine did not start; see {self._places.log / 'engine.log'}"
            )
        finally:
            for task in (ready, failed):
                task.cancel()
            await asyncio.gather(ready, failed, return_exceptions=True)

    async def stop(self) -> None:
        """End the process. Fine if it never started."""
        self._stopping = True
        if self._life is not None and not self._life.process.exited.done():
            await self._life.process.end(self._config.stop_grace_s)
        if self._supervisor is not None:
            self._supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None

    async def renew(self) -> None:
        """End the process; another one follows as after a loss. For one that is of no use any more."""
        if self._life is not None and not self._life.process.exited.done():
            await self._life.process.end(self._config.stop_grace_s)

    @property
    def is_ready(self) -> bool:
        return self._life is not None and self._life.ready.is_set() and not self._life.lost.is_set()

    @property
    def stamp_key(self) -> StampKey | None:
        """What the catalog seals its decisions with for the engine's present life. Any thread may ask."""
        return self._stamp_key

    @property
    def pid(self) -> int | None:
        return self._life.process.pid if self.is_ready and self._life else None

    @property
    def process(self) -> EngineProcess | None:
        """The present one, also while it starts or has just ended."""
        return self._life.process if self._life else None

    @property
    def started_at(self) -> float | None:
        return self._life.started_at if self._life else None

    @property
    def memory_bytes(self) -> int:
        """What the process holds of the machine's memory; 0 when there is none."""
        if self.pid is None:
            return 0
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return 0

    async def wait_ready(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not self.is_ready:
                    changed = self._changed
                    await changed.wait()
        except TimeoutError:
            raise BailiwickError(
                Code.CIRCUIT_BREAKER_OPEN, "The engine is being started", retryable=True, retry_after_s=1.0
            ) from None

    async def wait_lost(self, generation: int) -> None:
        """Return when that life of the engine is over, at once if it is already."""
        life = self._life
        if life is not None and life.generation == generation:
            await life.lost.wait()

    async def open_session(self) -> EngineSession:
        life = self._life
        if life is None or life.channel is None or life.lost.is_set():
            raise BailiwickError(
                Code.CIRCUIT_BREAKER_OPEN, "The engine is being started", retryable=True, retry_after_s=1.0
            )
        handle = secrets.token_urlsafe(24)
        return await life.channel.open_session(handle, {f"spark.sql.catalog.{launch.CATALOG}.token": handle})

    async def explain_loss(self) -> str | None:
        life = self._life
        if life is not None and not life.lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(life.lost.wait(), _LOSS_KNOWN_S)
        if self._loss is None:
            return None
        reason, at = self._loss
        # It may be back already; the caller asks about a call that broke a moment ago.
        return reason if not self.is_ready or self._clock() - at < _LOSS_RECENT_S else None

    def _prepare(self) -> tuple[list[str], Jars]:
        java = find_java(self._config.java_home)
        jars = ensure_jars(java, report=self._report)
        self._places.create()
        launch.write_private(self._places.credential, self._credential)
        archive = ClassArchive.fitting(java, jars, cache_directory())
        heap = launch.heap_bytes(self._config, psutil.virtual_memory().total)
        flags = archive.flags if self._config.class_data_sharing else ()
        command = launch.java_command(
            java,
            jars,
            self._places,
            heap_bytes=heap,
            archive_flags=flags,
            quick_compile=self._config.quick_compile,
        )
        return command, jars

    async def _wait_any_loss(self) -> None:
        while self._loss is None:
            await self._changed.wait()

    async def _supervise(self, command: list[str], jars: Jars) -> None:
        backoff_s = self._config.restart_backoff_s
        while True:
            started_at = self._clock()
            try:
                life = await self._begin(command, jars)
            except OSError:  # No disk, no processes: such things pass.
                self._note_loss("exited")
            else:
                try:
                    await self._live(life)
                finally:
                    await self._finish(life)
            if self._stopping:
                # Not left to cancellation alone: a closing gRPC channel may swallow it, and this would go on.
                return
            if self._clock() - started_at > _STEADY_S:
                backoff_s = self._config.restart_backoff_s
            await asyncio.sleep(backoff_s)
            backoff_s = min(max(backoff_s, 0.1) * 2, _BACKOFF_MAX_S)
            self.restarts += 1

    async def _begin(self, command: list[str], jars: Jars) -> _Life:
        token = launch.new_token()
        await asyncio.to_thread(self._write_properties, jars, token)
        process = await EngineProcess.start(
            command,
            environment=launch.engine_environment(os.environ, jars),
            directory=self._places.run,
            log=self._places.log / "engine.log",
        )
        self.generation += 1
        self._life = _Life(self.generation, self._clock(), token, process)
        return self._life

    def _write_properties(self, jars: Jars, token: str) -> None:
        stamp_key = StampKey.new()
        launch.write_private(self._places.stamp_key, stamp_key.text)
        self._stamp_key = stamp_key
        for left_behind in (*self._places.spill.glob("spark-*"), *self._places.spill.glob("blockmgr-*")):
            shutil.rmtree(left_behind, ignore_errors=True)
        properties = launch.engine_properties(
            self._config,
            self._places,
            jars,
            token=token,
            catalog_uri=self._catalog_uri,
            cores=launch.local_cores(self._config.master, len(os.sched_getaffinity(0))),
        )
        launch.write_private(self._places.properties, launch.properties_text(properties))

    async def _live(self, life: _Life) -> None:
        process = life.process
        await asyncio.wait(
            (process.port, process.exited),
            timeout=self._config.start_timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if process.port.done() and not process.exited.done():
            life.channel = self._connect(f"127.0.0.1:{process.port.result()}", life.token)
            life.ready.set()
            self._notify()
            await asyncio.shield(process.exited)

    async def _finish(self, life: _Life) -> None:
        code = await life.process.end(self._config.stop_grace_s)
        life.lost.set()
        self._note_loss(self._meaning(code))
        if life.channel is not None:
            await life.channel.close()

    def _note_loss(self, reason: str) -> None:
        self._loss = (reason, self._clock())
        self._notify()

    def _meaning(self, code: int) -> str:
        if self._stopping:
            return "stopped"
        return "out_of_memory" if code == launch.OUT_OF_MEMORY_EXIT_CODE else "exited"

    def _notify(self) -> None:
        """Wake all who wait for a change, and let the next ones wait for the next."""
        self._changed.set()
        self._changed = asyncio.Event()
