"""What every authenticator promises the doors, tried on the chain over a real database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from pathlib import Path

import argon2
import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import FailureKind, Peer
from bailiwick.identity.chain import Chain
from bailiwick.identity.passwords import Passwords, StoredPasswords
from bailiwick.identity.people import People
from bailiwick.identity.principal import Principal
from bailiwick.identity.static_tokens import StaticTokens
from bailiwick.identity.tokens import SignedTokens
from bailiwick.identity.users import UserStore
from bailiwick.testing.databases import opened_database

KEY = bytes(range(32))
HOME = Peer("192.0.2.1")
ELSEWHERE = Peer("192.0.2.99")


@dataclass
class Held:
    """Stands in for sleeping: notes each delay, and lets it pass at once unless told to hold."""

    slept: list[float] = field(default_factory=list)
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    somebody_fell_asleep: asyncio.Event = field(default_factory=asyncio.Event)

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self.somebody_fell_asleep.set()
        await self.awake.wait()


@dataclass
class Rules:
    """Memberships and rules, as they stand at the moment."""

    granted: frozenset[str] = frozenset()
    acting_for: frozenset[tuple[str, str]] = frozenset()

    def expand(self, _name: str, roles: frozenset[str]) -> frozenset[str]:
        return roles | self.granted

    def allows(self, actor: Principal, subject_name: str, _subject_roles: frozenset[str]) -> bool:
        return (actor.name, subject_name) in self.acting_for


@dataclass
class World:
    """Everything behind an authenticator, with a clock that the test moves."""

    users: UserStore
    passwords: Passwords
    static: StaticTokens
    chain: Chain
    time: list[float]
    held: Held
    failures: list[FailureKind]
    rules: Rules

    @property
    def slept(self) -> list[float]:
        return self.held.slept


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    time = [1_000_000.0]
    database = opened_database(tmp_path / "bailiwick.db")
    users = UserStore(database, now=lambda: time[0])
    await users.load()
    static = StaticTokens(database, users, now=lambda: time[0])
    await static.load()
    passwords = Passwords(threads=2, hasher=argon2.PasswordHasher(1, 64, 1))
    failures: list[FailureKind] = []
    held = Held()
    held.awake.set()
    rules = Rules()
    chain = Chain(
        StoredPasswords(users, passwords),
        SignedTokens(KEY, users, life_s=3600.0, now=lambda: time[0]),
        [static],
        people=People(users, expand=rules.expand, impersonations=rules),
        failure_delay_s=0.5,
        hashing_threads=2,
        on_failure=failures.append,
        now=lambda: time[0],
        sleep=held.sleep,
    )
    world = World(users, passwords, static, chain, time, held, failures, rules)
    await users.add(
        "ann",
        roles=frozenset({"writer"}),
        password_hash=await passwords.hash("correct horse"),
        tenant="north",
    )
    await users.add("root", roles=frozenset({"admin"}), password_hash=await passwords.hash("battery staple"))
    yield world
    await chain.close()
    await static.close()
    await users.close()
    passwords.close()
    await database.close()


ANN = Principal("ann", frozenset({"writer"}), "north")


async def refusal(attempt: Awaitable[object]) -> BailiwickError:
    with pytest.raises(BailiwickError) as refused:
        await attempt
    return refused.value


async def test_the_right_password_gives_the_user_with_roles_and_tenant(world: World) -> None:
    assert await world.chain.authenticate_basic("ann", "correct horse", peer=HOME) == ANN
    assert world.slept == []
    assert world.failures == []


@pytest.mark.parametrize("password", ["wrong", "", "x" * 1025, "é" * 513, "correct horse ", "\udc80"])
async def test_a_wrong_password_is_refused_slowly_and_counted(world: World, password: str) -> None:
    refused = await refusal(world.chain.authenticate_basic("ann", password, peer=HOME))
    assert refused.code is Code.AUTHENTICATION_FAILED
    assert world.slept == [0.5]
    assert world.failures == [FailureKind.PASSWORD]


async def test_a_refusal_does_not_tell_whether_the_user_exists(world: World) -> None:
    await world.users.add("keyless", roles=frozenset({"reader"}), password_hash=None)
    await world.users.add(
        "gone", roles=frozenset({"reader"}), password_hash=await world.passwords.hash("was here")
    )
    await world.users.change("gone", disabled=True)
    attempts = [
        ("ann", "wrong"),
        ("nobody", "wrong"),
        ("keyless", "wrong"),
        ("", "wrong"),
        ("a" * 10_000, "wrong"),
        ("gone", "was here"),
    ]
    refusals = []
    for number, (name, password) in enumerate(attempts):
        peer = Peer(f"198.51.100.{number}")
        refusals.append(await refusal(world.chain.authenticate_basic(name, password, peer=peer)))
    assert (
        len({(refused.code, refused.message, refused.sqlstate, str(refused.details)) for refused in refusals})
        == 1
    )
    assert world.slept == [0.5] * len(attempts)


async def test_wrong_answers_wait_twice_as_long_each_time_up_to_eight_seconds(world: World) -> None:
    for _ in range(7):
        await refusal(world.chain.authenticate_basic("ann", "wrong", peer=HOME))
        world.time[0] += world.slept[-1]
    assert world.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


async def test_an_issued_token_speaks_for_its_user_until_it_ends(world: World) -> None:
    token = world.chain.issue(ANN)
    assert await world.chain.authenticate_bearer(token) == ANN
    world.time[0] += 3599.9
    assert await world.chain.authenticate_bearer(token) == ANN
    world.time[0] += 0.2
    refused = await refusal(world.chain.authenticate_bearer(token))
    assert refused.code is Code.SESSION_EXPIRED
    assert world.failures == [FailureKind.EXPIRED]


async def test_a_token_that_has_merely_expired_is_told_so_at_once(world: World) -> None:
    token = world.chain.issue(ANN)
    world.time[0] += 4000.0
    await refusal(world.chain.authenticate_bearer(token))
    assert world.slept == []


@pytest.mark.parametrize(
    "token", ["", "x", "bw_", "eyJhbGciOiJub25lIn0.e30.", "a.b.c", "\udc80", "x" * 1_000_000]
)
async def test_a_token_that_is_nobodys_is_refused_slowly_and_counted(world: World, token: str) -> None:
    refused = await refusal(world.chain.authenticate_bearer(token, peer=HOME))
    assert refused.code is Code.AUTHENTICATION_FAILED
    assert world.slept == [0.5]
    assert len(world.failures) == 1


async def test_nobody_gets_a_token_for_a_user_that_is_gone(world: World) -> None:
    await world.users.drop("ann")
    with pytest.raises(BailiwickError) as refused:
        world.chain.issue(ANN)
    assert refused.value.code is Code.AUTHENTICATION_FAILED


@pytest.mark.parametrize("change", ["password", "roles", "disable", "drop", "drop and make again"])
async def test_old_tokens_end_with_the_change(world: World, change: str) -> None:
    token = world.chain.issue(ANN)
    await world.chain.authenticate_bearer(token)
    match change:
        case "password":
            await world.users.change("ann", password_hash=await world.passwords.hash("another one"))
        case "roles":
            await world.users.change("ann", roles=frozenset({"reader"}))
        case "disable":
            await world.users.change("ann", disabled=True)
        case _:
            await world.users.drop("ann")
    if change == "drop and make again":
        await world.users.add("ann", roles=frozenset({"admin"}), password_hash=None)
    refused = await refusal(world.chain.authenticate_bearer(token))
    assert refused.code is Code.SESSION_EXPIRED


async def test_static_tokens_speak_for_their_user_with_the_roles_of_now(world: World) -> None:
    _, text = await world.static.create("ann", ttl_s=60.0)
    assert await world.chain.authenticate_bearer(text) == ANN
    await world.users.change("ann", roles=frozenset({"reader"}))
    assert (await world.chain.authenticate_bearer(text)).roles == {"reader"}


async def test_ended_static_tokens_are_refused_slowly(world: World) -> None:
    expired, text_of_expired = await world.static.create("ann", ttl_s=60.0)
    revoked, text_of_revoked = await world.static.create("ann", ttl_s=60.0)
    await world.static.revoke(revoked.id)
    assert (
        await refusal(world.chain.authenticate_bearer(text_of_revoked))
    ).code is Code.AUTHENTICATION_FAILED
    world.time[0] = expired.expires_at
    assert (await refusal(world.chain.authenticate_bearer(text_of_expired))).code is Code.SESSION_EXPIRED
    assert len(world.slept) == 2
    assert world.failures == [FailureKind.STATIC_TOKEN, FailureKind.EXPIRED]


async def test_a_burst_of_guesses_is_turned_away_unread_after_a_few(world: World) -> None:
    guesses = (world.chain.authenticate_basic("ann", f"guess {n}", peer=HOME) for n in range(40))
    refusals = await asyncio.gather(*guesses, return_exceptions=True)
    codes = [refused.code for refused in refusals if isinstance(refused, BailiwickError)]
    # Two are compared at the same time, so the fourth failure may come together with a fifth.
    assert codes.count(Code.AUTHENTICATION_FAILED) in (4, 5)
    assert codes.count(Code.RESOURCE_EXHAUSTED) == 40 - codes.count(Code.AUTHENTICATION_FAILED)
    assert world.failures.count(FailureKind.TURNED_AWAY) == codes.count(Code.RESOURCE_EXHAUSTED)


async def test_an_attack_keeps_nobody_out_who_comes_from_elsewhere(world: World) -> None:
    world.held.awake.clear()
    guesses = [
        asyncio.create_task(world.chain.authenticate_basic("ann", f"guess {n}", peer=HOME)) for n in range(40)
    ]
    async with asyncio.timeout(5):
        assert await world.chain.authenticate_basic("ann", "correct horse", peer=ELSEWHERE) == ANN
        # On the same network as the attacker, every other user gets in too, and tokens go on working.
        assert (await world.chain.authenticate_basic("root", "battery staple", peer=HOME)).name == "root"
        assert await world.chain.authenticate_bearer(world.chain.issue(ANN), peer=HOME) == ANN
    world.held.awake.set()
    await asyncio.gather(*guesses, return_exceptions=True)


async def test_hanging_up_does_not_buy_more_guesses(world: World) -> None:
    """A guesser who hangs up instead of waiting is turned away just the same."""
    world.held.awake.clear()
    for number in range(4):
        guess = asyncio.create_task(world.chain.authenticate_basic("ann", f"guess {number}", peer=HOME))
        async with asyncio.timeout(5):
            await world.held.somebody_fell_asleep.wait()
        world.held.somebody_fell_asleep.clear()
        guess.cancel()
        with pytest.raises(asyncio.CancelledError):
            await guess
    refused = await refusal(world.chain.authenticate_basic("ann", "correct horse", peer=HOME))
    assert refused.code is Code.RESOURCE_EXHAUSTED
    assert refused.retry_after_s is not None
    world.time[0] += refused.retry_after_s + 0.01
    assert await world.chain.authenticate_basic("ann", "correct horse", peer=HOME) == ANN


async def test_many_right_passwords_at_once_all_get_in(world: World) -> None:
    attempts = (world.chain.authenticate_basic("ann", "correct horse", peer=HOME) for _ in range(200))
    assert await asyncio.gather(*attempts) == [ANN] * 200


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("ipv4:192.0.2.1:50312", "192.0.2.1"),
        ("ipv6:[::1]:50312", "::1"),
        ("ipv6:%5B2001:db8:1:2:3::4%5D:50312", "2001:db8:1:2::/64"),
        ("ipv6:[::ffff:192.0.2.1]:1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix:", "unix"),
        ("", ""),
        ("x" * 1000, "x" * 64),
    ],
)
def test_a_peer_is_known_by_the_network_one_attacker_holds(text: str, network: str) -> None:
    assert Peer.parse(text).network == network


async def test_roles_that_are_granted_or_taken_hold_on_the_next_call_whatever_one_shows(world: World) -> None:
    signed = world.chain.issue(ANN)
    _, static = await world.static.create("ann", ttl_s=60)

    async def roles() -> list[frozenset[str]]:
        by_password = await world.chain.authenticate_basic("ann", "correct horse")
        by_token = [await world.chain.authenticate_bearer(token) for token in (signed, static)]
        return [principal.roles for principal in (by_password, *by_token)]

    world.rules.granted = frozenset({"analyst"})
    assert await roles() == [{"writer", "analyst"}] * 3
    world.rules.granted = frozenset()
    assert await roles() == [{"writer"}] * 3


async def test_acting_for_another_needs_a_rule_of_now_and_carries_both_names(world: World) -> None:
    actor = Principal("svc", frozenset({"reader"}), "north")
    for subject in ("ann", "nobody"):
        with pytest.raises(BailiwickError) as refused:
            world.chain.act_for(actor, subject)
        assert refused.value.code is Code.ACCESS_DENIED
    assert world.failures == [FailureKind.ON_BEHALF_OF] * 2
    world.rules.acting_for = frozenset({("svc", "ann")})
    assert world.chain.act_for(actor, "ann") == Principal("ann", ANN.roles, "north", actor="svc")


async def test_no_token_is_issued_on_behalf_of_anyone(world: World) -> None:
    with pytest.raises(ValueError, match="outlast"):
        world.chain.issue(Principal("ann", ANN.roles, "north", actor="svc"))


async def test_a_chain_without_people_lets_nobody_act_for_anybody(world: World) -> None:
    chain = Chain(
        StoredPasswords(world.users, world.passwords),
        SignedTokens(KEY, world.users, life_s=60.0),
        failure_delay_s=0.0,
        hashing_threads=1,
    )
    with pytest.raises(BailiwickError):
        chain.act_for(Principal("root", frozenset({"admin"})), "ann")
