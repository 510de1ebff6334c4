"""Engines that join, are used, fail and leave, as the gateway keeps account of them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bailiwick.engines.life_keys import is_handle_of
from bailiwick.errors import BailiwickError, CannotStartError, Code
from bailiwick.fleet.link import MUTUAL_TLS, LinkFiles, MutualTlsLink, PlainLink
from bailiwick.fleet.registry import Called, CatalogUris, Registry
from bailiwick.fleet.remote import RemoteEngine
from bailiwick.fleet.report import EngineState, Report
from bailiwick.fleet.vitals import Condition
from bailiwick.ids import NodeId
from bailiwick.secrets import Secret
from bailiwick.testing.certificates import Authority
from bailiwick.testing.scripted_fleet import RULES, ScriptedLink, report_of, restarted

HERE = Called(peer_is_loopback=True, link="plain")
CATALOG = CatalogUris("http://127.0.0.1:1/iceberg", "https://gateway.example:2/iceberg")


@dataclass
class Office:
    """A registry with a clock that the test moves."""

    link: ScriptedLink = field(default_factory=ScriptedLink)
    now: float = 0.0
    happened: list[str] = field(default_factory=list)
    in_use: int = 0
    catalog: CatalogUris = CATALOG
    registry: Registry = field(init=False)

    def __post_init__(self) -> None:
        self.registry = Registry(
            RULES,
            self.link,
            self.catalog,
            on_join=lambda engine: self.happened.append(f"join {engine.node_id} {engine.generation}"),
            on_leave=lambda node_id: self.happened.append(f"leave {node_id}"),
            in_use=lambda _node_id: self.in_use,
            clock=lambda: self.now,
        )

    def engine(self, name: str = "a") -> RemoteEngine:
        return self.registry.engines[NodeId(name)]

    def condition(self, name: str = "a") -> Condition:
        return {node.report.node_id: node.condition for node in self.registry.nodes()}[NodeId(name)]

    async def pass_time(self, seconds: float) -> None:
        """In steps that count: nobody is blamed for what happened while we did not watch."""
        for _ in range(round(seconds)):
            self.now += 1
            self.registry.tick()
            await settle()


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    made = Office()
    async with made.registry:
        yield made


async def settle() -> None:
    """Let what was begun in the background come to its end."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_an_engine_joins_with_its_first_heartbeat_that_says_ready(office: Office) -> None:
    report = report_of("a", state=EngineState.STARTING)
    answer = office.registry.heartbeat(report, HERE)
    assert (answer.catalog_uri, answer.interval_s, answer.is_drain_asked) == (CATALOG.loopback, 5.0, False)
    assert office.happened == []
    office.registry.heartbeat(replace(report, state=EngineState.READY), HERE)
    assert office.happened == ["join a 1"]
    assert office.engine().is_ready
    assert office.link.channels[report.address].token == report.engine_token.reveal()


async def test_sessions_are_known_to_the_catalog_by_the_life_that_opened_them(office: Office) -> None:
    report = report_of("a")
    office.registry.heartbeat(report, HERE)
    session = await office.engine().open_session()
    keys = office.registry.keys_of(report.catalog_credential.reveal())
    assert keys is not None
    assert keys.life == report.life
    assert keys.stamp_key.text == report.stamp_key.reveal()
    assert is_handle_of(session.handle, report.life)
    assert office.registry.keys_of("of nobody") is None


async def test_a_new_life_takes_the_place_of_the_old_one_and_of_its_keys(office: Office) -> None:
    first = report_of("a")
    office.registry.heartbeat(first, HERE)
    old = office.engine()
    second = restarted(first)
    office.registry.heartbeat(second, HERE)
    await settle()
    assert office.happened == ["join a 1", "leave a", "join a 2"]
    assert not old.is_ready
    assert office.engine().generation == 2
    assert office.registry.keys_of(first.catalog_credential.reveal()) is None
    assert office.registry.keys_of(second.catalog_credential.reveal()) is not None


