"""The summary of a load run says what happened, and no more than the figures allow."""

import pytest

from bailiwick.testing.load.clients import Rush
from bailiwick.testing.load.questions import ROWS, Mix, questions
from bailiwick.testing.load.summary import Asked, Ran, Summary, Times, summarise


def summary_of(asked: list[Asked], ran: list[Ran], engines: tuple[str, ...] = ("a", "b")) -> Summary:
    return summarise(asked, ran, engines, elapsed_s=2.0)


def answered(count: int) -> list[Asked]:
    return [Asked(client, "one", 0.1) for client in range(count)]


def test_all_right_is_passed() -> None:
    summary = summary_of(answered(10), [])
    assert summary.is_passed
    assert (summary.asked, summary.failed, summary.wrong) == (10, 0, 0)
    assert summary.queries_per_s == 5.0


def test_one_wrong_answer_fails_the_run() -> None:
    summary = summary_of([*answered(9), Asked(9, "one", 0.1, is_right=False)], [])
    assert not summary.is_passed
    assert summary.wrong == 1


def test_failures_are_counted_by_code_and_are_no_wrong_answers() -> None:
    failed = [Asked(1, "one", 0.1, error=code) for code in ("A", "B", "B")]
    summary = summary_of([*answered(3), *failed], [])
    assert not summary.is_passed
    assert summary.errors == {"B": 2, "A": 1}
    assert summary.wrong == 0
    assert summary.times.count == 3


def test_a_run_in_which_nobody_asked_is_not_passed() -> None:
    assert not summary_of([], []).is_passed


def test_the_95th_percentile_is_a_time_that_was_measured() -> None:
    times = Times.of([float(number) for number in range(1, 101)])
    assert (times.min_s, times.p95_s, times.max_s) == (1.0, 95.0, 100.0)
    assert Times.of([3.0]).p95_s == 3.0


def test_an_engine_with_nearly_all_of_the_work_is_flagged() -> None:
    ran = [Ran("one", "a", 10.0)] * 95 + [Ran("one", "b", 10.0)] * 5
    (flag,) = summary_of(answered(1), ran).flags
    assert flag == "a did 95% of the work although there are 1 more"


def test_the_only_engine_is_not_flagged_for_doing_all() -> None:
    summary = summary_of(answered(1), [Ran("one", "a", 10.0)] * 100, engines=("a",))
    assert summary.flags == ()
    assert summary.spread[0].share == 1.0


def test_what_the_gateway_answers_itself_is_no_engine_s_work() -> None:
    summary = summary_of(answered(1), [Ran("nodes", "gateway", 1.0)] * 50 + [Ran("one", "a", 1.0)])
    assert [(one.node_id, one.queries) for one in summary.spread] == [("a", 1), ("b", 0)]


def test_an_engine_three_times_slower_is_flagged() -> None:
    ran = [Ran("one", "a", 10.0), Ran("one", "b", 35.0)] * 20
    assert summary_of(answered(1), ran).flags == ("b takes 3.5 times as long as a for the same",)


def test_an_engine_that_got_the_heavier_questions_is_not_slow() -> None:
    ran = [Ran("one", "a", 10.0)] * 20 + [Ran("rank", "b", 500.0)] * 20 + [Ran("one", "b", 11.0)] * 5
    assert summary_of(answered(1), ran).flags == ()


@pytest.mark.parametrize("mix", Mix)
def test_every_client_asks_everything_of_its_mix_in_an_order_of_its_own(mix: Mix) -> None:
    plan = Rush(mix=mix, each=len(questions(mix)))
    orders = {tuple(question.name for question in plan.turns(client)) for client in range(20)}
    assert len(orders) > 1
    assert {frozenset(order) for order in orders} == {frozenset(one.name for one in questions(mix))}
    assert list(plan.turns(3)) == list(plan.turns(3))


def test_the_right_answers_are_those_of_the_whole_table() -> None:
    right = {question.name: question.right for question in questions(Mix.MIXED)}
    assert right["count"] == ((ROWS,),)
    assert sum(int(str(row[1])) for row in right["group by"]) == ROWS
    assert [row[2] for row in right["rank"]] == [*range(1, 11)] * 10
    assert right["rank of sums"][0][2] == 1
