"""Users and their tokens on either kind of database, and in the memory of two gateways that share one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from bailiwick.database.database import Database
from bailiwick.database.errors import unavailable
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import NOBODY, Authenticator, Peer, RejectedToken
from bailiwick.identity.fresh import FreshAuthenticator
from bailiwick.identity.principal import Principal
from bailiwick.identity.static_tokens import StaticTokens
from bailiwick.identity.users import UserStore

ADMIN, READER = frozenset({"admin"}), frozenset({"reader"})


@dataclass(frozen=True)
class Door:
    """What one gateway knows of people."""

    users: UserStore
    tokens: StaticTokens

    async def catch_up(self) -> None:
        await self.users.catch_up()
        await self.tokens.catch_up()


@asynccontextmanager
async def door_of(database: Database) -> AsyncIterator[Door]:
    users = UserStore(database, now=lambda: 1000.0)
    await users.load()
    tokens = StaticTokens(database, users, now=lambda: 1000.0)
    await tokens.load()
    yield Door(users, tokens)
    await tokens.close()
    await users.close()


@pytest.fixture
async def doors(shared: tuple[Database, Database]) -> AsyncIterator[tuple[Door, Door]]:
    async with door_of(shared[0]) as one, door_of(shared[1]) as other:
        yield one, other


async def test_people_and_tokens_are_there_after_a_restart(database: Database) -> None:
    async with door_of(database) as door:
        ann = await door.users.add("ann", roles=READER, password_hash="hash", tenant="north")
        await door.users.add("bob", roles=ADMIN, password_hash=None)
        token, text = await door.tokens.create("ann", ttl_s=60.0)
        revoked, _ = await door.tokens.create("ann", ttl_s=60.0)
        await door.tokens.revoke(revoked.id)
    async with door_of(database) as door:
        assert door.users.require("ann") == ann
        assert (await door.tokens.verify(text)).name == "ann"
        assert {each.id for each in door.tokens.all()} == {token.id, revoked.id}
        await door.users.drop("ann")
    async with door_of(database) as door:
        assert [user.name for user in door.users.all()] == ["bob"]
        assert door.tokens.all() == ()


async def test_a_user_is_changed_by_one_gateway_and_by_then_another(doors: tuple[Door, Door]) -> None:
    one, other = doors
    await one.users.add("ann", roles=READER, password_hash=None)
    await other.users.change("ann", tenant="north")
    await one.users.change("ann", roles=ADMIN)
    await other.catch_up()
    assert one.users.require("ann") == other.users.require("ann")
    assert (one.users.require("ann").tenant, one.users.require("ann").roles) == ("north", ADMIN)


async def test_two_gateways_do_not_take_away_the_last_two_admins(doors: tuple[Door, Door]) -> None:
    one, other = doors
    for name in ("ann", "bob"):
        await one.users.add(name, roles=ADMIN, password_hash=None)
    await other.catch_up()
    outcomes = await asyncio.gather(
        one.users.change("ann", roles=READER), other.users.drop("bob"), return_exceptions=True
    )
    refusals = [outcome for outcome in outcomes if isinstance(outcome, BailiwickError)]
    assert [refusal.details["reason"] for refusal in refusals] == ["last_admin"]


async def test_of_one_name_in_two_cases_two_gateways_make_one_user(doors: tuple[Door, Door]) -> None:
    one, other = doors
    outcomes = await asyncio.gather(
        one.users.add("ann", roles=READER, password_hash=None),
        other.users.add("ANN", roles=READER, password_hash=None),
        return_exceptions=True,
    )
    refusals = [outcome for outcome in outcomes if isinstance(outcome, BailiwickError)]
    assert [refusal.code for refusal in refusals] == [Code.INVALID_ARGUMENTS]


async def test_many_changes_by_two_gateways_are_all_kept(doors: tuple[Door, Door]) -> None:
    adding = (
        door.users.add(f"{number}-{side}", roles=READER, password_hash=None)
        for number in range(8)
        for side, door in enumerate(doors)
    )
    await asyncio.gather(*adding)
    for door in doors:
        await door.catch_up()
        assert len(door.users.all()) == 16
    assert doors[0].users.revision == doors[1].users.revision == 16


async def test_a_token_that_one_gateway_revokes_is_refused_by_the_other(doors: tuple[Door, Door]) -> None:
    one, other = doors
    await one.users.add("ann", roles=READER, password_hash=None)
    token, text = await one.tokens.create("ann", ttl_s=60.0)
    await other.catch_up()
    assert (await other.tokens.verify(text)).name == "ann"
    await one.tokens.revoke(token.id)
    await other.catch_up()
    with pytest.raises(RejectedToken):
        await other.tokens.verify(text)


async def test_tokens_of_a_user_who_was_dropped_and_made_again_are_nobodys(doors: tuple[Door, Door]) -> None:
    one, other = doors
    await one.users.add("ann", roles=READER, password_hash=None)
    _, text = await one.tokens.create("ann", ttl_s=60.0)
    await other.catch_up()
    await one.users.drop("ann")
    await one.users.add("ann", roles=ADMIN, password_hash=None)
    await other.catch_up()
    for door in doors:
        with pytest.raises(RejectedToken):
            await door.tokens.verify(text)


async def test_a_token_for_a_user_whom_another_gateway_dropped_is_not_made(doors: tuple[Door, Door]) -> None:
    one, other = doors
    await one.users.add("root", roles=ADMIN, password_hash=None)
    await one.users.add("ann", roles=READER, password_hash=None)
    await other.catch_up()
    await one.users.drop("ann")
    with pytest.raises(BailiwickError, match="no user 'ann'"):
        await other.tokens.create("ann", ttl_s=60.0)


class Gate(Authenticator):
    """Lets everybody in, and notes that it was asked."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    async def authenticate_basic(self, name: str, password: str, *, peer: Peer = NOBODY) -> Principal:
        del password, peer
        self.asked.append("basic")
        return Principal(name)

    async def authenticate_bearer(self, token: str, *, peer: Peer = NOBODY) -> Principal:
        del token, peer
        self.asked.append("bearer")
        return Principal("ann")

    def act_for(self, actor: Principal, subject_name: str) -> Principal:
        return Principal(subject_name, actor=actor.name)

    def issue(self, principal: Principal) -> str:
        return principal.name


async def test_nobody_is_let_in_before_it_is_known_what_others_changed() -> None:
    asked: list[str] = []
    answers = [None, None, unavailable("gone"), unavailable("gone")]

    async def ensure_fresh() -> None:
        asked.append("fresh")
        if (error := answers.pop(0)) is not None:
            raise error

    gate = FreshAuthenticator(Gate(asked), ensure_fresh)
    await gate.authenticate_basic("ann", "x")
    await gate.authenticate_bearer("x")
    for attempt in (gate.authenticate_basic("ann", "x"), gate.authenticate_bearer("x")):
        with pytest.raises(BailiwickError) as refused:
            await attempt
        assert refused.value.code is Code.CATALOG_UNAVAILABLE
    assert asked == ["fresh", "basic", "fresh", "bearer", "fresh", "fresh"]
    assert gate.act_for(Principal("svc"), gate.issue(Principal("ann"))).actor == "svc"