async def test_the_end_of_an_engine_is_explained_and_no_new_session_is_opened(office: Office) -> None:
    report = report_of("a")
    office.registry.heartbeat(report, HERE)
    engine = office.engine()
    office.registry.ended(report.node_id, report.life, "out_of_memory")
    assert await engine.explain_loss() == "out_of_memory"
    assert not engine.is_ready
    with pytest.raises(BailiwickError) as refused:
        await engine.open_session()
    assert refused.value.code is Code.CIRCUIT_BREAKER_OPEN
    assert refused.value.retryable
    with pytest.raises(BailiwickError):
        await engine.wait_ready(0.01)


async def test_an_engine_that_was_stopped_in_good_order_leaves_at_once(office: Office) -> None:
    report = report_of("a")
    office.registry.heartbeat(report, HERE)
    office.registry.ended(report.node_id, report.life, "stopped")
    await settle()
    assert office.happened == ["join a 1", "leave a"]
    assert office.link.channels[report.address].is_closed
    assert office.registry.keys_of(report.catalog_credential.reveal()) is None


async def test_a_report_that_comes_after_the_end_of_its_life_brings_nobody_back(office: Office) -> None:
    report = report_of("a")
    office.registry.heartbeat(report, HERE)
    office.registry.ended(report.node_id, report.life, "stopped")
    with pytest.raises(BailiwickError, match="is over"):
        office.registry.heartbeat(replace(report, state=EngineState.DRAINING), HERE)
    assert office.condition() is Condition.GONE


async def test_word_of_the_end_of_an_earlier_life_harms_nobody(office: Office) -> None:
    first = report_of("a")
    second = restarted(first)
    office.registry.heartbeat(first, HERE)
    office.registry.heartbeat(second, HERE)
    office.registry.ended(first.node_id, first.life, "exited")
    office.registry.ended(NodeId("of-nobody"), "a-life-of-nobody", "exited")
    assert office.engine().is_ready


async def test_a_silent_engine_is_avoided_and_one_heartbeat_brings_it_back(office: Office) -> None:
    report = report_of("a")
    office.registry.heartbeat(report, HERE)
    await settle()
    await office.pass_time(16)
    assert not office.engine().is_ready
    assert office.condition() is Condition.DEMOTED
    assert [tried.node_id for tried in office.registry.tried] == ["a"]
    office.registry.heartbeat(report, HERE)
    assert office.engine().is_ready


async def test_a_broken_way_demotes_at_once_and_an_answered_probe_restores(office: Office) -> None:
    report = report_of("a")
    office.registry.heartbeat(report, HERE)
    await settle()
    channel = office.link.channels[report.address]
    channel.engine.die()
    office.registry.note_failure(report.node_id, "the connection broke", report.life)
    assert not office.engine().is_ready
    await settle()
    assert office.condition() is Condition.DEMOTED
    assert await office.engine().explain_loss() is None
    channel.engine.revive()
    asked = channel.pings
    await office.pass_time(6)
    await settle()
    assert channel.pings > asked
    assert office.engine().is_ready


async def test_a_query_that_was_answered_restores_too(office: Office) -> None:
    report = report_of("a")
    office.registry.heartbeat(report, HERE)
    await settle()
    office.registry.note_failure(report.node_id, "the connection broke")
    office.registry.note_success(report.node_id)
    assert office.engine().is_ready


async def test_a_drain_that_was_asked_for_is_told_to_the_keeper_with_what_still_runs(office: Office) -> None:
    report = report_of("a")
    office.registry.heartbeat(report, HERE)
    office.registry.ask_drain(report.node_id)
    office.in_use = 3
    answer = office.registry.heartbeat(report, HERE)
    assert (answer.is_drain_asked, answer.in_use) == (True, 3)
    assert not office.engine().is_ready
    answer = office.registry.heartbeat(restarted(report), HERE)
    assert not answer.is_drain_asked
    assert office.engine().is_ready


