"""Stamps: what the catalog says of a table holds only whole, in time, for this table and this lease.

A real engine and a real catalog whose stamps the test forges before they are sent.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.embedded import EmbeddedEngine
from bailiwick.engines.engine import EngineSession
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.model import Privilege
from bailiwick.policy.stamp import Stamp, StampKey
from bailiwick.testing.engine import CREDENTIAL, OpenLeases, run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Forge = Callable[[StampKey, Stamp], str]


class RiggedKey(StampKey):
    """Seals what `forge` makes of a stamp instead of the stamp."""

    def __init__(self, real: StampKey, forge: Forge) -> None:
        super().__init__(bytes.fromhex(real.text))
        self._real = real
        self._forge = forge

    def seal(self, stamp: Stamp) -> str:
        return self._forge(self._real, stamp)


@dataclass(slots=True)
class Rig:
    engine: EmbeddedEngine
    leases: OpenLeases
    session: EngineSession
    forge: Forge | None = None
    is_silent: bool = False
    last: str = ""

    def key(self) -> StampKey | None:
        real = self.engine.stamp_key
        if real is None or self.is_silent:
            return None
        return RiggedKey(real, self._kept if self.forge is None else self.forge)

    def _kept(self, key: StampKey, stamp: Stamp) -> str:
        self.last = key.seal(stamp)
        return self.last

    async def ask(self, sql: str) -> int:
        """Number of rows, under a new lease."""
        return int((await run(self.session, sql, self.leases.give(self.session))).num_rows)

    async def refusal(self, sql: str) -> BailiwickError:
        with pytest.raises(BailiwickError) as caught:
            await self.ask(sql)
        return caught.value


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    directory: Path = tmp_path_factory.mktemp("stamps")
    leases, rigs = OpenLeases(), list[Rig]()
    catalog = CatalogService(MemoryBackend(), directory / "warehouse")
    facade = FacadeServer(
        catalog,
        leases,
        CREDENTIAL,
        observer=leases,
        stamp_key=lambda: rigs[0].key() if rigs else None,
    )
    port = await asyncio.to_thread(facade.start)
    try:
        uri = f"http://127.0.0.1:{port}/iceberg"
        config = EngineConfig(memory="1g")
        engine = EmbeddedEngine(
            config, directory, catalog_uri=uri, credential=CREDENTIAL, connect=SparkConnectChannel
        )
        async with engine:
            rigs.append(Rig(engine, leases, await engine.open_session()))
            for name in ("t", "other"):
                await rigs[0].ask(f"CREATE NAMESPACE IF NOT EXISTS lake.{name}")
                await rigs[0].ask(f"CREATE TABLE lake.{name}.{name} AS SELECT 1 AS id, 'VEILED-word' AS word")
            yield rigs[0]
    finally:
        await asyncio.to_thread(facade.stop)


def unsealed(stamp: Stamp, key: StampKey) -> str:
    return key.seal(stamp).rpartition(".")[0]


def tampered(key: StampKey, stamp: Stamp) -> str:
    """More actions in the payload than the seal was made for."""
    payload, _, mac = key.seal(replace(stamp, actions=frozenset({Privilege.INSERT}))).rpartition(".")
    told = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    told["actions"] = [privilege.value for privilege in Privilege]
    forged = base64.urlsafe_b64encode(
        json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    ).decode()
    return f"{forged.rstrip('=')}.{mac}"


FORGED: dict[str, Forge] = {
    "empty": lambda _key, _stamp: "",
    "nonsense": lambda _key, _stamp: "nonsense",
    "two dots": lambda _key, _stamp: "..",
    "without a seal": lambda key, stamp: unsealed(stamp, key),
    "with an empty seal": lambda key, stamp: unsealed(stamp, key) + ".",
    "with another key's seal": lambda _key, stamp: StampKey.new().seal(stamp),
    "with a seal that was cut": lambda key, stamp: key.seal(stamp)[:-2],
    "with a payload that was changed": tampered,
    "expired": lambda key, stamp: key.seal(replace(stamp, expires_at=1.0)),
    "of another lease": lambda key, stamp: key.seal(replace(stamp, lease="Lsomebody-elses")),
    "of no lease": lambda key, stamp: key.seal(replace(stamp, lease="")),
    "of another table": lambda key, stamp: key.seal(
        replace(stamp, uuid="00000000-0000-4000-8000-000000000001")
    ),
    "made for a rule": lambda key, stamp: key.seal(replace(stamp, for_policy=True)),
    "without the right to read": lambda key, stamp: key.seal(
        replace(stamp, actions=frozenset({Privilege.INSERT}))
    ),
    "without any right": lambda key, stamp: key.seal(replace(stamp, actions=frozenset())),
}
UNREADABLE = frozenset({"empty", "nonsense", "two dots", "without a seal"})
REFUSED = {Code.ACCESS_DENIED, Code.TABLE_NOT_FOUND}
BROKEN = {Code.INTERNAL_ERROR, Code.INVALID_ARGUMENTS}
"""What no gateway of ours sends cannot even be read."""
STATEMENTS = (
    "SELECT * FROM lake.t.t",
    "SELECT count(*) FROM lake.t.t",
    "SELECT * FROM lake.t.t.files",
    "SELECT * FROM (SELECT 1) WHERE EXISTS (TABLE lake.t.t)",
)


@pytest.mark.parametrize("what", FORGED)
async def test_a_stamp_that_does_not_hold_is_worth_nothing(
    rig: Rig, note: Callable[..., None], what: str
) -> None:
    rig.forge = FORGED[what]
    try:
        for sql in STATEMENTS:
            error = await rig.refusal(sql)
            assert error.code in REFUSED | (BROKEN if what in UNREADABLE else set()), f"{sql}: {error}"
            assert "VEILED" not in f"{error.message} {error.details}"
            note(is_refused=True)
    finally:
        rig.forge = None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM lake.t.t",
        "INSERT INTO lake.t.t VALUES (2, 'x')",
        "DELETE FROM lake.t.t",
        "UPDATE lake.t.t SET id = 5",
        "INSERT OVERWRITE lake.t.t VALUES (2, 'x')",
        "SELECT * FROM lake.t.t.snapshots",
        "MERGE INTO lake.t.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "DESCRIBE TABLE EXTENDED lake.t.t",
        "SHOW CREATE TABLE lake.t.t",
    ],
)
async def test_without_a_stamp_nothing_is_read_or_written(
    rig: Rig, note: Callable[..., None], sql: str
) -> None:
    rig.is_silent = True
    try:
        assert (await rig.refusal(sql)).code is Code.ACCESS_DENIED
    finally:
        rig.is_silent = False
    note(is_refused=True)
    assert await rig.ask("SELECT * FROM lake.t.t") == 1


async def test_a_stamp_of_before_is_not_taken_again(rig: Rig, note: Callable[..., None]) -> None:
    """Stamp replay: whole and in time, but of the lease before."""
    assert await rig.ask("SELECT * FROM lake.t.t") == 1
    old = rig.last
    rig.forge = lambda _key, _stamp: old
    try:
        assert (await rig.refusal("SELECT * FROM lake.t.t")).code is Code.ACCESS_DENIED
    finally:
        rig.forge = None
    note(is_refused=True)


async def test_another_tables_stamp_is_not_taken(rig: Rig, note: Callable[..., None]) -> None:
    def of_other(key: StampKey, stamp: Stamp) -> str:
        return rig.last if stamp.table.endswith("t.t") else rig._kept(key, stamp)

    rig.forge = of_other
    try:
        sql = "SELECT * FROM lake.other.other JOIN lake.t.t USING (id)"
        assert (await rig.refusal(sql)).code is Code.ACCESS_DENIED
    finally:
        rig.forge = None
    note(is_refused=True)


async def test_an_operation_without_the_lease_tag_gets_nothing(rig: Rig, note: Callable[..., None]) -> None:
    """facts/security, leases: the lease travels with the operation, never as a setting of the session."""
    rig.leases.give(rig.session)
    with pytest.raises(BailiwickError) as caught:
        await run(rig.session, "SELECT * FROM lake.t.t", "Lof-nobody")  # type: ignore[arg-type]
    assert caught.value.code in (Code.ACCESS_DENIED, Code.CATALOG_ERROR, Code.TABLE_NOT_FOUND)
    note(is_refused=True)


async def test_a_whole_stamp_is_taken(rig: Rig) -> None:
    assert await rig.ask("SELECT * FROM lake.t.t") == 1
