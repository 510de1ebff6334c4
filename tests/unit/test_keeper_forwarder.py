"""The door before an engine: who gets through it, and what passes."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from keeper_house import eventually

from bailiwick.doors.config import TlsConfig
from bailiwick.doors.tls import Tls
from bailiwick.errors import CannotStartError
from bailiwick.keeper.forwarder import Forwarder
from bailiwick.testing.certificates import Authority, Issued

LARGE = bytes(range(256)) * 40_000


class Echo:
    """An engine that says everything back. It remembers what it was told."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while chunk := await reader.read(65_536):
            self.heard += chunk
            writer.write(chunk)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def forwarding(
    authority: Authority | None = None, *, connections_max: int = 8
) -> AsyncIterator[tuple[Forwarder, Echo]]:
    echo = Echo()
    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
        stack.callback(server.close)
        tls = await stack.enter_async_context(Tls.open(_settings(authority)))
        forwarder = Forwarder("127.0.0.1", tls=tls, connections_max=connections_max)
        await forwarder.start()
        stack.push_async_callback(forwarder.stop)
        forwarder.aim(server.sockets[0].getsockname()[1])
        yield forwarder, echo


def _settings(authority: Authority | None) -> TlsConfig:
    if authority is None:
        return TlsConfig()
    issued = authority.issue("keeper")
    return TlsConfig(
        certificate_file=issued.certificate,
        key_file=issued.key,
        client_ca_file=authority.file,
        client_certificates="required",
    )


def trusting(authority: Authority, shown: Issued | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    context.set_alpn_protocols(["h2"])
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context


async def echoed(forwarder: Forwarder, data: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """What comes back of `data` before the connection ends; b"" if there is no connection."""
    async with asyncio.timeout(30):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port, ssl=context)
        except OSError:
            return b""
        try:

            async def send() -> None:
                writer.write(data)
                await writer.drain()

            sending = asyncio.create_task(send())
            received = await reader.readexactly(len(data))
            await sending
            return received
        except (OSError, asyncio.IncompleteReadError):
            return b""
        finally:
            writer.transport.abort()


async def test_what_goes_in_comes_out_both_ways_however_much() -> None:
    async with forwarding() as (forwarder, echo):
        assert await echoed(forwarder, LARGE) == LARGE
        assert bytes(echo.heard) == LARGE


async def test_nothing_of_what_passes_is_logged_or_kept(capfd: pytest.CaptureFixture[str]) -> None:
    async with forwarding() as (forwarder, _):
        await echoed(forwarder, b"a-word-between-gateway-and-engine")
        forwarder.aim(1)
        await echoed(forwarder, b"a-word-between-gateway-and-engine")
    printed = capfd.readouterr()
    assert "a-word" not in printed.out + printed.err


async def test_with_a_certificate_of_the_authority_one_gets_through_by_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with forwarding(authority) as (forwarder, _):
        assert await echoed(forwarder, LARGE, trusting(authority, authority.issue("gateway"))) == LARGE


async def test_without_one_nothing_reaches_the_engine(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs", "Others")
    async with forwarding(authority) as (forwarder, echo):
        assert await echoed(forwarder, b"hello", trusting(authority, None)) == b""
        assert await echoed(forwarder, b"hello", trusting(authority, stranger.issue("gateway"))) == b""
        assert await echoed(forwarder, b"hello") == b""
        assert echo.connections == 0


async def test_an_expired_certificate_does_not_get_through(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    expired = authority.issue("gateway", ends=datetime.now(UTC) - timedelta(hours=1))
    async with forwarding(authority) as (forwarder, echo):
        assert await echoed(forwarder, b"hello", trusting(authority, expired)) == b""
        assert echo.connections == 0


async def test_no_more_connections_are_kept_than_the_bound() -> None:
    async with forwarding(connections_max=2) as (forwarder, _):
        held = [await asyncio.open_connection("127.0.0.1", forwarder.port) for _ in range(2)]
        for reader, writer in held:
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        assert forwarder.connection_count == 2
        assert await echoed(forwarder, b"one too many") == b""
        for _, writer in held:
            writer.transport.abort()
        await eventually(lambda: forwarder.connection_count == 0)
        assert await echoed(forwarder, b"room again") == b"room again"


async def test_silence_instead_of_a_handshake_counts_against_the_bound(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with forwarding(authority, connections_max=1) as (forwarder, _):
        _, silent = await asyncio.open_connection("127.0.0.1", forwarder.port)
        await eventually(lambda: forwarder.connection_count == 1)
        assert await echoed(forwarder, b"x", trusting(authority, authority.issue("gateway"))) == b""
        silent.transport.abort()


async def test_a_new_aim_ends_connections_to_the_old_one_and_no_aim_refuses_all() -> None:
    async with forwarding() as (forwarder, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        writer.write(b"x")
        await reader.readexactly(1)
        forwarder.aim(None)
        async with asyncio.timeout(10):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        assert await echoed(forwarder, b"hello") == b""
        writer.transport.abort()


async def test_an_engine_that_is_not_there_ends_the_connection() -> None:
    async with forwarding() as (forwarder, _):
        forwarder.aim(1)
        assert await echoed(forwarder, b"hello") == b""


@pytest.mark.parametrize("host", ["10.0.0.1", "engine-1.example", "::"])
def test_plaintext_is_refused_off_loopback(host: str) -> None:
    with pytest.raises(CannotStartError, match="--certificate"):
        Forwarder(host, tls=None)
