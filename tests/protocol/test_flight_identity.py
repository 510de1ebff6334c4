"""Signing in at the Flight SQL door, with the real authenticator and its database behind it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import argon2
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import dbapi as adbc
from flight_door import NUMBERS, Door, serving

from bailiwick.database.database import Database
from bailiwick.identity.chain import Chain
from bailiwick.identity.impersonation import ON_BEHALF_OF_HEADER
from bailiwick.identity.passwords import Passwords, StoredPasswords
from bailiwick.identity.people import People
from bailiwick.identity.principal import Principal
from bailiwick.identity.static_tokens import StaticTokens
from bailiwick.identity.tokens import SignedTokens
from bailiwick.identity.users import UserStore

FAST_HASHER = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
TOKEN_S = 600.0


@dataclass
class World:
    door: Door
    chain: Chain
    users: UserStore
    static: StaticTokens
    clock: list[float] = field(default_factory=list)
    rules: set[tuple[str, str]] = field(default_factory=set)
    """Who may act for whom."""

    async def ask(self, credentials: dict[str, str]) -> Any:
        """What `numbers` gives, by ADBC, with these credentials."""

        def work() -> Any:
            with (
                dbapi.connect(self.door.uri, db_kwargs=credentials, autocommit=True) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("numbers")
                return cursor.fetch_arrow_table()

        return await asyncio.to_thread(work)

    async def ask_with_token(self, token: str) -> Any:
        return await self.ask({"adbc.flight.sql.authorization_header": f"Bearer {token}"})


@dataclass
class Rules:
    pairs: set[tuple[str, str]] = field(default_factory=set)

    def allows(self, actor: Principal, subject_name: str, _subject_roles: frozenset[str]) -> bool:
        return (actor.name, subject_name) in self.pairs


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock = [1_700_000_000.0]
    database = Database.open(tmp_path / "bailiwick.db")
    passwords = Passwords(threads=1, hasher=FAST_HASHER)
    users = UserStore(database, now=lambda: clock[0])
    static = StaticTokens(database, users, now=lambda: clock[0])
    await users.load()
    await users.add("dee", roles=frozenset({"writer"}), password_hash=None)
    await users.add("cy", roles=frozenset({"reader"}), password_hash=await passwords.hash("geheim: ü"))
    signed = SignedTokens(bytes(range(32)), users, life_s=TOKEN_S, now=lambda: clock[0])
    rules = Rules()
    chain = Chain(
        StoredPasswords(users, passwords),
        signed,
        [static],
        people=People(users, impersonations=rules),
        failure_delay_s=0.01,
        hashing_threads=1,
    )
    async with serving(authenticator=chain) as door:
        yield World(door, chain, users, static, clock, rules.pairs)
    await chain.close()
    await static.close()
    await users.close()
    passwords.close()
    await database.close()


async def test_a_password_opens_the_door(world: World) -> None:
    assert await world.ask({"username": "cy", "password": "geheim: ü"}) == NUMBERS
    assert world.door.queries.runs[0].statement.principal.name == "cy"
    assert world.door.queries.runs[0].statement.principal.roles == {"reader"}


@pytest.mark.parametrize(("name", "password"), [("cy", "wrong"), ("nobody", "geheim: ü"), ("cy", "")])
async def test_a_wrong_password_does_not(world: World, name: str, password: str) -> None:
    with pytest.raises(adbc.Error, match="AUTHENTICATION_FAILED"):
        await world.ask({"username": name, "password": password})


async def test_a_static_token_opens_the_door_until_it_is_revoked(world: World) -> None:
    token, secret = await world.static.create("cy", ttl_s=3600)
    assert await world.ask_with_token(secret) == NUMBERS
    await world.static.revoke(token.id)
    with pytest.raises(adbc.Error, match=r"SESSION_EXPIRED|AUTHENTICATION_FAILED"):
        await world.ask_with_token(secret)


async def test_an_expired_token_asks_to_sign_in_again(world: World) -> None:
    user = world.users.find("cy")
    assert user is not None
    token = world.chain.issue(user.principal)
    assert await world.ask_with_token(token) == NUMBERS
    world.clock[0] += TOKEN_S + 1
    with pytest.raises(adbc.Error, match="SESSION_EXPIRED"):
        await world.ask_with_token(token)


@pytest.mark.parametrize("change", ["altered", "unsigned", "noise", "long"])
async def test_a_forged_token_is_refused(world: World, change: str) -> None:
    user = world.users.find("cy")
    assert user is not None
    head, body, proof = world.chain.issue(user.principal).split(".")
    forged = {
        "altered": f"{head}.{body[:-2]}AA.{proof}",
        "unsigned": f"{head}.{body}.",
        "noise": "noise",
        "long": "x" * 5000,
    }[change]
    with pytest.raises(adbc.Error, match="AUTHENTICATION_FAILED"):
        await world.ask_with_token(forged)
    assert world.door.queries.prepared == []


@pytest.mark.parametrize("by", ["password", "token"])
async def test_a_driver_that_sends_the_header_acts_for_another_by_rule(world: World, by: str) -> None:
    _, secret = await world.static.create("cy", ttl_s=3600)
    credentials = {
        "password": {"username": "cy", "password": "geheim: ü"},
        "token": {"adbc.flight.sql.authorization_header": f"Bearer {secret}"},
    }[by]
    acting = {**credentials, f"adbc.flight.sql.rpc.call_header.{ON_BEHALF_OF_HEADER}": "dee"}
    with pytest.raises(adbc.Error, match="ACCESS_DENIED"):
        await world.ask(acting)
    world.rules.add(("cy", "dee"))
    assert await world.ask(acting) == NUMBERS
    asked = world.door.queries.runs[-1].statement.principal
    assert asked == Principal("dee", frozenset({"writer"}), actor="cy")
    assert await world.ask(credentials) == NUMBERS
    assert world.door.queries.runs[-1].statement.principal.name == "cy"
