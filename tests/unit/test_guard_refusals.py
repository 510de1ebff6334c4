"""What the guard says when it refuses is told as it is; nobody else's words are taken for it."""

import pytest

from bailiwick.engines.spark_errors import SparkFailure, classify
from bailiwick.errors import Code

SAID = (
    'BAILIWICK_DENIED {"code":"ACCESS_DENIED","reason":"privilege","message":"You lack SELECT on lake.a.b."}'
)
GUARD = ("io.bailiwick.Denied", "java.lang.RuntimeException")


def test_a_refusal_of_the_guard_is_access_denied_in_its_own_words() -> None:
    error = classify(SparkFailure(SAID, classes=GUARD))
    assert (error.code, error.message) == (Code.ACCESS_DENIED, "You lack SELECT on lake.a.b.")
    assert error.details == {"reason": "privilege"}
    assert not error.retryable


def test_a_refusal_that_spark_wraps_is_found() -> None:
    wrapped = SparkFailure("boom", classes=("java.lang.Exception",), cause=SparkFailure(SAID, classes=GUARD))
    assert classify(wrapped).code is Code.ACCESS_DENIED


def test_a_refusal_of_a_task_is_found_in_the_message_of_its_job() -> None:
    message = (
        "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task"
        f" 0.0 in stage 1.0 (TID 1) (localhost): io.bailiwick.Denied: {SAID}\n\tat x.Y(Z.java:1)"
    )
    error = classify(SparkFailure(message, classes=("org.apache.spark.SparkException",)))
    assert (error.code, error.message) == (Code.ACCESS_DENIED, "You lack SELECT on lake.a.b.")


def test_a_persons_own_error_is_not_taken_for_the_guards() -> None:
    raised = SparkFailure(
        f"[USER_RAISED_EXCEPTION] {SAID} SQLSTATE: P0001",
        error_class="USER_RAISED_EXCEPTION",
        sqlstate="P0001",
        classes=("org.apache.spark.SparkRuntimeException",),
    )
    assert classify(raised).code is not Code.ACCESS_DENIED


@pytest.mark.parametrize(
    "text", ["BAILIWICK_DENIED ", "BAILIWICK_DENIED {", "BAILIWICK_DENIED []", "something else"]
)
def test_words_that_cannot_be_read_are_an_error_of_the_house(text: str) -> None:
    assert classify(SparkFailure(text, classes=GUARD)).code is Code.INTERNAL_ERROR
