"""What is found under a key says what to do, what can be a key, and what makes two statements the same."""

from dataclasses import replace

import pytest

from bailiwick.engines.description import Kind
from bailiwick.engines.parameters import ParameterValue
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId, QueryId
from bailiwick.queries import failures
from bailiwick.queries.query import Attempt, Failure, Query, State
from bailiwick.queries.statement import UNKNOWN_ROWS, Statement, SubmissionKey
from bailiwick.queries.submissions import (
    SETTLE_S,
    STRANGER_S,
    Answer,
    Broke,
    Done,
    Submission,
    SubmissionId,
    TakeOver,
    Wait,
    checked_key,
    decide,
    digest_of,
    outcome_of,
    part_of,
)

ANN = Principal("ann", frozenset({"writer"}))
KEY = SubmissionKey("order-17")


def statement(sql: str = "INSERT", key: SubmissionKey = KEY, **options: object) -> Statement:
    return Statement(sql, ANN, "flight_sql", submission=key, **options)  # type: ignore[arg-type]


def query(state: State, *, finished_at: float | None = None, failure: Failure | None = None) -> Query:
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
        finished_at=finished_at,
        failure=failure,
    )


CLAIMED = Submission(SubmissionId("t", "ann", "", "k"), "digest", QueryId("q0"), 990.0, 90_000.0)
BEGUN = replace(CLAIMED, begun_at=991.0)
LOST = Failure(Code.EXECUTION_FAILED, "lost")


@pytest.mark.parametrize(
    ("found", "known", "now", "verdict"),
    [
        (replace(BEGUN, outcome=Done(3)), query(State.RUNNING), 992.0, Answer(Done(3))),
        (CLAIMED, query(State.QUEUED), 99_000.0, Wait(State.QUEUED, Kind.CHANGE)),
        (BEGUN, query(State.RUNNING), 99_000.0, Wait(State.RUNNING, Kind.CHANGE)),
        (CLAIMED, query(State.CANCELLED, finished_at=992.0), 992.0, TakeOver()),
        (CLAIMED, None, 990.0 + STRANGER_S - 0.1, Wait(State.QUEUED)),
        (CLAIMED, None, 990.0 + STRANGER_S, TakeOver()),
        (BEGUN, None, 990.0, Wait(State.QUEUED)),
        (
            BEGUN,
            query(State.FINISHED, finished_at=992.0),
            992.0 + SETTLE_S,
            Answer(Done(UNKNOWN_ROWS)),
        ),
        (
            BEGUN,
            query(State.FAILED, finished_at=992.0, failure=LOST),
            992.0,
            Wait(State.FAILED, Kind.CHANGE),
        ),
        (
            BEGUN,
            query(State.FAILED, finished_at=992.0, failure=LOST),
            992.0 + SETTLE_S,
            Answer(Broke(LOST.code, LOST.message, is_unknown=True)),
        ),
    ],
)
def test_what_is_found_under_a_key_says_what_to_do(
    found: Submission, known: Query | None, now: float, verdict: object
) -> None:
    assert decide(found, known, now=now) == verdict


def test_one_that_began_and_is_not_on_record_at_all_is_unknown() -> None:
    verdict = decide(BEGUN, None, now=990.0 + STRANGER_S)
    assert isinstance(verdict, Answer)
    assert isinstance(verdict.outcome, Broke)
    assert verdict.outcome.is_unknown


@pytest.mark.parametrize(
    ("error", "has_started", "expected"),
    [
        (BailiwickError(Code.DIVISION_BY_ZERO, "x"), True, False),
        (BailiwickError(Code.DIVISION_BY_ZERO, "x"), False, None),
        (BailiwickError(Code.COMMIT_CONFLICT, "x"), True, None),
        (BailiwickError(Code.COMMIT_CONFLICT, "x").outcome_unknown(), True, True),
        (BailiwickError(Code.RESOURCE_EXHAUSTED, "x"), False, None),
        (failures.timed_out(1.0), True, True),
        (failures.timed_out(1.0), False, None),
        (failures.cancelled_by("ann"), True, True),
        (failures.client_left(), False, None),
        (failures.shutting_down(), True, True),
    ],
)
def test_how_a_change_ended_says_whether_it_may_be_tried_again(
    error: BailiwickError, has_started: bool, expected: bool | None
) -> None:
    """None: it may. Otherwise whether its outcome is unknown."""
    broke = outcome_of(error, has_started=has_started)
    assert (None if broke is None else broke.is_unknown) is expected


@pytest.mark.parametrize("text", ["a", "order-17", "0b8f/2:x+y=~._-", "x" * 128])
def test_what_can_be_a_key(text: str) -> None:
    assert checked_key(text) == SubmissionKey(text)


@pytest.mark.parametrize("text", ["", " a", "a b", "-a", "x" * 129, "a\n", "ä", "a;b", "a'b", "\x00"])
def test_what_cannot_be_a_key(text: str) -> None:
    with pytest.raises(BailiwickError) as caught:
        checked_key(text)
    assert caught.value.code is Code.INVALID_ARGUMENTS


def test_the_runs_of_one_statement_for_many_rows_have_keys_of_their_own_and_belong_together() -> None:
    rows = [(ParameterValue.of(number),) for number in range(3)]
    parts = [part_of(KEY, number, rows) for number in (1, 2, 3)]
    assert [part.part for part in parts] == [1, 2, 3]
    assert len({part.whole for part in parts}) == 1
    assert part_of(KEY, 1, rows[:2]).whole != parts[0].whole
    digests = {digest_of(statement(key=part_of(KEY, 1, each))) for each in (rows, rows[:2])}
    assert len(digests) == 2


def test_a_digest_keeps_text_and_values_apart() -> None:
    asked = [statement("a", catalog="bc"), statement("ab", catalog="c"), statement("a", namespace=("b", "c"))]
    assert len({digest_of(each) for each in asked}) == 3


def test_an_error_after_several_attempts_lists_them() -> None:
    attempts = [
        Attempt(NodeId("keeper-1"), Failure(Code.EXECUTION_FAILED, "lost"), 1.25),
        Attempt(NodeId("keeper-2"), Failure(Code.EXECUTION_FAILED, "lost"), 0.5),
    ]
    error = failures.after_attempts(failures.engine_lost(None, "gone"), attempts)
    assert error.message.endswith(
        "Tried before: keeper-1 (EXECUTION_FAILED after 1.2s), keeper-2 (EXECUTION_FAILED after 0.5s)."
    )
    assert (error.details["attempts"], str(error).count("Tried")) == ("3", 1)
    alone = failures.engine_lost(None, "gone")
    assert failures.after_attempts(alone, []).message == "The engine was lost while the query ran."