async def test_an_engine_that_was_started_for_another_catalog_is_not_used(office: Office) -> None:
    report = report_of("a")
    stale = replace(HERE, catalog_uri="http://127.0.0.1:9/iceberg")
    assert office.registry.heartbeat(report, stale).catalog_uri == CATALOG.loopback
    assert office.happened == []
    office.registry.heartbeat(restarted(report), replace(HERE, catalog_uri=CATALOG.loopback))
    assert office.engine().is_ready


@pytest.mark.parametrize(
    ("report", "called", "said"),
    [
        (report_of(version="9.9.0"), HERE, "works with 1.2.x only"),
        (report_of(spark_version="3.5.1"), HERE, "works with 4.1.x only"),
        (report_of(address="0.0.0.0:7000"), HERE, "mutual TLS"),
        (report_of(address="10.0.0.1:7000"), HERE, "mutual TLS"),
        (report_of(), replace(HERE, peer_is_loopback=False), "mutual TLS"),
        (report_of(), replace(HERE, link=MUTUAL_TLS), "no certificate for engines"),
        (report_of(stamp_key=Secret("not hexadecimal")), HERE, "stamp_key"),
        (report_of(stamp_key=Secret("00" * 16)), HERE, "stamp_key"),
    ],
)
async def test_what_may_not_join_is_refused_with_a_sentence(
    office: Office, report: Report, called: Called, said: str
) -> None:
    with pytest.raises(BailiwickError, match=said) as refused:
        office.registry.heartbeat(report, called)
    assert refused.value.code in (Code.ACCESS_DENIED, Code.INVALID_ARGUMENTS)
    assert not office.registry.engines
    assert office.registry.keys_of(report.catalog_credential.reveal()) is None


async def test_two_lives_never_share_a_credential(office: Office) -> None:
    first = report_of("a")
    office.registry.heartbeat(first, HERE)
    thief = report_of("b", catalog_credential=first.catalog_credential)
    with pytest.raises(BailiwickError, match="secrets of its own"):
        office.registry.heartbeat(thief, HERE)


async def test_with_certificates_engines_of_other_machines_join_and_get_the_encrypted_catalog() -> None:
    office = Office(ScriptedLink(kind=MUTUAL_TLS))
    far = Called(peer_is_loopback=False, link=MUTUAL_TLS)
    async with office.registry:
        report = report_of("a", address="engine-1.example:7077")
        assert office.registry.heartbeat(report, far).catalog_uri == CATALOG.encrypted
        assert office.engine().is_ready
        with pytest.raises(BailiwickError, match="--certificate, --key and --authority"):
            office.registry.heartbeat(report_of("b"), HERE)
    assert office.link.channels[report.address].is_closed


async def test_without_an_encrypted_catalog_other_machines_are_refused() -> None:
    office = Office(ScriptedLink(kind=MUTUAL_TLS), catalog=CatalogUris(CATALOG.loopback))
    with pytest.raises(BailiwickError, match="own machine only"):
        office.registry.heartbeat(
            report_of("a", address="engine-1.example:7077"), Called(peer_is_loopback=False, link=MUTUAL_TLS)
        )


async def test_a_plain_link_goes_nowhere_but_to_this_machine() -> None:
    with pytest.raises(BailiwickError, match="mutual TLS only"):
        PlainLink().open("10.1.2.3:7000", "token")
    await PlainLink().open("127.0.0.1:7000", "token").close()


async def test_a_link_reads_its_files_and_says_which_is_no_use(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("gateway")
    files = LinkFiles(issued.certificate, issued.key, authority.file)
    link = MutualTlsLink(files)
    await link.open("127.0.0.1:7000", "token").close()
    issued.key.chmod(0o644)
    with pytest.raises(CannotStartError, match="chmod 0600"):
        MutualTlsLink(files)
    link.look()
    await link.open("127.0.0.1:7000", "token").close()
    with pytest.raises(CannotStartError, match="No such file"):
        MutualTlsLink(replace(files, authority=tmp_path / "none.pem"))
    issued.key.write_text("not a key")
    issued.key.chmod(0o600)
    with pytest.raises(CannotStartError, match="not a PEM file"):
        MutualTlsLink(files)
