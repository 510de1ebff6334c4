"""Signed tokens cannot be made by others; static tokens are stored only as hashes."""

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity import tokens
from bailiwick.identity.authenticator import FailureKind, RejectedToken
from bailiwick.identity.static_tokens import KEPT_AFTER_END_S, TOKENS_PER_USER_MAX, StaticTokens
from bailiwick.identity.tokens import SignedTokens
from bailiwick.identity.users import User, UserStore
from bailiwick.testing.databases import opened_database

KEY = bytes(range(32))
HEADERS = {"typ": "bailiwick+jwt"}


@dataclass
class World:
    database: Database
    users: UserStore
    signed: SignedTokens
    static: StaticTokens
    time: list[float]
    path: Path

    @property
    def ann(self) -> User:
        return self.users.require("ann")

    def claims(self, **changes: object) -> dict[str, object]:
        standard = {
            "sub": "ann",
            "tenant": "default",
            "gen": self.ann.generation,
            "iat": int(self.time[0]),
            "exp": self.time[0] + 60,
            "jti": "x",
            "iss": "bailiwick",
            "aud": "bailiwick",
        }
        return {key: value for key, value in (standard | changes).items() if value is not None}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    path = tmp_path / "bailiwick.db"
    database = opened_database(path)
    time = [1_000_000.0]
    users = UserStore(database, now=lambda: time[0])
    await users.load()
    await users.add("ann", roles=frozenset({"reader"}), password_hash=None)
    await users.add("root", roles=frozenset({"admin"}), password_hash=None)
    static = StaticTokens(database, users, now=lambda: time[0])
    await static.load()
    signed = SignedTokens(KEY, users, life_s=3600.0, now=lambda: time[0])
    yield World(database, users, signed, static, time, path)
    await static.close()
    await users.close()
    await database.close()


async def rejection(check: SignedTokens | StaticTokens, token: str) -> FailureKind:
    assert check.recognises(token)
    with pytest.raises(RejectedToken) as rejected:
        await check.verify(token)
    return rejected.value.kind


async def test_a_token_carries_who_and_until_when_and_no_roles(world: World) -> None:
    token = world.signed.issue(world.ann.principal)
    claims = jwt.decode(token, KEY, algorithms=["HS256"], audience="bailiwick", options={"verify_exp": False})
    assert claims == {
        "sub": "ann",
        "tenant": "default",
        "gen": world.ann.generation,
        "iat": 1_000_000,
        "exp": 1_003_600.0,
        "jti": claims["jti"],
        "iss": "bailiwick",
        "aud": "bailiwick",
    }
    assert world.signed.issue(world.ann.principal) != token


async def test_our_own_claims_signed_with_our_key_are_accepted(world: World) -> None:
    token = jwt.encode(world.claims(), KEY, algorithm="HS256", headers=HEADERS)
    assert await world.signed.verify(token) == world.ann.principal


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "other"},
        {"aud": "other"},
        {"iss": None},
        {"aud": None},
        {"exp": None},
        {"gen": None},
        {"sub": None},
        {"jti": None},
        {"iat": None},
        {"tenant": None},
        {"sub": 7},
    ],
)
async def test_a_claim_that_is_missing_or_wrong_is_refused(world: World, changes: dict[str, object]) -> None:
    token = jwt.encode(world.claims(**changes), KEY, algorithm="HS256", headers=HEADERS)
    assert await rejection(world.signed, token) is FailureKind.SIGNED_TOKEN


async def test_another_key_another_algorithm_and_none_are_refused(world: World) -> None:
    forged = jwt.encode(world.claims(), bytes(32), algorithm="HS256", headers=HEADERS)
    assert await rejection(world.signed, forged) is FailureKind.SIGNED_TOKEN
    stronger = jwt.encode(world.claims(), KEY + KEY, algorithm="HS512", headers=HEADERS)
    assert not world.signed.recognises(stronger)
    unsigned = jwt.encode(world.claims(), "", algorithm="none", headers=HEADERS)
    assert not world.signed.recognises(unsigned)
    header, payload, _ = world.signed.issue(world.ann.principal).split(".")
    assert await rejection(world.signed, f"{header}.{payload}.") is FailureKind.SIGNED_TOKEN


async def test_a_token_longer_than_any_of_ours_is_refused_unread(world: World) -> None:
    header = world.signed.issue(world.ann.principal).partition(".")[0]
    assert await rejection(world.signed, f"{header}." + "a" * 10_000_000) is FailureKind.SIGNED_TOKEN


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_token_with_any_character_changed_is_refused(world: World, data: st.DataObject) -> None:
    token = world.signed.issue(world.ann.principal)
    start = token.index(".") + 1
    # The last character of a 32-byte signature has two bits that decoders ignore.
    position = data.draw(st.integers(start, len(token) - 2))
    other = data.draw(st.sampled_from("ABCxyz059-_.").filter(lambda character: character != token[position]))
    changed = token[:position] + other + token[position + 1 :]
    assert await rejection(world.signed, changed) is FailureKind.SIGNED_TOKEN


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rest=st.text(max_size=200))
async def test_garbage_after_our_header_is_refused(world: World, rest: str) -> None:
    header = world.signed.issue(world.ann.principal).partition(".")[0]
    assert await rejection(world.signed, f"{header}.{rest}") is FailureKind.SIGNED_TOKEN


