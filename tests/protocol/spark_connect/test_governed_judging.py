"""What counts as a difference between doors, and as a leak. No engine is asked."""

import pyarrow as pa
from attacks.attempt import absent, gives

from bailiwick.errors import Code
from bailiwick.testing.leaks import Outcome, Secrets, answered
from bailiwick.testing.policy_rows import VEIL
from spark_connect.governed import code_of, difference, misjudged

ONE = answered(pa.table({"a": [1, 2]}))
MISSING = {"error": {"condition": "TABLE_OR_VIEW_NOT_FOUND", "sqlstate": "42P01", "message": "no table"}}
DENIED = {"error": {"condition": "BAILIWICK_ACCESS_DENIED", "sqlstate": "42501", "message": "no"}}


def test_rows_in_another_order_are_the_same() -> None:
    assert difference(ONE, {"rows": ["(2,)", "(1,)"]}, Secrets()) is None


def test_other_rows_differ() -> None:
    assert difference(ONE, {"rows": ["(1,)"]}, Secrets())
    assert difference(ONE, {"rows": ["(1,)", "(1,)", "(2,)"]}, Secrets())


def test_rows_differ_from_a_failure_and_failures_by_their_codes() -> None:
    refused = Outcome(None, Code.ACCESS_DENIED, "")
    assert difference(ONE, DENIED, Secrets())
    assert difference(refused, {"rows": []}, Secrets())
    assert difference(refused, MISSING, Secrets())
    assert difference(refused, DENIED, Secrets()) is None


def test_codes_are_ours_or_told_by_sparks_conditions() -> None:
    assert [code_of({"rows": []}), code_of(MISSING), code_of(DENIED)] == [
        None,
        Code.TABLE_NOT_FOUND,
        Code.ACCESS_DENIED,
    ]


def test_a_hidden_value_is_a_leak_wherever_it_stands() -> None:
    leaking = {"error": {"condition": "X", "sqlstate": None, "message": f"seen {VEIL}-1"}}
    assert "LEAK" in str(misjudged(absent("a hidden table", "TABLE t"), leaking, Secrets()))
    assert "hidden values" in str(difference(ONE, {"rows": [f"('{VEIL}-1',)"]}, Secrets()))


def test_an_attempt_ends_as_it_says() -> None:
    hidden, counted = absent("a hidden table", "TABLE t"), gives("a count", "SELECT 1", rows=[(1,)])
    assert misjudged(hidden, MISSING, Secrets()) is None
    assert misjudged(hidden, DENIED, Secrets())
    assert misjudged(hidden, {"rows": []}, Secrets())
    assert misjudged(counted, {"rows": ["(1,)"]}, Secrets()) is None
    assert misjudged(counted, {"rows": ["(2,)"]}, Secrets())
    assert misjudged(counted, MISSING, Secrets())
