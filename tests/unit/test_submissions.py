"""Sent twice under one key, a statement runs once: with fake engines, and stores that outlive the service."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from query_house import ANN, ONE, RITA, House, Script, batch, eventually, house

from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Completed, EngineLost
from bailiwick.engines.parameters import ParameterValue
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.memory import MemoryQueryStore
from bailiwick.queries.query import Query, State
from bailiwick.queries.statement import Statement, SubmissionKey
from bailiwick.queries.submissions import (
    SETTLE_S,
    STRANGER_S,
    Submission,
    SubmissionId,
    digest_of,
)
from bailiwick.queries.submissions_memory import MemorySubmissionStore

KEY = SubmissionKey("order-17")
CHANGE = Description(Kind.CHANGE, "AppendData")


def insert(*events: object) -> Script:
    return Script(list(events) or [Completed()], description=CHANGE)  # type: ignore[arg-type]


def statement(
    sql: str = "INSERT", key: SubmissionKey | None = KEY, who: Principal = ANN, **options: object
) -> Statement:
    return Statement(sql, who, "flight_sql", submission=key, **options)  # type: ignore[arg-type]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as home:
        home.engine.scripts["INSERT"] = insert()
        yield home


def query(state: State) -> Query:
    return Query(
        QueryId("q0"),
        "ann",
        "default",
        "flight_sql",
        "INSERT",
        created_at=990.0,
        state=state,
        kind=Kind.CHANGE,
        started_at=991.0,
    )


async def affected(home: House, asked: Statement | None = None) -> tuple[QueryId, int]:
    async with home.service.run(asked or statement()) as result:
        rows = [frame async for frame in result.frames()]
        assert rows == []
        return result.query_id, result.affected_rows


async def refused(home: House, asked: Statement | None = None) -> BailiwickError:
    with pytest.raises(BailiwickError) as caught:
        await affected(home, asked)
    return caught.value


def runs(home: House, sql: str = "INSERT") -> int:
    return sum(executed == sql for executed, _ in home.engine.executed)


async def test_a_change_that_is_sent_again_is_answered_from_the_record(home: House) -> None:
    first = await affected(home)
    assert first[1] == 7
    assert await affected(home) == first
    assert runs(home) == 1


async def test_without_a_key_a_statement_runs_each_time(home: House) -> None:
    for _ in range(2):
        await affected(home, statement(key=None))
    assert runs(home) == 2


async def test_many_who_send_the_same_at_once_get_one_execution_and_all_the_same_answer(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["INSERT"] = insert(rest, Completed())
    asked = [asyncio.create_task(affected(home)) for _ in range(10)]
    await eventually(lambda: runs(home) == 1)
    rest.set()
    answers = await asyncio.gather(*asked)
    assert len(set(answers)) == 1
    assert runs(home) == 1


@pytest.mark.parametrize(
    "other",
    [
        statement("INSERT other"),
        statement(catalog="other"),
        statement(namespace=("sales",)),
        statement(parameters=(ParameterValue.of(1),)),
        statement(time_zone="Europe/Berlin"),
        statement(double_quoted_identifiers=True),
    ],
)
async def test_a_key_of_another_statement_is_refused(home: House, other: Statement) -> None:
    await affected(home)
    error = await refused(home, other)
    assert (error.code, error.details["reason"]) == (Code.INVALID_ARGUMENTS, "idempotency_key_reused")
    assert runs(home) == 1


async def test_what_does_not_change_its_meaning_does_not_make_it_another_statement(home: House) -> None:
    first = await affected(home)
    assert await affected(home, statement(timeout_s=5.0, compressed=True)) == first


async def test_a_key_is_its_principals_own(home: House) -> None:
    svc = replace(ANN, actor="svc")
    await affected(home)
    await affected(home, statement(who=Principal("bob", frozenset({"writer"}))))
    await affected(home, statement(who=svc))
    assert runs(home) == 3


async def test_a_failure_of_a_change_is_told_again_and_not_tried_again(home: House) -> None:
    home.engine.scripts["INSERT"] = insert(BailiwickError(Code.DIVISION_BY_ZERO, "A row divides by zero."))
    first = await refused(home)
    again = await refused(home)
    assert (again.code, again.query_id, again.details["recorded"]) == (first.code, first.query_id, "true")
    assert "A row divides by zero." in again.message
    assert runs(home) == 1


async def test_what_was_refused_before_it_began_may_be_tried_again(home: House) -> None:
    home.engine.scripts["INSERT"] = Script(description=BailiwickError(Code.TABLE_NOT_FOUND, "No such table."))
    assert (await refused(home)).code is Code.TABLE_NOT_FOUND
    home.engine.scripts["INSERT"] = insert()
    assert (await affected(home))[1] == 7


async def test_a_change_that_met_another_and_changed_nothing_may_be_tried_again(home: House) -> None:
    home.engine.scripts["INSERT"] = insert(BailiwickError(Code.COMMIT_CONFLICT, "Somebody was quicker."))
    assert (await refused(home)).retryable
    home.engine.scripts["INSERT"] = insert()
    assert (await affected(home))[1] == 7


async def test_an_unknown_outcome_stays_unknown_and_never_runs_again(home: House) -> None:
    home.engine.scripts["INSERT"] = insert(EngineLost("gone"))
    first = await refused(home)
    home.engine.scripts["INSERT"] = insert()
    again = await refused(home)
    for error in (first, again):
        assert not error.retryable
        assert (error.details["outcome"], error.details["idempotency_key"]) == ("unknown", KEY.text)
    assert "was not run again" in again.message
    assert runs(home) == 1


async def test_a_read_is_run_afresh_when_it_is_asked_for_again(home: House) -> None:
    for _ in range(2):
        assert (await home.ask("SELECT 1", submission=KEY)).equals(ONE)
    assert runs(home, "SELECT 1") == 2


async def test_a_read_that_runs_is_not_run_beside_itself(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["slow"] = Script([batch(ONE), rest, Completed()])
    async with home.service.run(statement("slow")) as result:
        error = await refused(home, statement("slow"))
        assert (error.code, error.retryable, error.query_id) == (
            Code.RESOURCE_EXHAUSTED,
            True,
            result.query_id,
        )
        assert (error.details["reason"], error.details["state"]) == ("in_progress", "running")
        assert error.retry_after_s is not None
        rest.set()
        assert len([frame async for frame in result.frames()]) == 1
    assert (await home.ask("slow", submission=KEY)).equals(ONE)


async def test_a_read_whose_reader_left_may_be_asked_for_again(home: House) -> None:
    home.engine.scripts["slow"] = Script([batch(ONE), asyncio.Event(), Completed()])
    async with home.service.run(statement("slow")):
        pass
    home.engine.scripts["slow"] = Script()
    assert (await home.ask("slow", submission=KEY)).equals(ONE)


async def test_a_change_with_a_key_goes_on_when_its_client_leaves(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["INSERT"] = insert(rest, Completed())
    leaving = asyncio.create_task(affected(home))
    await eventually(lambda: runs(home) == 1)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert (await home.recorded()).state is State.RUNNING
    back = asyncio.create_task(affected(home))
    rest.set()
    assert (await back)[1] == 7
    assert runs(home) == 1
    await eventually(lambda: home.pool.leased == 0)
    assert (await home.recorded()).state is State.FINISHED


async def test_a_change_without_a_key_ends_when_its_client_leaves(home: House) -> None:
    home.engine.scripts["INSERT"] = insert(asyncio.Event())
    leaving = asyncio.create_task(affected(home, statement(key=None)))
    await eventually(lambda: runs(home) == 1)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert (await home.recorded()).state is State.CANCELLED


async def test_a_client_that_leaves_before_anything_began_leaves_the_key_free(home: House) -> None:
    home.engine.describing = asyncio.Event()
    leaving = asyncio.create_task(affected(home))
    await eventually(lambda: home.engine.described == ["INSERT"])
    leaving.cancel()
    await asyncio.wait([leaving])
    home.engine.describing.set()
    assert (await affected(home))[1] == 7


async def test_a_change_with_a_key_can_still_be_cancelled(home: House) -> None:
    home.engine.scripts["INSERT"] = insert(asyncio.Event())
    asked = asyncio.create_task(affected(home))
    await eventually(lambda: runs(home) == 1)
    await home.service.cancel((await home.recorded()).id, ANN)
    with pytest.raises(BailiwickError) as caught:
        await asked
    assert caught.value.details["outcome"] == "unknown"
    assert (await refused(home)).details["outcome"] == "unknown"


async def test_who_waits_for_a_change_waits_no_longer_than_its_own_deadline(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["INSERT"] = insert(rest, Completed())
    first = asyncio.create_task(affected(home))
    await eventually(lambda: runs(home) == 1)
    error = await refused(home, statement(timeout_s=0.05))
    assert (error.details["reason"], error.details["state"]) == ("in_progress", "running")
    rest.set()
    await first


async def test_rows_that_a_change_answered_with_are_not_kept_and_that_is_said(home: House) -> None:
    home.engine.scripts["CALL"] = insert(batch(ONE), Completed())
    async with home.service.run(statement("CALL")) as result:
        assert len([frame async for frame in result.frames()]) == 1
    error = await refused(home, statement("CALL"))
    assert (error.code, error.details["reason"]) == (Code.INVALID_ARGUMENTS, "answer_not_kept")
    assert runs(home, "CALL") == 1


async def test_a_statement_with_a_password_takes_no_key(home: House) -> None:
    error = await refused(home, statement("CREATE USER bob PASSWORD 'hunter2hunter2'"))
    assert error.code is Code.NOT_SUPPORTED
    assert "hunter2" not in error.message


async def test_a_principal_has_a_limit_of_keys(tmp_path: Path) -> None:
    async with house(tmp_path, LimitsConfig(idempotency_keys_max=2)) as home:
        home.engine.scripts["INSERT"] = insert()
        for name in ("a", "b"):
            await affected(home, statement(key=SubmissionKey(name)))
        error = await refused(home, statement(key=SubmissionKey("c")))
        assert (error.code, error.retryable) == (Code.RESOURCE_EXHAUSTED, False)
        assert (await affected(home, statement(key=SubmissionKey("a"))))[1] == 7


async def test_a_key_is_remembered_for_a_while_and_then_forgotten(tmp_path: Path) -> None:
    now = [1_000.0]
    async with house(tmp_path, LimitsConfig(idempotency_s=7200.0), wall=lambda: now[0]) as home:
        home.engine.scripts["INSERT"] = insert()
        await affected(home)
        now[0] += 7199.0
        await affected(home)
        assert runs(home) == 1
        now[0] += 2.0
        await affected(home)
        assert runs(home) == 2


async def test_a_restarted_gateway_knows_what_happened(tmp_path: Path) -> None:
    queries, submissions = MemoryQueryStore(), MemorySubmissionStore()
    async with house(tmp_path, store=queries, submissions=submissions) as home:
        home.engine.scripts["INSERT"] = insert()
        first = await affected(home)
    async with house(tmp_path, store=queries, submissions=submissions) as home:
        assert await affected(home) == first
        assert runs(home) == 0


async def test_a_change_that_ran_when_the_gateway_was_killed_never_runs_again(tmp_path: Path) -> None:
    now = [1_000.0]
    queries, submissions = MemoryQueryStore(), MemorySubmissionStore()
    identity = SubmissionId.of(ANN, KEY)
    held = Submission(identity, digest_of(statement()), QueryId("q0"), 990.0, 90_000.0)
    await submissions.claim(held, keys_max=10)
    await submissions.begin(held, at=991.0)
    await queries.save([query(State.RUNNING)])
    async with house(tmp_path, store=queries, submissions=submissions, wall=lambda: now[0]) as home:
        now[0] += SETTLE_S
        error = await refused(home)
        assert (error.details["outcome"], error.query_id) == ("unknown", "q0")
        assert runs(home) == 0


async def test_a_statement_that_only_waited_when_the_gateway_was_killed_runs_afterwards(
    tmp_path: Path,
) -> None:
    queries, submissions = MemoryQueryStore(), MemorySubmissionStore()
    identity = SubmissionId.of(ANN, KEY)
    held = Submission(identity, digest_of(statement()), QueryId("q0"), 990.0, 9e12)
    await submissions.claim(held, keys_max=10)
    await queries.save([replace(query(State.QUEUED), kind=None)])
    async with house(tmp_path, store=queries, submissions=submissions) as home:
        home.engine.scripts["INSERT"] = insert()
        assert (await affected(home))[1] == 7


async def test_who_lost_the_claim_meanwhile_changes_nothing(tmp_path: Path) -> None:
    submissions = MemorySubmissionStore()
    async with house(tmp_path, submissions=submissions) as home:
        home.engine.scripts["INSERT"] = insert()
        home.engine.describing = asyncio.Event()
        asked = asyncio.create_task(affected(home))
        await eventually(lambda: home.engine.described == ["INSERT"])
        held = Submission(
            SubmissionId.of(ANN, KEY), digest_of(statement()), (await home.recorded()).id, 0.0, 9e12
        )
        assert await submissions.take_over(held, replace(held, query_id=QueryId("another's")))
        home.engine.describing.set()
        with pytest.raises(BailiwickError) as caught:
            await asked
        assert caught.value.details["reason"] == "in_progress"
        assert runs(home) == 0


async def test_a_claim_whose_query_cannot_start_is_open_to_others(home: House) -> None:
    rest = asyncio.Event()
    home.engine.scripts["slow"] = Script([batch(ONE), rest, Completed()])
    async with home.service.run(statement("slow", None)) as running:
        with pytest.raises(BailiwickError, match="running already"):
            async with home.service.run(statement(), query_id=running.query_id):
                pass
        rest.set()
    now = asyncio.get_running_loop().time()
    assert (await affected(home, statement(timeout_s=STRANGER_S + 5)))[1] == 7
    assert asyncio.get_running_loop().time() - now < STRANGER_S


async def test_two_gateways_run_it_once_and_both_know_what_happened(tmp_path: Path) -> None:
    queries, submissions = MemoryQueryStore(), MemorySubmissionStore()
    async with (
        house(tmp_path / "one", store=queries, submissions=submissions) as one,
        house(tmp_path / "two", store=queries, submissions=submissions) as two,
    ):
        rest = asyncio.Event()
        one.engine.scripts["INSERT"] = two.engine.scripts["INSERT"] = insert(rest, Completed())
        asked = [asyncio.create_task(affected(home)) for home in (one, two, one, two)]
        await eventually(lambda: runs(one) + runs(two) == 1)
        rest.set()
        answers = await asyncio.gather(*asked)
        assert len(set(answers)) == 1
        assert runs(one) + runs(two) == 1


async def test_another_gateways_read_is_not_run_beside_it(tmp_path: Path) -> None:
    queries, submissions = MemoryQueryStore(), MemorySubmissionStore()
    async with (
        house(tmp_path / "one", store=queries, submissions=submissions) as one,
        house(tmp_path / "two", store=queries, submissions=submissions) as two,
    ):
        rest = asyncio.Event()
        one.engine.scripts["slow"] = Script([batch(ONE), rest, Completed()])
        async with one.service.run(statement("slow")) as result:
            error = await refused(two, statement("slow"))
            assert (error.query_id, error.details["state"]) == (result.query_id, "running")
            rest.set()


async def test_reading_rights_are_checked_before_a_key_means_anything(home: House) -> None:
    error = await refused(home, statement(who=replace(RITA, roles=frozenset())))
    assert error.code is Code.ACCESS_DENIED
