"""A gateway with TLS on both ports, started as an operator starts it and used by stock clients."""

import os
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow.flight
import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import Error as AdbcError
from cryptography import x509

from bailiwick.testing.asking import wait_until
from bailiwick.testing.certificates import DAY, Authority, Issued
from bailiwick.testing.gateway import RunningGateway, clean_environment, command, running_gateway

pytestmark = pytest.mark.spark


class House:
    """A gateway that wants client certificates, and those who have them."""

    def __init__(self, gateway: RunningGateway, authority: Authority) -> None:
        self.gateway = gateway
        self.authority = authority
        self.client = authority.issue("client")

    @property
    def uri(self) -> str:
        return f"grpc+tls://{self.gateway.grpc_address}"

    def connect(self, *, ca: Path | None = None, client: Issued | None = None) -> Any:
        options = {
            "username": "admin",
            "password": self.gateway.admin_password,
            DatabaseOptions.TLS_ROOT_CERTS.value: (ca or self.authority.file).read_text(),
        }
        if client is not None:
            options[DatabaseOptions.MTLS_CERT_CHAIN.value] = client.certificate_text
            options[DatabaseOptions.MTLS_PRIVATE_KEY.value] = client.key_text
        return dbapi.connect(self.uri, db_kwargs=options, autocommit=True)

    def bailiwick(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[bytes]":
        given = {"BAILIWICK_URL": self.uri, "BAILIWICK_PASSWORD": self.gateway.admin_password}
        return subprocess.run(
            [command(), *arguments],
            env=clean_environment({**given, **environment}),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory / "ca")
    server = authority.issue()
    settings = {
        "BAILIWICK__TLS__CERTIFICATE_FILE": str(server.certificate),
        "BAILIWICK__TLS__KEY_FILE": str(server.key),
        "BAILIWICK__TLS__CLIENT_CA_FILE": str(authority.file),
        "BAILIWICK__TLS__CLIENT_CERTIFICATES": "required",
        "BAILIWICK__TLS__LOOK_EVERY_S": "0.2",
        "BAILIWICK__ENGINE__MEMORY": "1g",
    }
    with running_gateway(directory / "data", settings=settings) as gateway:
        yield House(gateway, authority)


def asked(connection: Any) -> Any:
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT sum(id) FROM range(10)")
        return cursor.fetchall()


def test_adbc_asks_over_mutual_tls(house: House) -> None:
    assert asked(house.connect(client=house.client)) == [(45,)]


def test_a_connection_without_a_client_certificate_is_refused(house: House) -> None:
    with pytest.raises(AdbcError):
        asked(house.connect())


def test_a_gateway_of_an_unknown_authority_is_not_believed(house: House, tmp_path: Path) -> None:
    with pytest.raises(AdbcError, match="certificate"):
        asked(house.connect(ca=Authority(tmp_path, "Stranger").file, client=house.client))


def test_pyarrow_flight_signs_in(house: House) -> None:
    with pyarrow.flight.connect(
        house.uri,
        tls_root_certs=house.authority.file.read_text(),
        cert_chain=house.client.certificate_text,
        private_key=house.client.key_text,
    ) as client:
        name, value = client.authenticate_basic_token("admin", house.gateway.admin_password)
        assert name == b"authorization"
        options = pyarrow.flight.FlightCallOptions(headers=[(name, value)], timeout=30)
        assert list(client.list_actions(options))


def test_health_is_served_over_tls_only(house: House) -> None:
    context = ssl.create_default_context(cafile=house.authority.file)
    context.load_cert_chain(house.client.certificate, house.client.key)
    assert httpx.get(f"https://{house.gateway.http_address}/readyz", verify=context).status_code == 200
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"http://{house.gateway.http_address}/healthz")


def test_our_own_commands_speak_tls(house: House) -> None:
    files = {
        "BAILIWICK_CA": str(house.authority.file),
        "BAILIWICK_CLIENT_CERT": str(house.client.certificate),
        "BAILIWICK_CLIENT_KEY": str(house.client.key),
    }
    statement = ("query", "--user", "admin", "--format", "csv", "-e", "SELECT 7 AS seven")
    asked = house.bailiwick(*statement, **files)
    assert asked.stdout.split() == [b"seven", b"7"], asked.stderr
    assert b"admin" in house.bailiwick("user", "list", **files).stdout
    untrusted = house.bailiwick(*statement, **{**files, "BAILIWICK_CA": ""})
    assert untrusted.returncode == 2
    assert b"is not trusted" in untrusted.stderr
    unverified = house.bailiwick(*statement, "--insecure-skip-verify", **files)
    assert unverified.stdout.split() == [b"seven", b"7"], unverified.stderr
    assert b"not verified" in unverified.stderr
    plain = house.bailiwick(*statement, "--no-tls")
    assert plain.returncode == 2
    assert b"grpc+tls://" in plain.stderr


def test_certificates_are_renewed_without_a_restart(house: House) -> None:
    with house.connect(client=house.client) as standing, standing.cursor() as cursor:
        renewed = house.authority.issue()
        for address in (house.gateway.grpc_address, house.gateway.http_address):
            wait_until(f"new at {address}", partial(shows, address, renewed))
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
    assert asked(house.connect(client=house.client)) == [(45,)]
    assert "certificates_renewed" in house.gateway.log_text()


def shows(address: str, issued: Issued) -> bool:
    host, port = address.rsplit(":", 1)
    pem = ssl.get_server_certificate((host.strip("[]"), int(port)))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number == issued.serial


def test_a_certificate_that_cannot_be_served_is_told_before_spark_starts(tmp_path: Path) -> None:
    expired = Authority(tmp_path).issue(ends=datetime.now(UTC) - DAY)
    readable = Authority(tmp_path / "readable").issue()
    readable.key.chmod(0o644)
    for issued, told in ((expired, "expired on"), (readable, "has mode 0644")):
        settings = {
            **os.environ,
            "BAILIWICK__TLS__CERTIFICATE_FILE": str(issued.certificate),
            "BAILIWICK__TLS__KEY_FILE": str(issued.key),
        }
        for arguments in (
            ("serve", "--data-dir", str(tmp_path / "data"), "--grpc-port", "0", "--http-port", "0"),
            ("check-config",),
        ):
            done = subprocess.run(
                [command(), *arguments], env=settings, capture_output=True, timeout=60, check=False
            )
            assert done.returncode == 2
            assert told in done.stderr.decode()
