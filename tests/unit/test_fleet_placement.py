"""Nobody runs where they did not want to, and who can run nowhere is told everything that was tried."""

import pytest

from bailiwick.errors import Code
from bailiwick.fleet.placement import (
    NOTHING_REACHABLE,
    RETRY_AFTER_S,
    TRIED_SHOWN_MAX,
    Placement,
    Tried,
    allows,
    default_placement,
    effective,
    must_say_so,
    nothing_reachable,
)
from bailiwick.ids import NodeId

REQUIRE, PREFER, LOCAL = Placement


def test_engines_are_required_as_soon_as_some_are_configured() -> None:
    assert default_placement(has_remote_configured=True) is REQUIRE
    assert default_placement(has_remote_configured=False) is LOCAL


@pytest.mark.parametrize("has_remote", [True, False])
def test_require_never_runs_on_the_embedded_engine_and_local_nowhere_else(has_remote: bool) -> None:
    assert [allows(REQUIRE, is_embedded, has_remote) for is_embedded in (True, False)] == [False, True]
    assert [allows(LOCAL, is_embedded, has_remote) for is_embedded in (True, False)] == [True, False]
    assert [allows(PREFER, is_embedded, has_remote) for is_embedded in (True, False)] == [True, True]


def test_who_says_nothing_runs_where_the_default_says() -> None:
    assert not allows(None, is_embedded=True, has_remote_configured=True)
    assert allows(None, is_embedded=True, has_remote_configured=False)


def test_the_nearest_word_counts_and_the_strictest_of_several_roles() -> None:
    assert effective(has_remote_configured=True) is REQUIRE
    assert effective(has_remote_configured=True, server=PREFER) is PREFER
    assert effective(has_remote_configured=True, server=REQUIRE, roles=[LOCAL, PREFER]) is PREFER
    assert effective(has_remote_configured=True, server=LOCAL, roles=[LOCAL, REQUIRE, PREFER]) is REQUIRE
    assert effective(has_remote_configured=True, roles=[REQUIRE], query=LOCAL) is LOCAL


def test_a_local_run_is_told_only_where_there_was_something_else() -> None:
    assert must_say_so(is_embedded=True, has_remote_configured=True)
    assert not must_say_so(is_embedded=True, has_remote_configured=False)
    assert not must_say_so(is_embedded=False, has_remote_configured=True)


def test_the_error_names_every_engine_that_was_tried_and_why() -> None:
    tried = [Tried(NodeId(f"engine-{n}"), f"reason {n}", f"10.0.0.{n}:7000") for n in range(3)]
    error = nothing_reachable(REQUIRE, tried)
    assert error.code is Code.CIRCUIT_BREAKER_OPEN
    assert "onfiguration error" in error.message
    assert "`require`" in error.message
    for one in tried:
        assert f"{one.node_id}: {one.why}" in error.message
        assert one.address in (error.cause_text or "")
        assert one.address not in error.message
    assert error.details == {
        "reason": NOTHING_REACHABLE,
        "placement": "require",
        "tried": "engine-0,engine-1,engine-2",
    }
    assert error.retryable


def test_with_no_engine_at_all_the_error_says_how_to_start_one_and_not_to_wait() -> None:
    error = nothing_reachable(PREFER, [])
    assert "bailiwick engine" in error.message
    assert not error.retryable
    assert "embedded" in nothing_reachable(LOCAL, []).message


def test_who_must_run_here_is_not_told_of_engines_elsewhere() -> None:
    error = nothing_reachable(
        LOCAL, [Tried(NodeId("engine-1"), "silent"), Tried(NodeId("embedded"), "starting")]
    )
    assert "engine-1" not in error.message
    assert "embedded: starting" in error.message
    assert (error.retryable, error.retry_after_s) == (True, RETRY_AFTER_S)
    assert "Enable it" not in error.message


def test_the_error_stays_readable_with_many_engines() -> None:
    tried = [Tried(NodeId(f"engine-{n}"), "silent") for n in range(TRIED_SHOWN_MAX + 7)]
    error = nothing_reachable(REQUIRE, tried)
    assert "and 7 more" in error.message
    assert error.details["tried"].count(",") == TRIED_SHOWN_MAX + 6
