"""What lies between a keeper and a gateway, with a real engine and nothing of a gateway besides.

The keeper, its HTTP calls, the forwarder, the catalog and its listener are real, and speak mutual TLS; there
is no pool and no door, so that a test asks the engine itself.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from starlette.applications import Starlette

from bailiwick import __version__
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import EncryptedListener, FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.doors.config import TlsConfig
from bailiwick.doors.http.engines import KeeperTokens, engine_routes
from bailiwick.doors.http.server import HttpServer
from bailiwick.doors.tls import Tls
from bailiwick.engines.config import EngineConfig
from bailiwick.fleet.acceptance import Versions
from bailiwick.fleet.link import LinkFiles, MutualTlsLink
from bailiwick.fleet.registry import CatalogUris, Registry
from bailiwick.fleet.remote import RemoteEngine
from bailiwick.fleet.vitals import HealthRules
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.ids import NodeId
from bailiwick.keeper.config import GatewayUrl, KeeperConfig, KeeperFiles
from bailiwick.keeper.keeper import Keeper
from bailiwick.testing.certificates import Authority, Issued
from bailiwick.testing.engine import OpenLeases
from bailiwick.testing.keepers import new_token_file

NAME = NodeId("engine-1")
START_S = 120.0


@dataclass
class Wire:
    registry: Registry
    leases: OpenLeases
    keeper: Keeper
    authority: Authority
    running: "asyncio.Task[None]"
    said: list[str] = field(default_factory=list)

    @property
    def engine(self) -> RemoteEngine:
        return self.registry.engines[NAME]

    async def wait_used(self) -> RemoteEngine:
        """The engine, when queries would be sent to it. Raises what the keeper ended with."""
        async with asyncio.timeout(START_S):
            while not (NAME in self.registry.engines and self.engine.is_ready):
                if self.running.done():
                    await self.running
                await asyncio.sleep(0.05)
        return self.engine


@asynccontextmanager
async def wired(
    directory: Path,
    *,
    master: str = "local[2]",
    bind: str = "127.0.0.1",
    more: dict[str, str] | None = None,
) -> AsyncIterator[Wire]:
    authority = Authority(directory / "authority")
    tokens = new_token_file(directory / "service-tokens")
    leases = OpenLeases()
    async with AsyncExitStack() as stack:
        listener = _listener(authority.issue("catalog"))
        uri = f"https://localhost:{listener.socket.getsockname()[1]}/iceberg"
        link = MutualTlsLink(_link_files(authority))
        registry = Registry(HealthRules(Versions(__version__, pyspark.__version__)), link, CatalogUris(uri))
        facade = FacadeServer(
            CatalogService(MemoryBackend(), directory / "warehouse"),
            leases,
            "the-credential-of-an-engine-that-is-not-there",
            observer=leases,
            encrypted=listener,
            joined=registry.keys_of,
        )
        stack.callback(facade.stop)
        await asyncio.to_thread(facade.start)
        await stack.enter_async_context(registry)
        http = await _http(stack, registry, tokens, authority.issue("gateway-http"))
        config = KeeperConfig(
            gateway=GatewayUrl("localhost", http.port, is_encrypted=True),
            engine=EngineConfig(master=master, memory="1g"),
            data_directory=directory / "engine",
            token_file=tokens,
            name=NAME,
            bind=bind,
            files=_keeper_files(authority, bind),
            cores=2,
            more=more or {},
        )
        said: list[str] = []
        keeper = await Keeper.opened(stack, config, said.append)
        running = asyncio.create_task(keeper.run())
        stack.push_async_callback(_ended, keeper, running)
        yield Wire(registry, leases, keeper, authority, running, said)


async def _http(stack: AsyncExitStack, registry: Registry, tokens: Path, shown: Issued) -> HttpServer:
    settings = TlsConfig(certificate_file=shown.certificate, key_file=shown.key)
    tls = await stack.enter_async_context(Tls.open(settings))
    app = Starlette(routes=engine_routes(registry, KeeperTokens(ServiceTokens(tokens))))
    http = HttpServer(["127.0.0.1"], 0, app, tls=tls)
    await http.start()
    stack.push_async_callback(http.stop, 1.0)
    return http


def _listener(shown: Issued) -> EncryptedListener:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    return EncryptedListener(socket.create_server(("127.0.0.1", 0)), context)


def _link_files(authority: Authority) -> LinkFiles:
    shown = authority.issue("gateway")
    return LinkFiles(shown.certificate, shown.key, authority.file)


def _keeper_files(authority: Authority, bind: str) -> KeeperFiles:
    shown = authority.issue("keeper", names=("localhost", "127.0.0.1", bind))
    return KeeperFiles(shown.certificate, shown.key, authority.file)


async def _ended(keeper: Keeper, running: "asyncio.Task[None]") -> None:
    keeper.stop()
    await asyncio.gather(running, return_exceptions=True)
