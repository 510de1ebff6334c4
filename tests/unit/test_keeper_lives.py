"""What a keeper does with its engine: starts it, brings it to the gateway, starts it again, lets it go."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest
from keeper_house import NAME, House, Way, eventually, house

from bailiwick.errors import CannotStartError
from bailiwick.fleet.vitals import Condition


async def used(running: House, lives: int = 1) -> None:
    await eventually(lambda: running.gateway.is_used and len(running.gateway.joined) == lives)


async def test_an_engine_is_started_for_the_catalog_that_the_gateway_names_and_is_used(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as running:
        await used(running)
        life, catalog_uri, _ = running.starter.started[0]
        assert catalog_uri == running.gateway.catalog_uri
        engine = running.gateway.registry.engines[NAME]
        assert engine.life == life.name
        assert engine.report.address == running.forwarder.address
        await eventually(lambda: bool(running.said))
        assert running.said == [f"ready node={NAME} engine={running.forwarder.address}"]


async def test_an_engine_that_dies_is_started_again_as_a_new_life_with_new_secrets(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        first = running.gateway.registry.engines[NAME]
        os.kill(running.starter.started[0][2].pid, signal.SIGKILL)
        assert await first.explain_loss() == "exited"
        await used(running, lives=2)
        lives = [life for life, _, _ in running.starter.started]
        assert lives[0].name != lives[1].name
        secrets = {
            secret.reveal()
            for life in lives
            for secret in (life.engine_token, life.catalog_credential, life.stamp_key)
        }
        assert len(secrets) == 6
        assert running.gateway.registry.keys_of(lives[0].catalog_credential.reveal()) is None


async def test_the_gateway_learns_when_an_engine_ran_out_of_memory(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        first = running.gateway.registry.engines[NAME]
        running.starter.script = running.starter.script.replace("sys.stdin.read()", "sys.exit(3)")
        os.kill(running.starter.started[0][2].pid, signal.SIGKILL)
        assert await first.explain_loss() == "exited"
        await eventually(lambda: len(running.gateway.joined) >= 2)
        assert await running.gateway.joined[1].explain_loss() == "out_of_memory"


async def test_an_engine_that_hangs_is_still_reported(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        pid = running.starter.started[0][2].pid
        os.kill(pid, signal.SIGSTOP)
        registry = running.gateway.registry
        await eventually(lambda: registry.engines[NAME].report.memory.rss_ratio is not None)
        heard = [node.unheard_s for node in registry.nodes()]
        await eventually(lambda: registry.nodes()[0].unheard_s < max(heard[0], 0.2))
        assert running.gateway.is_used


async def test_an_engine_that_answers_nobody_any_more_is_ended_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as running:
        await used(running)
        first = running.gateway.registry.engines[NAME]
        os.kill(running.starter.started[0][2].pid, signal.SIGSTOP)
        monkeypatch.setattr(Way, "hangs", True)
        await eventually(running.starter.started[0][2].exited.done)
        monkeypatch.setattr(Way, "hangs", False)
        assert await first.explain_loss() == "exited"
        await eventually(lambda: running.gateway.is_used and running.gateway.joined[-1] is not first)


async def test_stopping_drains_first_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        process = running.starter.started[0][2]
        running.gateway.in_use = 1
        running.keeper.stop()
        await eventually(lambda: not running.gateway.is_used)
        assert running.gateway.registry.nodes()[0].condition is Condition.DRAINING
        assert not process.exited.done()
        running.gateway.in_use = 0
        await asyncio.wait_for(running.running, 30)
        assert not psutil.pid_exists(process.pid)
        assert not running.gateway.registry.engines
        assert running.gateway.registry.nodes()[0].condition is Condition.GONE


async def test_a_second_stop_does_not_wait_for_what_runs(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        running.gateway.in_use = 1
        running.keeper.stop()
        await eventually(lambda: not running.gateway.is_used)
        running.keeper.stop()
        await asyncio.wait_for(running.running, 20)
        assert running.starter.started[0][2].exited.done()


async def test_a_drain_that_the_gateway_asks_for_ends_in_a_fresh_engine(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        running.gateway.in_use = 1
        running.gateway.registry.ask_drain(NAME)
        await eventually(lambda: not running.gateway.is_used)
        assert not running.starter.started[0][2].exited.done()
        running.gateway.in_use = 0
        await used(running, lives=2)
        assert running.starter.started[0][2].exited.done()


async def test_a_gateway_that_comes_back_finds_the_same_engine(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        await running.gateway.close()
        await running.gateway.open()
        running.gateway.joined.clear()
        await used(running)
        assert len(running.starter.started) == 1


async def test_a_gateway_that_comes_back_with_its_catalog_elsewhere_gets_a_new_engine(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        await running.gateway.close()
        running.gateway.catalog_uri = "http://127.0.0.1:2/iceberg"
        await running.gateway.open()
        running.gateway.joined.clear()
        await used(running)
        assert [uri for _, uri, _ in running.starter.started] == [
            "http://127.0.0.1:1/iceberg",
            "http://127.0.0.1:2/iceberg",
        ]
        assert len(running.gateway.joined) == 1


async def test_no_engine_is_started_before_the_gateway_has_answered(tmp_path: Path) -> None:
    async with house(tmp_path, has_gateway=False) as running:
        await asyncio.sleep(0)
        assert not running.starter.started
        running.keeper.stop()
        await asyncio.wait_for(running.running, 20)
        assert not running.starter.started


async def test_a_keeper_that_is_refused_at_first_says_why_and_ends(tmp_path: Path) -> None:
    async with house(tmp_path, bailiwick_version="9.9.9") as running:
        with pytest.raises(CannotStartError, match="upgrade the older of the two"):
            await asyncio.wait_for(asyncio.shield(running.running), 20)
        assert not running.starter.started


async def test_an_engine_that_does_not_come_up_at_first_is_told_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        running.starter.script = "raise SystemExit(1)"
        with pytest.raises(CannotStartError, match=r"engine\.log"):
            await asyncio.wait_for(asyncio.shield(running.running), 20)


async def test_a_rotated_token_is_sent_from_the_next_report_on(tmp_path: Path) -> None:
    async with house(tmp_path) as running:
        await used(running)
        fresh = tmp_path / "tokens.new"
        fresh.touch(0o600)
        fresh.write_text("another-service-token-of-the-house\n")
        fresh.replace(running.gateway.tokens)
        registry = running.gateway.registry
        await eventually(lambda: registry.nodes()[0].unheard_s > 0)
        await eventually(lambda: registry.nodes()[0].unheard_s == 0)
        assert running.gateway.is_used
