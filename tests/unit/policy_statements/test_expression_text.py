"""A rule's expression is cut out at the parenthesis that closes it, whatever stands in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.policy.expression_text import EXPRESSION_CHARS_MAX, UncutError, cut_parenthesised

REST = " PRIORITY 1) 'x"


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "sha2(concat(a, (b)), 256)",
        "a = ')'",
        r"a = '\')'",
        r"a = 'x\\'",
        "a = 'it'')s'",
        r"a = r'\' OR b = ')'",
        r"a = R')\'",
        'a = r")"',
        "bar')'",
        'a = ")"',
        r'a = "\")"',
        'a = "x"")"',
        "`a)` = 1",
        "`a``)` = 1",
        "a = 1 -- )\n",
        "a = 1 -- ) \\\n ) \n",
        "a /* ) /* ) */ ) */ = 1",
        "a = $$)$$",
        "a = $tag$ ) $$ ' $tag$",
        "a IN (SELECT x FROM lake.s.t WHERE y = ')')",
        "a = 1\n  AND b = 2",
        "é = 'ü)'",
    ],
)
def test_a_parenthesis_in_a_string_a_name_or_a_comment_closes_nothing(text: str) -> None:
    sql = f"USING ({text})"
    cut = cut_parenthesised(sql, 6)
    assert cut.text == text.strip()
    assert cut.end == len(sql)


def test_what_follows_is_not_read() -> None:
    assert cut_parenthesised(f"(a){REST}", 0).end == 3


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("(a", 0),
        ("((a)", 0),
        ("('a)", 1),
        (r"('a\')", 1),
        ('("a)', 1),
        ("(`a)", 1),
        ("(a /* )", 3),
        ("($$ a)", 1),
        ("(a -- )", 0),
        ("()", 1),
        ("( \n )", 4),
    ],
)
def test_what_does_not_end_is_refused_where_it_began(sql: str, at: int) -> None:
    with pytest.raises(UncutError) as refused:
        cut_parenthesised(sql, 0)
    assert refused.value.at == at


def test_an_expression_has_a_bound() -> None:
    longest = "a" * EXPRESSION_CHARS_MAX
    assert cut_parenthesised(f"({longest})", 0).text == longest
    for text in (longest + "a", "a " * EXPRESSION_CHARS_MAX, "'" + longest + "'", "(" * 100_000):
        with pytest.raises(UncutError):
            cut_parenthesised(f"({text})", 0)


@given(st.text(alphabet=st.sampled_from("ab'\"`()$-/*\\rR\n "), max_size=60))
def test_a_cut_text_closes_itself(text: str) -> None:
    """What was cut, put into parentheses again, is cut in the same way: nothing in it reaches out."""
    try:
        cut = cut_parenthesised(f"({text})", 0)
    except UncutError:
        return
    again = f"({cut.text}\n){REST}"
    assert cut_parenthesised(again, 0).text == cut.text
