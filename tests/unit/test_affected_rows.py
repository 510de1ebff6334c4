"""How many rows a change touched: the right number, or none."""

import pytest

from bailiwick.ids import LeaseId, new_lease_id
from bailiwick.queries.affected import AffectedRows, rows_of

LEASE = LeaseId("L1")


@pytest.mark.parametrize(
    ("summary", "rows"),
    [
        ({"operation": "append", "added-records": "1000", "total-records": "5000"}, 1000),
        ({"operation": "append"}, -1),
        ({"operation": "delete", "deleted-records": "7"}, 7),
        ({"operation": "overwrite", "added-records": "10", "deleted-records": "11"}, -1),
        ({"operation": "replace", "added-records": "10"}, -1),
        ({"operation": "append", "added-records": "-5"}, -1),
        ({"operation": "append", "added-records": "many"}, -1),
        ({}, -1),
    ],
)
def test_a_number_is_exact_or_not_given(summary: dict[str, str], rows: int) -> None:
    assert rows_of(summary) == rows


def test_the_commits_of_one_lease_count_together_and_once() -> None:
    affected = AffectedRows()
    affected.note(LEASE, {"operation": "append", "added-records": "3"})
    affected.note(LEASE, {"operation": "append", "added-records": "4"})
    affected.note(LeaseId("L2"), {"operation": "append", "added-records": "100"})
    assert affected.take(LEASE) == 7
    assert affected.take(LEASE) == -1


def test_one_commit_of_unknown_size_makes_the_sum_unknown() -> None:
    affected = AffectedRows()
    affected.note(LEASE, {"operation": "overwrite"})
    affected.note(LEASE, {"operation": "append", "added-records": "4"})
    assert affected.take(LEASE) == -1


def test_counts_that_nobody_asks_for_are_forgotten() -> None:
    affected = AffectedRows(leases_max=10)
    affected.note(LEASE, {"operation": "append", "added-records": "3"})
    for _ in range(10):
        affected.note(new_lease_id(), {"operation": "append", "added-records": "3"})
    assert affected.take(LEASE) == -1
