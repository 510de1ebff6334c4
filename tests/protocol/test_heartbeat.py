"""What keepers say to the gateway over HTTP, and what strangers get who try."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from bailiwick.doors.http.engines import ENDED_PATH, HEARTBEAT_PATH, engine_routes
from bailiwick.fleet.registry import CatalogUris, Registry
from bailiwick.fleet.report import BODY_BYTES_MAX, EngineState, Report
from bailiwick.identity.service_tokens import ServiceTokens
from bailiwick.ids import NodeId
from bailiwick.testing.scripted_fleet import RULES, ScriptedLink, report_of

TOKEN = "the-service-token-of-the-house"
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

    async def beat(self, report: Report) -> httpx.Response:
        return await self.post(HEARTBEAT_PATH, report.encode())


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    tokens.chmod(0o600)
    async with Registry(RULES, ScriptedLink(), CatalogUris(CATALOG)) as registry:
        yield Door(registry, Starlette(routes=engine_routes(registry, ServiceTokens(tokens))), tokens)


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
    beside = door.tokens.with_name("new")
    beside.write_text(f"{fresh}\n")
    beside.chmod(0o600)
    beside.replace(door.tokens)
    assert (await door.beat(report_of("a"))).status_code == 401
    headers = HEADERS | {"authorization": f"Bearer {fresh}"}
    assert (await door.post(HEARTBEAT_PATH, report_of("a").encode(), headers)).status_code == 200


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
