"""The catalog and several engines: each is known by its own credential, and sees its own sessions only."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from facade_world import CREDENTIAL, WRITER, Lent, T, ok, problem

from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import EncryptedListener, FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.life_keys import LifeKeys, new_handle
from bailiwick.errors import BailiwickError
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId
from bailiwick.policy.stamp import POLICY_HEADER, STAMP_CONFIG, StampKey
from bailiwick.testing.certificates import Authority
from bailiwick.testing.iceberg import create_request

TABLES = T.rpartition("/")[0]


@dataclass
class House:
    """A catalog with its own engine and two that joined: `a` and `b`."""

    port: int
    lent: Lent
    own_key: StampKey
    lives: dict[str, LifeKeys] = field(default_factory=dict)
    scheme: str = "http"
    authority: Authority | None = None

    def handle(self, engine: str, principal: Principal = WRITER) -> str:
        """A session opened in that engine and lent to the principal."""
        handle = new_handle(self.lives[engine].life if engine else "")
        self.lent.current[handle] = (LeaseId(f"L{principal.name}"), principal)
        return handle

    def client(self, credential: str, handle: str, principal: Principal = WRITER) -> httpx.Client:
        headers = {
            "authorization": f"Bearer {credential}",
            "x-bailiwick-session": handle,
            "x-bailiwick-lease": f"L{principal.name}",
        }
        verify = ssl.create_default_context(cafile=self.authority.file) if self.authority else True
        url = f"{self.scheme}://127.0.0.1:{self.port}/iceberg/v1"
        return httpx.Client(base_url=url, headers=headers, timeout=30, verify=verify)


@contextmanager
def running_house(warehouse: Path, authority: Authority | None = None) -> Iterator[House]:
    service = CatalogService(MemoryBackend(), warehouse)
    service.create_namespace(("db",))
    house = House(0, Lent(), StampKey.new())
    encrypted = _encrypted(authority) if authority is not None else None
    server = FacadeServer(
        service,
        house.lent,
        CREDENTIAL,
        stamp_key=lambda: house.own_key,
        joined=house.lives.get,
        encrypted=encrypted,
    )
    house.port = server.start()
    if encrypted is not None:
        house.port, house.scheme, house.authority = encrypted.socket.getsockname()[1], "https", authority
    for name in ("a", "b"):
        house.lives[name] = LifeKeys(f"life-{name}", StampKey.new())
    try:
        yield house
    finally:
        server.stop()


def _encrypted(authority: Authority) -> EncryptedListener:
    issued = authority.issue()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    return EncryptedListener(socket.create_server(("127.0.0.1", 0)), context)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with running_house(tmp_path / "warehouse") as running:
        with running.client(CREDENTIAL, running.handle("")) as client:
            ok(client.post(TABLES, json=create_request("t")))
        yield running


def test_each_engine_gets_stamps_that_only_its_own_key_opens(house: House) -> None:
    keys = {"": house.own_key, "a": house.lives["a"].stamp_key, "b": house.lives["b"].stamp_key}
    for engine, credential in (("", CREDENTIAL), ("a", "a"), ("b", "b")):
        with house.client(credential, house.handle(engine)) as client:
            sealed = ok(client.get(T))["config"][STAMP_CONFIG]
        for name, key in keys.items():
            if name == engine:
                assert key.open(sealed).table
            else:
                with pytest.raises(BailiwickError):
                    key.open(sealed)


@pytest.mark.parametrize("caller", ["", "a", "b"])
@pytest.mark.parametrize("owner", ["", "a", "b"])
def test_a_session_is_served_to_the_engine_it_was_opened_in_and_to_no_other(
    house: House, caller: str, owner: str
) -> None:
    with house.client(caller or CREDENTIAL, house.handle(owner)) as client:
        response = client.get(T)
    if caller == owner:
        assert response.status_code == 200
    else:
        assert problem(response) == (403, "ForbiddenException")


def test_a_handle_under_another_engines_name_is_no_handle(house: House) -> None:
    stolen = house.handle("b").rpartition(".")[2]
    with house.client("a", f"life-a.{stolen}") as client:
        assert problem(client.get(T)) == (403, "ForbiddenException")


def test_an_engine_that_left_is_a_stranger(house: House) -> None:
    handle = house.handle("a")
    with house.client("a", handle) as client:
        assert client.get(T).status_code == 200
        del house.lives["a"]
        assert problem(client.get(T)) == (401, "NotAuthorizedException")


def test_a_stamp_of_one_engine_opens_no_rules_at_another(house: House) -> None:
    with house.client("a", house.handle("a")) as client:
        stamp = ok(client.get(T))["config"][STAMP_CONFIG]
        assert problem(client.get(T, headers={POLICY_HEADER: stamp}))[0] in (403, 404)
    with house.client("b", house.handle("b")) as client:
        assert problem(client.get(T, headers={POLICY_HEADER: stamp})) == (403, "ForbiddenException")


def test_engines_of_other_machines_reach_the_catalog_by_https_only(tmp_path: Path) -> None:
    with running_house(tmp_path / "warehouse", Authority(tmp_path / "ca")) as house:
        with house.client("a", house.handle("a")) as client:
            ok(client.post(TABLES, json=create_request("t")))
            assert ok(client.get(T))["metadata"]
        house.scheme, house.authority = "http", None
        with house.client("a", house.handle("a")) as client, pytest.raises(httpx.TransportError):
            client.get(T)
