"""A search that finds nothing proves nothing unless it can find."""

import base64

import pytest

from bailiwick.testing.leaks import Secrets
from bailiwick.testing.policy_rows import VEIL
from bailiwick.testing.policy_tables import tables


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_a_veiled_word_is_found_however_it_is_written(before: str) -> None:
    text = f"{before}{VEIL}-x9"
    for written in (
        text,
        text.lower(),
        text[::-1],
        text.encode().hex(),
        base64.b64encode(text.encode()).decode(),
    ):
        assert Secrets().found_in(f"rows: {written}"), written


@pytest.mark.parametrize("text", ["(9021017)", "-9021017.00", "Decimal('9021017.50')", "x=9021017,"])
def test_a_veiled_number_is_found(text: str) -> None:
    assert Secrets().found_in(text) == ["9021017"]


@pytest.mark.parametrize("text", ["1790210179", "a9021017f", "9031017", "902101", "nothing at all"])
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert Secrets().found_in(text) == []


def test_what_is_learned_of_hidden_things_is_searched_for_too() -> None:
    secrets = Secrets().with_more({"part-0001.parquet", "4711"})
    assert secrets.found_in("scan part-0001.parquet") == ["part-0001.parquet"]
    assert secrets.found_in("numOutputRows: 4711") == ["4711"]
    assert secrets.found_in("14711 rows") == []
    assert secrets.found_in("Project [amount#4711, id#4711L]") == []
    assert secrets.found_in("Project [amount#3] where 4711") == ["4711"]


def test_no_permitted_row_of_the_house_holds_a_secret() -> None:
    rows = [row for table in tables() for step in table.steps for row in step.adds]
    assert len([row for row in rows if Secrets().found_in(repr(row.raw))]) > 90
    assert [row.permitted for row in rows if Secrets().found_in(repr(row.permitted))] == []
    assert 60 < len([row for row in rows if row.permitted]) < len(rows)
