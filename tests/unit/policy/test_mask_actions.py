"""Each action fits some types and keeps them; what does not fit is refused, and hidden if need be."""

import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy import actions

SIMPLE = ("boolean", "int", "long", "float", "double", "decimal(9, 2)", "date", "timestamp", "timestamptz")
TEXTS = ("string", "uuid", "binary", "fixed[16]")
OTHERS = ("time", "timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "list<1: string>")
FITS = {
    "mask-alphanum": {"string"},
    "show-first-4": {"string"},
    "show-last-4": {"string"},
    "sha-256-global": {"string", "int", "long", "binary"},
    "truncate-to-year": {"date", "timestamp", "timestamptz"},
    "truncate-to-month": {"date", "timestamp", "timestamptz"},
    "mask-to-fixed-value": {*SIMPLE, *TEXTS},
    "replace-with-null": {*SIMPLE, *TEXTS, *OTHERS},
}


@pytest.mark.parametrize("action", sorted(actions.ACTIONS))
@pytest.mark.parametrize("type_name", [*SIMPLE, *TEXTS, *OTHERS])
def test_an_action_fits_the_types_that_the_standard_gives_it(action: str, type_name: str) -> None:
    if type_name in FITS[action]:
        assert actions.sql(action, type_name)
        return
    with pytest.raises(BailiwickError) as refused:
        actions.sql(action, type_name)
    assert refused.value.code is Code.TYPE_MISMATCH
    assert "does not fit a column of type" in refused.value.message
    assert actions.sql_or_null(action, type_name) == actions.NULL


@pytest.mark.parametrize(
    ("written", "standard"),
    [
        ("hash", "sha-256-global"),
        ("redact", "mask-to-fixed-value"),
        ("null", "replace-with-null"),
        ("show_last_4", "show-last-4"),
        ("Mask_Alphanum", "mask-alphanum"),
        ("truncate-to-year", "truncate-to-year"),
    ],
)
def test_people_may_write_shorter_names(written: str, standard: str) -> None:
    assert actions.check(written) == standard


@pytest.mark.parametrize("action", ["", "blur", "sha-256-query-local", "apply-expression", "x" * 10_000])
def test_an_unknown_action_is_refused_and_the_known_ones_are_listed(action: str) -> None:
    with pytest.raises(BailiwickError, match="The actions are: hash, mask-alphanum") as refused:
        actions.sql(action, "string")
    assert len(refused.value.message) < 500


def test_a_fixed_value_is_of_the_very_type() -> None:
    assert actions.sql("redact", "decimal(9,2)") == "CAST(0 AS DECIMAL(9, 2))"
    assert actions.sql("redact", "fixed[2]") == "X'0000'"
    assert actions.sql_or_null("redact", "fixed[100000]") == actions.NULL


def test_a_column_whose_type_is_not_known_shows_nothing() -> None:
    assert actions.sql_or_null("hash", None) == actions.NULL
