"""Both ports over TLS, with real clients: who gets in, who is turned away, how certificates are renewed."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow.flight
import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import Error as AdbcError
from flight_door import PASSWORD, serving

from bailiwick.client.address import Address
from bailiwick.client.credentials import Password
from bailiwick.client.encryption import Encryption
from bailiwick.client.errors import Unreachable
from bailiwick.client.flight import FlightClient
from bailiwick.doors.config import TlsConfig
from bailiwick.doors.http.health import health_app
from bailiwick.doors.http.server import HttpServer
from bailiwick.doors.tls import Tls
from bailiwick.testing.asking import wait_until
from bailiwick.testing.certificates import Authority, Issued

NEVER_S = 3600.0
DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class House:
    """Both ports, one pair of certificates."""

    grpc_port: int
    http_port: int
    tls: Tls

    @property
    def uri(self) -> str:
        return f"grpc+tls://localhost:{self.grpc_port}"

    async def healthz(self, context: ssl.SSLContext) -> str:
        async with httpx.AsyncClient(verify=context, timeout=DEADLINE_S) as client:
            return (await client.get(f"https://localhost:{self.http_port}/healthz")).text


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@asynccontextmanager
async def serving_tls(authority: Authority, server: Issued, **settings: Any) -> AsyncIterator[House]:
    if settings.get("client_certificates"):
        settings["client_ca_file"] = authority.file
    config = TlsConfig(
        certificate_file=server.certificate, key_file=server.key, look_every_s=NEVER_S, **settings
    )
    async with Tls.open(config) as tls, serving(tls=tls) as door:
        assert tls is not None
        http = HttpServer(("127.0.0.1", "::1"), 0, health_app(is_ready=lambda: True, metrics=bytes), tls=tls)
        await http.start()
        try:
            yield House(door.port, http.port, tls)
        finally:
            await http.stop(0)


def trusting(authority: Authority, client: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context


async def adbc_rows(uri: str, **options: str) -> Any:
    def ask() -> Any:
        credentials = {"username": "ann", "password": PASSWORD}
        with dbapi.connect(uri, db_kwargs={**credentials, **options}, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute("numbers")
                return len(cursor.fetchall())

    return await asyncio.to_thread(ask)


async def flight_token(uri: str, **options: str) -> Any:
    def ask() -> Any:
        with pyarrow.flight.connect(uri, **options) as client:
            call = pyarrow.flight.FlightCallOptions(timeout=DEADLINE_S)
            return client.authenticate_basic_token("ann", PASSWORD, call)

    return await asyncio.to_thread(ask)


async def serial_shown(port: int) -> int:
    from cryptography import x509

    pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def ours(house: House, encryption: Encryption | None) -> FlightClient:
    return FlightClient(Address("127.0.0.1", house.grpc_port), Password("ann", PASSWORD), encryption)


async def asked(house: House, encryption: Encryption | None) -> int:
    async with ours(house, encryption) as client, client.execute("numbers") as answer:
        return int((await answer.table()).num_rows)


async def test_adbc_and_pyarrow_and_http_work_over_tls(authority: Authority) -> None:
    async with serving_tls(authority, authority.issue()) as house:
        trusted = {DatabaseOptions.TLS_ROOT_CERTS.value: authority.file.read_text()}
        assert await adbc_rows(house.uri, **trusted) == 10
        name, value = await flight_token(house.uri, tls_root_certs=authority.file.read_text())
        assert (name, value[:7]) == (b"authorization", b"Bearer ")
        assert await house.healthz(trusting(authority)) == "ok\n"
        assert await asked(house, Encryption(ca_file=authority.file)) == 10


async def test_rsa_keys_work_as_well(authority: Authority) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    server = authority.issue(key=rsa.generate_private_key(65537, 2048))
    async with serving_tls(authority, server) as house:
        assert await house.healthz(trusting(authority)) == "ok\n"
        assert await asked(house, Encryption(ca_file=authority.file)) == 10


async def test_a_certificate_of_an_authority_that_is_not_trusted_is_refused_by_every_client(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger", "Stranger")
    async with serving_tls(authority, authority.issue()) as house:
        with pytest.raises(AdbcError, match="certificate"):
            await adbc_rows(house.uri, **{DatabaseOptions.TLS_ROOT_CERTS.value: stranger.file.read_text()})
        with pytest.raises(pyarrow.flight.FlightError):
            await flight_token(house.uri, tls_root_certs=stranger.file.read_text())
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await house.healthz(trusting(stranger))
        for encryption in (Encryption(ca_file=stranger.file), Encryption()):
            with pytest.raises(Unreachable, match=r"certificate .* is not trusted.*--ca"):
                await asked(house, encryption)


async def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    async with serving_tls(authority, authority.issue(names=("elsewhere.example",))) as house:
        with pytest.raises(Unreachable, match="another name"):
            await asked(house, Encryption(ca_file=authority.file))


async def test_verification_is_skipped_only_on_demand(authority: Authority) -> None:
    async with serving_tls(authority, authority.issue(names=("elsewhere.example",))) as house:
        assert await asked(house, Encryption(is_verified=False)) == 10


async def test_plaintext_clients_of_a_tls_port_get_an_error_and_do_not_hang(authority: Authority) -> None:
    async with serving_tls(authority, authority.issue()) as house, asyncio.timeout(DEADLINE_S):
        with pytest.raises(Unreachable, match=r"no gateway answers .* in plaintext.*--tls"):
            await asked(house, None)
        with pytest.raises(AdbcError):
            await adbc_rows(f"grpc://localhost:{house.grpc_port}")
        with pytest.raises(pyarrow.flight.FlightError):
            await flight_token(f"grpc://localhost:{house.grpc_port}")
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(f"http://localhost:{house.http_port}/healthz")


async def test_tls_clients_of_a_plaintext_port_are_told(authority: Authority) -> None:
    async with serving() as door, asyncio.timeout(DEADLINE_S):
        client = FlightClient(
            Address("127.0.0.1", door.port), Password("ann", PASSWORD), Encryption(ca_file=authority.file)
        )
        with pytest.raises(Unreachable, match="does not speak TLS"):
            async with client:
                pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.parametrize("port", ["grpc_port", "http_port"])
async def test_old_versions_of_tls_are_refused(
    authority: Authority, version: ssl.TLSVersion, port: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.file)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = context.maximum_version = version
    async with serving_tls(authority, authority.issue()) as house:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shake_hands(getattr(house, port), context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await shake_hands(getattr(house, port), context) == "TLSv1.2"


async def shake_hands(port: int, context: ssl.SSLContext) -> str | None:
    def connect() -> str | None:
        with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as plain:
            context.set_alpn_protocols(["h2", "http/1.1"])
            with context.wrap_socket(plain, server_hostname="localhost") as wrapped:
                return wrapped.version()

    return await asyncio.to_thread(connect)


async def test_required_client_certificates_are_verified_on_both_ports(
    authority: Authority, tmp_path: Path
) -> None:
    client, stranger = authority.issue("client"), Authority(tmp_path / "stranger", "Stranger").issue("client")
    async with serving_tls(authority, authority.issue(), client_certificates="required") as house:
        assert await asked(house, _with(authority, client)) == 10
        assert await house.healthz(trusting(authority, client)) == "ok\n"
        options = {
            DatabaseOptions.TLS_ROOT_CERTS.value: authority.file.read_text(),
            DatabaseOptions.MTLS_CERT_CHAIN.value: client.certificate_text,
            DatabaseOptions.MTLS_PRIVATE_KEY.value: client.key_text,
        }
        assert await adbc_rows(house.uri, **options) == 10
        for unwelcome in (None, stranger):
            with pytest.raises(Unreachable, match="client certificate"):
                await asked(house, _with(authority, unwelcome))
            with pytest.raises(httpx.TransportError):
                await house.healthz(trusting(authority, unwelcome))
        with pytest.raises(AdbcError):
            await adbc_rows(house.uri, **{DatabaseOptions.TLS_ROOT_CERTS.value: authority.file.read_text()})


async def test_a_client_certificate_does_not_replace_the_sign_in(authority: Authority) -> None:
    async with serving_tls(authority, authority.issue(), client_certificates="required") as house:
        client = FlightClient(
            Address("127.0.0.1", house.grpc_port),
            Password("ann", "wrong"),
            _with(authority, authority.issue("ann")),
        )
        with pytest.raises(Exception, match="AUTHENTICATION_FAILED"):
            async with client:
                pass


async def test_optional_client_certificates_are_verified_where_they_are_shown(
    authority: Authority, tmp_path: Path
) -> None:
    client, stranger = authority.issue("client"), Authority(tmp_path / "stranger", "Stranger").issue("client")
    async with serving_tls(authority, authority.issue(), client_certificates="optional") as house:
        assert await asked(house, _with(authority, None)) == 10
        assert await house.healthz(trusting(authority)) == "ok\n"
        assert await house.healthz(trusting(authority, client)) == "ok\n"
        with pytest.raises(httpx.TransportError):
            await house.healthz(trusting(authority, stranger))


async def test_renewed_files_serve_new_connections_and_standing_ones_go_on(authority: Authority) -> None:
    async with serving_tls(authority, authority.issue()) as house:
        async with ours(house, Encryption(ca_file=authority.file)) as standing:
            renewed = authority.issue()
            assert await house.tls.look() is True
            assert await serial_shown(house.grpc_port) == renewed.serial
            assert await serial_shown(house.http_port) == renewed.serial
            async with standing.execute("numbers") as answer:
                assert (await answer.table()).num_rows == 10
        assert await house.tls.look() is False


async def test_unusable_files_change_nothing_until_they_are_right(authority: Authority) -> None:
    server = authority.issue()
    async with serving_tls(authority, server) as house:
        key, before = server.key.read_bytes(), server.serial
        server.key.write_bytes(b"half a k")
        assert await house.tls.look() is False
        assert await serial_shown(house.grpc_port) == await serial_shown(house.http_port) == before
        server.key.write_bytes(key)
        assert await house.tls.look() is True


async def test_files_are_looked_at_again_and_again(authority: Authority) -> None:
    server = authority.issue()
    config = TlsConfig(certificate_file=server.certificate, key_file=server.key, look_every_s=0.05)
    async with Tls.open(config) as tls:
        assert tls is not None
        before = tls.current
        authority.issue()
        await asyncio.to_thread(wait_until, "renewed", lambda: tls.current is not before, DEADLINE_S)


async def test_an_authority_that_was_taken_out_of_the_file_counts_no_more(
    authority: Authority, tmp_path: Path
) -> None:
    client, server, other = authority.issue("client"), authority.issue(), Authority(tmp_path / "other")
    trusted = authority.file.read_bytes()
    async with serving_tls(authority, server, client_certificates="required") as house:
        known = Encryption(_kept(tmp_path / "trusted.pem", trusted), client.certificate, client.key)
        assert await asked(house, known) == 10
        authority.file.write_bytes(other.file.read_bytes())
        assert await house.tls.look() is True
        context = ssl.create_default_context(cafile=tmp_path / "trusted.pem")
        context.load_cert_chain(client.certificate, client.key)
        with pytest.raises(httpx.TransportError):
            await house.healthz(context)
        with pytest.raises(Unreachable):
            await asked(house, known)


async def test_without_a_certificate_there_is_no_tls() -> None:
    async with Tls.open(TlsConfig()) as tls:
        assert tls is None


def _kept(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def _with(authority: Authority, client: Issued | None) -> Encryption:
    if client is None:
        return Encryption(ca_file=authority.file)
    return Encryption(authority.file, client.certificate, client.key)