async def test_roles_written_into_a_token_are_not_believed(world: World) -> None:
    token = jwt.encode(world.claims(roles=["admin"]), KEY, algorithm="HS256", headers=HEADERS)
    assert (await world.signed.verify(token)).roles == {"reader"}


async def test_a_remembered_token_still_expires_and_still_asks_for_the_user(world: World) -> None:
    token = world.signed.issue(world.ann.principal)
    await world.signed.verify(token)
    world.time[0] += 3600.0
    assert await rejection(world.signed, token) is FailureKind.EXPIRED
    fresh = world.signed.issue(world.ann.principal)
    await world.signed.verify(fresh)
    await world.users.change("ann", roles=frozenset({"writer"}))
    assert await rejection(world.signed, fresh) is FailureKind.EXPIRED


async def test_only_so_many_verified_tokens_are_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "VERIFIED_MAX", 10)
    for _ in range(50):
        await world.signed.verify(world.signed.issue(world.ann.principal))
    assert len(world.signed._verified) == 10


async def test_refused_tokens_are_not_remembered(world: World) -> None:
    header = world.signed.issue(world.ann.principal).partition(".")[0]
    payload = base64.urlsafe_b64encode(json.dumps(world.claims()).encode()).decode().rstrip("=")
    await rejection(world.signed, f"{header}.{payload}.AAAA")
    assert len(world.signed._verified) == 0


async def test_a_static_tokens_secret_is_nowhere_in_the_database(world: World) -> None:
    token, text = await world.static.create("ann", ttl_s=60.0)
    _, identifier, secret = text.split("_")
    assert identifier == token.id
    assert secret not in repr(token)
    assert token.secret_hash not in repr(token)
    files = [world.path, world.path.with_name(world.path.name + "-wal")]
    stored = b"".join(file.read_bytes() for file in files)
    assert identifier.encode() in stored
    assert secret.encode() not in stored


async def test_a_static_token_is_still_good_after_a_restart_and_a_revoked_one_still_is_not(
    world: World,
) -> None:
    _, good = await world.static.create("ann", ttl_s=60.0)
    revoked, bad = await world.static.create("ann", ttl_s=60.0)
    await world.static.revoke(revoked.id)
    await world.static.revoke(revoked.id)
    users = UserStore(world.database, now=lambda: world.time[0])
    await users.load()
    static = StaticTokens(world.database, users, now=lambda: world.time[0])
    await static.load()
    assert await static.verify(good) == world.ann.principal
    assert await rejection(static, bad) is FailureKind.STATIC_TOKEN


async def test_a_wrong_secret_an_unknown_id_and_another_form_are_refused_alike(world: World) -> None:
    token, text = await world.static.create("ann", ttl_s=60.0)
    for wrong in (
        f"bw_{token.id}_{'0' * 40}",
        f"bw_{'0' * 12}_{text[-40:]}",
        text + "0",
        text + "\n",
        text.upper().replace("BW_", "bw_"),
        "bw__",
        "bw_",
    ):
        assert await rejection(world.static, wrong) is FailureKind.STATIC_TOKEN


async def test_static_tokens_go_with_their_user_and_do_not_come_back_with_the_name(world: World) -> None:
    _, text = await world.static.create("ann", ttl_s=60.0)
    await world.users.drop("ann")
    assert await rejection(world.static, text) is FailureKind.STATIC_TOKEN
    await world.users.add("ann", roles=frozenset({"admin"}), password_hash=None)
    assert await rejection(world.static, text) is FailureKind.STATIC_TOKEN
    assert world.static.all() == ()


async def test_a_disabled_users_static_token_is_refused_until_they_are_enabled(world: World) -> None:
    _, text = await world.static.create("ann", ttl_s=60.0)
    await world.users.change("ann", disabled=True)
    assert await rejection(world.static, text) is FailureKind.STATIC_TOKEN
    await world.users.change("ann", disabled=False)
    assert (await world.static.verify(text)).name == "ann"


async def test_a_user_has_only_so_many_live_tokens(world: World) -> None:
    for _ in range(TOKENS_PER_USER_MAX):
        await world.static.create("ann", ttl_s=60.0)
    with pytest.raises(BailiwickError) as refused:
        await world.static.create("ann", ttl_s=60.0)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    await world.static.create("root", ttl_s=60.0)
    world.time[0] += 60.0
    await world.static.create("ann", ttl_s=60.0)


async def test_tokens_that_ended_long_ago_are_forgotten_at_start(world: World) -> None:
    await world.static.create("ann", ttl_s=60.0)
    kept, _ = await world.static.create("ann", ttl_s=60.0 + KEPT_AFTER_END_S)
    world.time[0] += 61.0 + KEPT_AFTER_END_S
    await world.static.load()
    assert [token.id for token in world.static.all()] == [kept.id]
