"""The matrix would say so: a judge that finds nothing wrong with anything proves nothing."""

from pathlib import Path

import pyarrow as pa
import pytest

from bailiwick.testing.told import Told
from faults.matrix.cells import Outcome
from faults.matrix.judging import KEPT_COUNT, End, unrecorded, what, wrong_change, wrong_read
from faults.matrix.plan import CELLS
from faults.matrix.record import Record
from faults.matrix.table import NOT_RUN, lines, rows, total

RIGHT = pa.table({"n": [1, 2, 3], "digest": ["a", "b", "c"]})
ANSWERED = End(RIGHT, None)
FAILED = End(None, Told("EXECUTION_FAILED", "lost", may_retry=True))
ALL = (KEPT_COUNT, sum(range(KEPT_COUNT)))


def test_the_same_rows_in_another_order_are_right() -> None:
    assert wrong_read(End(RIGHT.take([2, 0, 1]), None), RIGHT) == ""
    assert wrong_read(FAILED, RIGHT) == ""


@pytest.mark.parametrize("taken", [[0, 1], [0, 1, 2, 2], [0, 1, 1], []])
def test_a_result_that_is_short_or_has_a_row_twice_is_wrong(taken: list[int]) -> None:
    assert wrong_read(End(RIGHT.take(pa.array(taken, pa.int64())), None), RIGHT)


def test_a_change_is_made_once_or_not_at_all() -> None:
    assert wrong_change(*ALL, ANSWERED) == ("", "")
    assert wrong_change(0, 0, FAILED) == ("", "")
    assert wrong_change(KEPT_COUNT * 2, ALL[1] * 2, ANSWERED)[0]
    assert wrong_change(KEPT_COUNT - 1, 7, FAILED)[0]


def test_a_change_that_was_told_and_is_not_there_is_lost() -> None:
    assert wrong_change(0, 0, ANSWERED)[1]


def test_to_send_a_made_change_again_is_wrong_advice() -> None:
    assert wrong_change(*ALL, FAILED)[0]
    assert wrong_change(*ALL, End(None, Told("EXECUTION_FAILED", "lost"))) == ("", "")


def test_what_stays_running_in_the_history_is_lost() -> None:
    assert unrecorded([{"state": "running"}], FAILED, has_survived=True)
    assert not unrecorded([{"state": "failed"}], FAILED, has_survived=True)


def test_an_answer_without_a_record_is_lost_unless_the_gateway_died() -> None:
    assert unrecorded([], ANSWERED, has_survived=True)
    assert not unrecorded([], ANSWERED, has_survived=False)


def test_an_outcome_says_whether_it_was_tried_again() -> None:
    assert what(ANSWERED, [{"attempts": 1}]) == "finished"
    assert what(ANSWERED, [{"attempts": 2}]) == "retried"
    assert what(FAILED, [{"attempts": 3}]) == "EXECUTION_FAILED"


def test_the_table_counts_what_is_wrong_and_what_is_lost(tmp_path: Path) -> None:
    record = Record(tmp_path / "faults.json")
    first, second, *_ = CELLS
    record.note([Outcome(first, "finished", 1.0), Outcome(second, "finished", 2.0, "short", "gone")], 9.0)
    heading, _, hit, *_, total, _ = lines(record)
    assert heading.split()[:2] == ["fault", "queued"]
    assert hit.removeprefix(first.strike.name).split()[:3] == ["finished", "finished", "not"]
    assert hit.split()[-3:] == total.split()[-3:] == ["9", "1", "1"]


def test_a_cell_that_was_not_run_is_never_shown_as_anything_else(tmp_path: Path) -> None:
    record = Record(tmp_path / "faults.json")
    assert sum(row.count(NOT_RUN) for row in rows(record)) == len(CELLS)
    assert total(record)[0] == f"0 cells run, {len(CELLS)} not run"


def test_what_several_runs_found_is_kept_together_and_the_last_time_counts(tmp_path: Path) -> None:
    first, second, *_ = CELLS
    for outcomes in (
        [Outcome(first, "EXECUTION_FAILED", 1.0, lost="gone"), Outcome(second, "finished", 1.0)],
        [Outcome(first, "finished", 2.0)],
    ):
        Record(tmp_path / "faults.json").note(outcomes, 1.0)
    known = Record(tmp_path / "faults.json")
    known.load()
    assert [each.what for each in known.outcomes.values()] == ["finished", "finished"]
    assert not any(each.lost for each in known.outcomes.values())
