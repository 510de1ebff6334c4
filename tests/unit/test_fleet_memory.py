"""The colours of memory, and what each of them still takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.fleet.memory import MemoryUse, Watermark, Watermarks, utilisation

ratio = st.none() | st.floats(0, 2)


@pytest.mark.parametrize(
    ("ratio", "colour"),
    [
        (0.0, Watermark.GREEN),
        (0.599, Watermark.GREEN),
        (0.60, Watermark.YELLOW),
        (0.749, Watermark.YELLOW),
        (0.75, Watermark.ORANGE),
        (0.90, Watermark.ORANGE),
        (0.901, Watermark.RED),
        (1.7, Watermark.RED),
    ],
)
def test_the_colours_begin_where_they_should(ratio: float, colour: Watermark) -> None:
    assert Watermarks().of(ratio) is colour


def test_the_marks_can_be_moved() -> None:
    assert Watermarks(0.1, 0.2, 0.3).of(0.25) is Watermark.ORANGE


@pytest.mark.parametrize("marks", [(0.0, 0.5, 0.9), (0.6, 0.6, 0.9), (0.9, 0.75, 0.6), (0.5, 0.6, 1.1)])
def test_marks_that_do_not_rise_are_refused(marks: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="must rise"):
        Watermarks(*marks)


@given(st.tuples(ratio, ratio, ratio))
def test_the_fullest_of_what_was_measured_counts(shares: tuple[float | None, ...]) -> None:
    assert utilisation(MemoryUse(*shares)) == max([share for share in shares if share is not None] or [0.0])


def test_the_worse_of_two_colours_counts() -> None:
    assert Watermark.GREEN.or_worse(Watermark.ORANGE) is Watermark.ORANGE
    assert Watermark.RED.or_worse(Watermark.YELLOW) is Watermark.RED


def test_an_engine_that_measures_nothing_is_taken_to_be_empty() -> None:
    assert utilisation(MemoryUse()) == 0.0


def test_each_colour_takes_no_more_than_the_one_before() -> None:
    assert [one.takes_work for one in Watermark] == [True, True, True, False]
    assert [one.takes_heavy_work for one in Watermark] == [True, True, False, False]
    assert [one.fills_caches for one in Watermark] == [True, True, False, False]
    assert [one.shrinks_buffers for one in Watermark] == [False, False, True, True]
    assert [one.warns for one in Watermark] == [False, True, True, True]
