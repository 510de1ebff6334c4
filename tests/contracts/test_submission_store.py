"""What every store of submissions promises: of several who want the same, one gets it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from bailiwick.database.config import DatabaseConfig
from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import QueryId
from bailiwick.queries.submissions import Broke, Done, Outcome, Submission, SubmissionId, SubmissionStore
from bailiwick.queries.submissions_memory import MemorySubmissionStore
from bailiwick.queries.submissions_sql import SqlSubmissionStore
from bailiwick.testing.postgres import PrivatePostgres

MANY = 100


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SubmissionStore]:
    if request.param == "memory":
        yield MemorySubmissionStore()
        return
    config = DatabaseConfig()
    if request.param == "postgresql":
        server: PrivatePostgres = request.getfixturevalue("postgres")
        config = server.new_database()
    database = Database.open(tmp_path / "bailiwick.db", config)
    yield SqlSubmissionStore(database)
    await database.close()


def submission(
    query_id: str = "q1",
    *,
    key: str = "k",
    who: str = "ann",
    actor: str = "",
    part: int = 0,
    at: float = 10.0,
) -> Submission:
    identity = SubmissionId("acme", who, actor, key, part)
    return Submission(identity, "digest", QueryId(query_id), at, at + 100.0)


async def test_the_first_to_claim_a_key_has_it(store: SubmissionStore) -> None:
    first, second = submission("q1"), submission("q2", at=11.0)
    assert await store.claim(first, keys_max=MANY) == first
    assert await store.claim(second, keys_max=MANY) == first


async def test_of_many_who_claim_at_once_one_has_it(store: SubmissionStore) -> None:
    wanted = [submission(f"q{number}") for number in range(20)]
    found = await asyncio.gather(*(store.claim(each, keys_max=MANY) for each in wanted))
    assert len({each.query_id for each in found if each is not None}) == 1


async def test_a_key_is_its_principals_own_and_its_actors(store: SubmissionStore) -> None:
    others = [submission("q2", who="bob"), submission("q3", actor="svc"), submission("q4", part=1)]
    for each in [submission("q1"), *others]:
        assert await store.claim(each, keys_max=MANY) == each


async def test_an_expired_key_is_free(store: SubmissionStore) -> None:
    await store.claim(submission("q1", at=10.0), keys_max=MANY)
    late = submission("q2", at=110.0)
    assert await store.claim(late, keys_max=MANY) == late


async def test_a_principal_has_so_many_keys_and_no_more(store: SubmissionStore) -> None:
    for number in range(3):
        await store.claim(submission(f"q{number}", key=f"k{number}"), keys_max=3)
    assert await store.claim(submission("q9", key="one more"), keys_max=3) is None
    assert (await store.claim(submission("q9", key="k1"), keys_max=3)) == submission("q1", key="k1")
    assert await store.claim(submission("q9", who="bob"), keys_max=3) is not None


async def test_what_has_not_begun_can_be_taken_over_once(store: SubmissionStore) -> None:
    first, second, third = submission("q1"), submission("q2"), submission("q3")
    await store.claim(first, keys_max=MANY)
    assert await store.take_over(first, second)
    assert not await store.take_over(first, third)
    assert not await store.begin(first, at=12.0)
    assert await store.begin(second, at=12.0)
    assert await store.claim(third, keys_max=MANY) == replace(second, begun_at=12.0)


async def test_what_has_begun_cannot_be_taken_over(store: SubmissionStore) -> None:
    first = submission("q1")
    await store.claim(first, keys_max=MANY)
    assert await store.begin(first, at=12.0)
    assert await store.begin(first, at=13.0)
    assert not await store.take_over(first, submission("q2"))


async def test_what_was_given_back_can_be_taken_over(store: SubmissionStore) -> None:
    first = submission("q1")
    await store.claim(first, keys_max=MANY)
    await store.begin(first, at=12.0)
    await store.give_back(first)
    assert await store.take_over(first, submission("q2"))
    await store.give_back(first)


@pytest.mark.parametrize(
    "outcome",
    [
        Done(3, b"\xff\x00schema", 2),
        Done(-1),
        Broke(Code.DIVISION_BY_ZERO, "Ä row divides", "22012", {"line": "3"}),
        Broke(Code.EXECUTION_FAILED, "lost", is_unknown=True),
    ],
)
async def test_how_it_ended_is_found_by_whoever_asks_again(store: SubmissionStore, outcome: Outcome) -> None:
    first = submission("q1")
    await store.claim(first, keys_max=MANY)
    await store.begin(first, at=12.0)
    await store.end(first, outcome)
    found = await store.claim(submission("q2"), keys_max=MANY)
    assert found == replace(first, begun_at=12.0, outcome=outcome)
    assert not await store.take_over(first, submission("q2"))
    assert not await store.begin(first, at=13.0)


async def test_who_lost_the_claim_ends_nothing(store: SubmissionStore) -> None:
    first, second = submission("q1"), submission("q2")
    await store.claim(first, keys_max=MANY)
    await store.take_over(first, second)
    await store.end(first, Done(1))
    assert await store.claim(submission("q3"), keys_max=MANY) == second


async def test_what_expired_is_forgotten_and_nothing_else(store: SubmissionStore) -> None:
    await store.claim(submission("q1", key="old", at=10.0), keys_max=MANY)
    await store.claim(submission("q2", key="new", at=50.0), keys_max=MANY)
    assert await store.prune(expired_before=110.0) == 1
    found = await store.claim(submission("q3", key="new", at=60.0), keys_max=MANY)
    assert found is not None
    assert found.query_id == "q2"


async def test_submissions_survive_reopening(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "bailiwick.db")
    first = submission("q1")
    await SqlSubmissionStore(database).claim(first, keys_max=MANY)
    await database.close()
    database = Database.open(tmp_path / "bailiwick.db")
    assert await SqlSubmissionStore(database).claim(submission("q2"), keys_max=MANY) == first
    await database.close()


async def test_of_two_gateways_that_claim_at_once_one_has_it(shared: tuple[Database, Database]) -> None:
    stores = [SqlSubmissionStore(database) for database in shared]
    for number in range(10):
        wanted = [submission(f"q{number}-{each}", key=f"k{number}") for each in range(4)]
        found = await asyncio.gather(
            *(stores[n % 2].claim(each, keys_max=MANY) for n, each in enumerate(wanted))
        )
        assert len({each.query_id for each in found if each is not None}) == 1


async def test_of_two_gateways_that_take_over_at_once_one_does(shared: tuple[Database, Database]) -> None:
    one, other = (SqlSubmissionStore(database) for database in shared)
    first = submission("q0")
    await one.claim(first, keys_max=MANY)
    taken = await asyncio.gather(
        one.take_over(first, submission("q1")), other.take_over(first, submission("q2"))
    )
    assert sorted(taken) == [False, True]


async def test_a_database_that_does_not_answer_is_said_to_be_away(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "bailiwick.db")
    async with database.asynchronous.begin() as connection:
        await connection.execute(text("DROP TABLE submissions"))
    with pytest.raises(BailiwickError) as refused:
        await SqlSubmissionStore(database).claim(submission(), keys_max=MANY)
    assert (refused.value.code, refused.value.retryable) == (Code.CATALOG_UNAVAILABLE, True)
    await database.close()
