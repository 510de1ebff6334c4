"""The differential oracle: the same query, restricted and on a hand-made copy, gives the same rows.

`ana` asks in `house`, where filters and masks apply to her; `otto` asks the same text in `copy`, which holds
what she may see and nothing else. The queries are made by a seed. A failure shows the query; `SEED` and its
number make it again.
"""

import pytest
from oracle.comparison import Tally, compare
from oracle.queries import queries

from bailiwick.testing.leaks import Secrets
from bailiwick.testing.policy_house import House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

SEED = 20260801
SELECTED = 90
WHOLE = 4000
WITH_ROWS_SHARE_MIN = 0.55
FAILED_SHARE_MAX = 0.01
SHAPES_MIN = 12


def check(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\noracle: {tally}")  # noqa: T201 - the count is part of the proof
    shown = "\n\n".join(str(difference) for difference in tally.differences[:20])
    assert not tally.differences, f"{len(tally.differences)} queries differ\n{shown}"
    failed = len(tally.failures)
    assert failed <= FAILED_SHARE_MAX * tally.compared, "\n\n".join(map(str, tally.failures[:20]))
    assert tally.with_rows >= WITH_ROWS_SHARE_MIN * tally.compared
    assert len(tally.shapes) >= SHAPES_MIN, tally.shapes


def test_restricted_rows_equal_those_of_a_hand_made_copy(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    check(compare(house, queries(SEED, SELECTED), Secrets()), capsys)


@pytest.mark.full
def test_thousands_of_restricted_queries_equal_those_of_a_hand_made_copy(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    check(compare(house, queries(SEED + 1, WHOLE), Secrets()), capsys)
