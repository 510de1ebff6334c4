"""A filter is true or false, and a mask keeps the type of its column."""

import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.expressions import Checked, fits, require_boolean, require_fit, spark_type


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("string", "string"),
        ("void", "timestamp"),
        ("int", "bigint"),
        ("int", "double"),
        ("float", "double"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("decimal(10, 2)", "decimal(12,4)"),
        ("int", "decimal(12,2)"),
        ("date", "timestamp"),
    ],
)
def test_what_always_becomes_the_columns_type_fits(given: str, wanted: str) -> None:
    assert fits(given, wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("string", "int"),
        ("int", "string"),
        ("bigint", "int"),
        ("double", "float"),
        ("bigint", "double"),
        ("timestamp", "date"),
        ("decimal(12,2)", "decimal(10,2)"),
        ("decimal(12,4)", "decimal(12,2)"),
        ("bigint", "decimal(12,2)"),
        ("struct<a:int>", "string"),
    ],
)
def test_what_might_lose_something_does_not_fit(given: str, wanted: str) -> None:
    assert not fits(given, wanted)


def test_icebergs_types_have_sparks_names() -> None:
    names = {
        "long": "bigint",
        "timestamptz": "timestamp",
        "timestamp": "timestamp_ntz",
        "uuid": "string",
        "fixed[16]": "binary",
        "decimal(9, 2)": "decimal(9,2)",
        "struct": None,
        "list": None,
    }
    assert {name: spark_type(name) for name in names} == names


def test_a_filter_that_is_no_condition_is_refused() -> None:
    require_boolean(Checked(type="boolean"), "f")
    with pytest.raises(BailiwickError, match="Row filter f must be true or false") as refused:
        require_boolean(Checked(type="string"), "f")
    assert refused.value.code is Code.TYPE_MISMATCH


def test_a_mask_of_another_type_is_refused_with_the_cast_it_needs() -> None:
    require_fit(Checked(type="string"), "string", "m", "email")
    require_fit(Checked(type="map<string,int>"), "map<string, int>", "m", "nested")
    with pytest.raises(BailiwickError, match="CAST the expression to BIGINT") as refused:
        require_fit(Checked(type="string"), "long", "m", "id")
    assert refused.value.code is Code.TYPE_MISMATCH
