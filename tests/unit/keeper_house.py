"""A keeper with everything but Spark: a real HTTP door, real processes, an engine of a few lines."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette

from bailiwick import __version__
from bailiwick.doors.http.engines import KeeperTokens, engine_routes
from bailiwick.doors.http.server import HttpServer
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.engine import EngineLost
from bailiwick.engines.process import EngineProcess
from bailiwick.fleet.acceptance import Versions
from bailiwick.fleet.registry import CatalogUris, Registry
from bailiwick.fleet.remote import RemoteEngine
from bailiwick.fleet.vitals import HealthRules
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.ids import NodeId
from bailiwick.keeper.config import GatewayUrl, KeeperConfig
from bailiwick.keeper.engine import EngineStarter, Life
from bailiwick.keeper.forwarder import Forwarder
from bailiwick.keeper.gateway import GatewayCalls
from bailiwick.keeper.keeper import Keeper
from bailiwick.keeper.watch import Watch
from bailiwick.testing.scripted_fleet import VERSIONS, ScriptedLink

TOKEN = "the-service-token-of-the-keepers-house"
NAME = NodeId("engine-1")
_ENGINE = """
import sys
print("bailiwick-engine listening on 7", flush=True)
sys.stdin.read()
"""


async def eventually(condition: Callable[[], bool], *, within_s: float = 30.0) -> None:
    """Return when it is so. The loop goes round meanwhile."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


class Way:
    """To the engine of a few lines. It answers unless the test says that it hangs."""

    hangs = False

    def __init__(self, address: str, token: str) -> None:
        self.address, self.token = address, token

    async def ping(self, timeout_s: float) -> None:
        if Way.hangs:
            raise EngineLost(f"no answer within {timeout_s:g} s")

    async def close(self) -> None:
        return


class ScriptedStarter(EngineStarter):
    """Starts a few lines of Python in Java's place. `refuses` makes that fail, `script` is what it runs."""

    def __init__(self, config: KeeperConfig) -> None:
        super().__init__(config)
        self.script = _ENGINE
        self.refuses = False
        self.started: list[tuple[Life, str, EngineProcess]] = []

    async def prepare(self) -> None:
        self._places.create()

    async def start(self, life: Life, catalog_uri: str) -> EngineProcess:
        if self.refuses:
            raise OSError(12, "Cannot allocate memory")
        process = await EngineProcess.start(
            [sys.executable, "-c", self.script],
            environment={},
            directory=self._config.data_directory,
            log=self.log,
        )
        self.started.append((life, catalog_uri, process))
        return process


@dataclass
class Gateway:
    """The part of a gateway that keepers meet. It can go away and come back."""

    directory: Path
    link: ScriptedLink = field(default_factory=ScriptedLink)
    catalog_uri: str = "http://127.0.0.1:1/iceberg"
    bailiwick_version: str = __version__
    in_use: int = 0
    port: int = 0
    joined: list[RemoteEngine] = field(default_factory=list)
    registry: Registry = field(init=False)
    _server: HttpServer | None = None

    async def open(self) -> None:
        rules = HealthRules(Versions(self.bailiwick_version, VERSIONS.spark), interval_s=0.2)
        self.registry = Registry(
            rules,
            self.link,
            CatalogUris(self.catalog_uri),
            on_join=self.joined.append,
            in_use=lambda _node_id: self.in_use,
        )
        await self.registry.__aenter__()
        app = Starlette(routes=engine_routes(self.registry, KeeperTokens(ServiceTokens(self.tokens))))
        self._server = HttpServer(["127.0.0.1"], self.port, app)
        await self._server.start()
        self.port = self._server.port

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            await self.registry.__aexit__(None, None, None)
            self._server = None

    @property
    def tokens(self) -> Path:
        file = self.directory / "tokens"
        if not file.exists():
            file.touch(0o600)
            file.write_text(f"{TOKEN}\n")
        return file

    @property
    def is_used(self) -> bool:
        """Whether the gateway would send a query to the keeper's engine now."""
        engine = self.registry.engines.get(NAME)
        return engine is not None and engine.is_ready


@dataclass
class House:
    gateway: Gateway
    config: KeeperConfig
    keeper: Keeper
    starter: ScriptedStarter
    forwarder: Forwarder
    said: list[str]
    running: "asyncio.Task[None]"


@asynccontextmanager
async def house(directory: Path, *, has_gateway: bool = True, **gateway: str) -> AsyncIterator[House]:
    """A keeper that runs, and the gateway that it was told of."""
    opened = Gateway(directory, **gateway)  # type: ignore[arg-type]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(opened.close)
        await opened.open()
        if not has_gateway:
            await opened.close()
        config = KeeperConfig(
            gateway=GatewayUrl("127.0.0.1", opened.port, False),
            engine=EngineConfig(
                master="local[2]", restart_backoff_s=0.01, stop_grace_s=5, start_timeout_s=30
            ),
            data_directory=directory,
            token_file=opened.tokens,
            name=NAME,
            drain_s=30.0,
        )
        forwarder = Forwarder("127.0.0.1", tls=None)
        await forwarder.start()
        stack.push_async_callback(forwarder.stop)
        starter = ScriptedStarter(config)
        await starter.prepare()
        said: list[str] = []
        calls = GatewayCalls(config.gateway, ServiceTokens(config.token_file), None)
        watch = Watch(Way, every_s=0.05, unanswered_max=3)
        keeper = Keeper(config, calls, forwarder, starter, said.append, watch=watch)
        running = asyncio.create_task(keeper.run())
        stack.push_async_callback(_ended, keeper, running)
        yield House(opened, config, keeper, starter, forwarder, said, running)


async def _ended(keeper: Keeper, running: "asyncio.Task[None]") -> None:
    keeper.stop()
    keeper.stop()
    await asyncio.gather(running, return_exceptions=True)
