"""What keepers say to the gateway over HTTP, and what strangers get who try."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from structlog.testing import capture_logs

from bailiwick.doors.http.engines import ENDED_PATH, HEARTBEAT_PATH, KeeperTokens, engine_routes
from bailiwick.fleet.registry import CatalogUris, Registry
from bailiwick.fleet.report import BODY_BYTES_MAX, GENERAL, TRUSTED, EngineState, Report
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.ids import NodeId
from bailiwick.testing.scripted_fleet import RULES, ScriptedLink, report_of, restarted

TOKEN = "the-service-token-of-the-house"
TRUSTED_TOKEN = "the-service-token-of-who-runs-code"
HEADERS = {"authorization": f"Bearer {TOKEN}", "x-bailiwick-link": "plain"}
CATALOG = "http://127.0.0.1:1/iceberg"


@dataclass
class Door:
    registry: Registry
    app: Starlette
    tokens: Path

    async def post(
        self,
        path: str,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        peer: str = "127.0.0.1",
        scheme: str = "http",
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, client=(peer, 1234))
        async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://gateway") as client:
            return await client.post(path, content=body, headers=HEADERS if headers is None else headers)

    async def beat(self, report: Report, token: str = TOKEN) -> httpx.Response:
        headers = HEADERS | {"authorization": f"Bearer {token}"}
        return await self.post(HEARTBEAT_PATH, report.encode(), headers)


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    tokens = written(tmp_path / "tokens", TOKEN)
    trusted = written(tmp_path / "trusted-tokens", TRUSTED_TOKEN)
    async with opened(tokens, KeeperTokens(ServiceTokens(tokens), ServiceTokens(trusted))) as made:
        yield made


@asynccontextmanager
async def opened(file: Path, tokens: KeeperTokens) -> AsyncIterator[Door]:
    async with Registry(RULES, ScriptedLink(), CatalogUris(CATALOG)) as registry:
        yield Door(registry, Starlette(routes=engine_routes(registry, tokens)), file)


def written(file: Path, *tokens: str) -> Path:
    file.write_text("".join(f"{token}\n" for token in tokens))
    file.chmod(0o600)
    return file


async def test_a_heartbeat_is_answered_with_what_the_keeper_needs(door: Door) -> None:
    report = report_of("a", state=EngineState.STARTING)
    answer = await door.beat(report)
    assert answer.status_code == 200
    assert answer.json() == {
        "accepted": True,
        "catalog_uri": CATALOG,
        "interval_s": 5.0,
        "drain": False,
        "in_use": 0,
    }
    assert (await door.beat(replace(report, state=EngineState.READY))).status_code == 200
    assert door.registry.engines[NodeId("a")].is_ready


async def test_no_answer_holds_a_secret_of_an_engine(door: Door) -> None:
    report = report_of("a")
    for answer in (await door.beat(report), await door.beat(replace(report, version="9.9.9"))):
        for secret in (report.engine_token, report.catalog_credential, report.stamp_key):
            assert secret.reveal() not in answer.text


@pytest.mark.parametrize("header", ["", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"])
async def test_without_a_service_token_nobody_is_heard(door: Door, header: str) -> None:
    headers = {"x-bailiwick-link": "plain"} | ({"authorization": header} if header else {})
    for path in (HEARTBEAT_PATH, ENDED_PATH):
        answer = await door.post(path, report_of("a").encode(), headers)
        assert answer.status_code == 401
        assert answer.json()["code"] == "AUTHENTICATION_FAILED"
    assert not door.registry.nodes()


async def test_a_rotated_token_is_accepted_without_a_restart(door: Door) -> None:
    fresh = "another-service-token-of-the-house"
    written(door.tokens.with_name("new"), fresh).replace(door.tokens)
    assert (await door.beat(report_of("a"))).status_code == 401
    assert (await door.beat(report_of("a"), fresh)).status_code == 200


async def test_what_a_keeper_sends_must_not_cross_a_wire_in_the_clear(door: Door) -> None:
    answer = await door.post(HEARTBEAT_PATH, report_of("a").encode(), peer="10.0.0.7")
    assert (answer.status_code, answer.json()["code"]) == (403, "ACCESS_DENIED")
    assert "HTTPS" in answer.json()["message"]
    answer = await door.post(HEARTBEAT_PATH, report_of("a").encode(), peer="10.0.0.7", scheme="https")
    assert "mutual TLS" in answer.json()["message"]


async def test_an_incompatible_engine_is_refused_with_the_reason(door: Door) -> None:
    answer = await door.beat(report_of("a", version="9.9.9"))
    assert answer.status_code == 403
    assert "upgrade the older of the two" in answer.json()["message"]


async def test_the_end_of_a_life_is_heard(door: Door) -> None:
    report = report_of("a")
    await door.beat(report)
    told = {"node_id": "a", "life": report.life, "reason": "stopped"}
    assert (await door.post(ENDED_PATH, json.dumps(told).encode())).json() == {"accepted": True}
    assert not door.registry.engines


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b'{"node_id": "a", "life": "x", "reason": "bored"}',
        b'{"node_id": "a", "life": "x", "reason": ["stopped"]}',
        b'{"node_id": "", "life": "x", "reason": "stopped"}',
        b'{"node_id": 7, "life": "x", "reason": "stopped"}',
        b'{"node_id": "a", "life": "x", "reason": "stopped", "more": 1}',
        b"[" * 10_000,
        b"x" * (BODY_BYTES_MAX + 1),
    ],
)
async def test_what_is_no_message_is_refused_with_a_sentence(door: Door, body: bytes) -> None:
    for path in (HEARTBEAT_PATH, ENDED_PATH):
        answer = await door.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENTS")


async def test_only_posts_are_taken(door: Door) -> None:
    transport = httpx.ASGITransport(door.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        assert (await client.get(HEARTBEAT_PATH, headers=HEADERS)).status_code == 405


async def test_an_engine_that_runs_code_of_users_joins_with_a_token_for_that(door: Door) -> None:
    assert (await door.beat(report_of("a", engine_class=TRUSTED), TRUSTED_TOKEN)).status_code == 200
    assert door.registry.engines[NodeId("a")].report.engine_class == TRUSTED


async def test_no_engine_runs_code_of_users_with_a_token_for_others(door: Door) -> None:
    await assert_other_token(door, report_of("a", engine_class=TRUSTED), TOKEN)


@pytest.mark.parametrize("engine_class", [GENERAL, "etl"])
async def test_a_token_that_users_code_can_read_is_good_for_no_other_engine(
    door: Door, engine_class: str
) -> None:
    await assert_other_token(door, report_of("a", engine_class=engine_class), TRUSTED_TOKEN)


async def test_a_token_that_stands_in_both_files_is_one_that_users_code_can_read(tmp_path: Path) -> None:
    tokens = written(tmp_path / "tokens", TOKEN, TRUSTED_TOKEN)
    trusted = written(tmp_path / "trusted-tokens", TRUSTED_TOKEN)
    async with opened(tokens, KeeperTokens(ServiceTokens(tokens), ServiceTokens(trusted))) as door:
        await assert_other_token(door, report_of("a"), TRUSTED_TOKEN)
        assert (await door.beat(report_of("a"), TOKEN)).status_code == 200


async def test_without_a_file_of_tokens_for_it_no_engine_runs_code_of_users(tmp_path: Path) -> None:
    tokens = written(tmp_path / "tokens", TOKEN)
    async with opened(tokens, KeeperTokens(ServiceTokens(tokens))) as door:
        await assert_other_token(door, report_of("a", engine_class=TRUSTED), TOKEN)
        assert (await door.beat(report_of("a", engine_class=TRUSTED), TRUSTED_TOKEN)).status_code == 401


async def test_a_gateway_may_have_engines_that_run_code_of_users_and_no_others(tmp_path: Path) -> None:
    trusted = written(tmp_path / "trusted-tokens", TRUSTED_TOKEN)
    async with opened(trusted, KeeperTokens(None, ServiceTokens(trusted))) as door:
        assert (await door.beat(report_of("a"), TOKEN)).status_code == 401
        await assert_other_token(door, report_of("a"), TRUSTED_TOKEN)
        assert (await door.beat(report_of("a", engine_class=TRUSTED), TRUSTED_TOKEN)).status_code == 200


async def test_a_token_that_users_code_can_read_takes_no_other_engine_s_name(door: Door) -> None:
    report = report_of("a")
    await door.beat(report)
    answer = await door.beat(restarted(report, engine_class=TRUSTED), TRUSTED_TOKEN)
    assert (answer.status_code, answer.json()["code"]) == (403, "ACCESS_DENIED")
    assert "give this one another" in answer.json()["message"]
    assert door.registry.engines[NodeId("a")].life == report.life


async def test_an_engine_gets_its_name_back_from_one_that_runs_code_of_users(door: Door) -> None:
    report = report_of("a")
    squatter = restarted(report, engine_class=TRUSTED)
    assert (await door.beat(squatter, TRUSTED_TOKEN)).status_code == 200
    assert (await door.beat(report)).status_code == 200
    assert (await door.beat(squatter, TRUSTED_TOKEN)).status_code == 403
    assert door.registry.engines[NodeId("a")].life == report.life


async def test_the_log_says_once_in_a_life_that_an_engine_runs_code_of_users(door: Door) -> None:
    with capture_logs() as lines:
        await door.beat(report_of("a"))
        report = report_of("b", engine_class=TRUSTED)
        await door.beat(report, TRUSTED_TOKEN)
        await door.beat(report, TRUSTED_TOKEN)
    told = [line for line in lines if line["event"] == "engine_runs_user_code"]
    assert [(line["node_id"], line["log_level"]) for line in told] == [("b", "warning")]


async def assert_other_token(door: Door, report: Report, token: str) -> None:
    """Refused because the token is for other engines, and not heard of any more."""
    answer = await door.beat(report, token)
    assert (answer.status_code, answer.json()) == (
        403,
        {
            "code": "ACCESS_DENIED",
            "message": "An engine of the class `trusted` joins with a token of fleet.trusted_token_file, "
            "and no other engine does.",
        },
    )
    assert not door.registry.nodes()
