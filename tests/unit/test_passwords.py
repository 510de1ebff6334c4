"""Passwords are hashed with Argon2id, off the event loop, and judged only when they are new."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal

import argon2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.passwords import Passwords, StoredPasswords, check_new_password, is_possible
from bailiwick.identity.users import UserStore
from bailiwick.testing.databases import opened_database


class CountingHasher(argon2.PasswordHasher):
    """Notes on which threads it worked, and what it was compared with."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=64, parallelism=1)
        self.threads: set[str] = set()
        self.compared_with: list[str | bytes] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        self.threads.add(threading.current_thread().name)
        self.compared_with.append(hash)
        return super().verify(hash, password)


@pytest.fixture
def hasher() -> CountingHasher:
    return CountingHasher()


@pytest.fixture
def passwords(hasher: CountingHasher) -> Iterator[Passwords]:
    made = Passwords(threads=2, hasher=hasher)
    yield made
    made.close()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = opened_database(tmp_path / "bailiwick.db")
    yield opened
    await opened.close()


@pytest.fixture
async def users(database: Database) -> AsyncIterator[UserStore]:
    store = UserStore(database)
    await store.load()
    yield store
    await store.close()


async def test_the_defaults_are_argon2id_with_owasps_parameters() -> None:
    made = Passwords(threads=1)
    assert (await made.hash("correct horse")).startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    made.close()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_a_hash_matches_its_password_and_no_other(passwords: Passwords, password: str, other: str) -> None:
    async def story() -> tuple[bool, bool]:
        hashed = await passwords.hash(password)
        return await passwords.matches(hashed, password), await passwords.matches(hashed, other)

    assert asyncio.run(story()) == (True, password == other)


async def test_hashing_never_runs_on_the_event_loop(passwords: Passwords, hasher: CountingHasher) -> None:
    hashed = await passwords.hash("correct horse")
    await asyncio.gather(*(passwords.matches(hashed, "correct horse") for _ in range(20)))
    assert threading.current_thread().name not in hasher.threads
    assert len(hasher.threads) <= 2


async def test_an_unknown_user_costs_the_same_work(passwords: Passwords, hasher: CountingHasher) -> None:
    assert await passwords.matches(None, "anything") is False
    (compared_with,) = hasher.compared_with
    assert isinstance(compared_with, str)
    assert argon2.extract_parameters(compared_with).memory_cost == 64


async def test_a_damaged_hash_matches_nothing(passwords: Passwords) -> None:
    assert await passwords.matches("$argon2id$garbage", "anything") is False
    assert await passwords.matches("x", "anything") is False


async def test_a_hash_of_other_parameters_is_made_anew_at_sign_in(
    passwords: Passwords, users: UserStore
) -> None:
    old_hash = argon2.PasswordHasher(time_cost=2, memory_cost=32, parallelism=1).hash("correct horse")
    before = await users.add("ann", roles=frozenset({"reader"}), password_hash=old_hash)
    check = StoredPasswords(users, passwords)
    assert await check.verify("ann", "wrong horse") is None
    assert users.require("ann").password_hash == old_hash
    assert await check.verify("ann", "correct horse") == before.principal
    after = users.require("ann")
    assert after.password_hash is not None
    assert "m=64,t=1" in after.password_hash
    assert after.generation == before.generation, (
        "the tokens of a user whose password did not change stay valid"
    )
    assert await check.verify("ann", "correct horse") == before.principal


async def test_a_disk_that_is_full_keeps_nobody_out(
    passwords: Passwords, users: UserStore, database: Database
) -> None:
    old_hash = argon2.PasswordHasher(time_cost=2, memory_cost=32, parallelism=1).hash("correct horse")
    await users.add("ann", roles=frozenset({"reader"}), password_hash=old_hash)
    with database.synchronous.begin() as connection:
        connection.execute(
            text("CREATE TRIGGER full BEFORE UPDATE ON users BEGIN SELECT RAISE(ABORT, 'full'); END")
        )
    assert await StoredPasswords(users, passwords).verify("ann", "correct horse") is not None


async def test_a_password_changed_while_the_old_one_is_compared_does_not_let_the_old_one_in(
    passwords: Passwords, users: UserStore
) -> None:
    await users.add("ann", roles=frozenset({"reader"}), password_hash=await passwords.hash("correct horse"))
    changed = await passwords.hash("battery staple")
    signing_in = asyncio.create_task(StoredPasswords(users, passwords).verify("ann", "correct horse"))
    await asyncio.sleep(0)
    # Taken into memory in one step, as the store does after its commit; the comparison is still under way.
    users._users["ann"] = type(users.require("ann"))(
        "ann", frozenset({"reader"}), "default", 0.0, 1, False, changed
    )
    assert await signing_in is None


@pytest.mark.parametrize("password", ["", "seven77", "x" * 1025, "é" * 513])
def test_what_should_not_become_a_password_is_refused(password: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        check_new_password(password)
    assert refused.value.code is Code.INVALID_ARGUMENTS
    assert not password or password not in refused.value.message


@pytest.mark.parametrize("password", ["eight888", "x" * 1024, "ééééßßßß", "with 'quotes' and ; --"])
def test_what_may_become_a_password(password: str) -> None:
    check_new_password(password)
    assert is_possible(password)
