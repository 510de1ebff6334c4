"""W3C Trace Context: taken as the standard says, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.telemetry.trace_context import TraceContext, new_trace, read, read_state

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_a_parent_is_read() -> None:
    assert read([PARENT], ["congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"]) == TraceContext(
        TRACE, SPAN, True, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"
    )


@pytest.mark.parametrize(
    ("flags", "is_sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)]
)
def test_only_one_of_the_flags_is_known(flags: str, is_sampled: bool) -> None:
    context = read([f"00-{TRACE}-{SPAN}-{flags}"])
    assert context is not None
    assert context.is_sampled is is_sampled


@pytest.mark.parametrize("more", ["", "-", "-what-the-future-will-be-like"])
def test_a_version_of_the_future_is_read_as_far_as_it_is_known(more: str) -> None:
    assert read([f"cc-{TRACE}-{SPAN}-01{more}"]) == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "parents",
    [
        [],
        [""],
        [PARENT, PARENT],
        [f" {PARENT}"],
        [f"{PARENT}\n"],
        [PARENT.upper()],
        [f"00-{TRACE}-{SPAN}"],
        [f"00-{TRACE}-{SPAN}-1"],
        [f"00-{TRACE}-{SPAN}-01-more"],
        [f"00-{TRACE}-{SPAN}-01."],
        [f"cc-{TRACE}-{SPAN}-01.more"],
        [f"ff-{TRACE}-{SPAN}-01"],
        [f"0-{TRACE}-{SPAN}-01"],
        [f"00-{'0' * 32}-{SPAN}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE[:-1]}g-{SPAN}-01"],
        [f"00-{TRACE[:-1]}٣-{SPAN}-01"],
        [f"cc-{TRACE}-{SPAN}-01-{'x' * 10_000}"],
    ],
)
def test_a_malformed_parent_is_as_good_as_none(parents: list[str]) -> None:
    assert read(parents, ["a=1"]) is None


@pytest.mark.parametrize(
    ("states", "read_as"),
    [
        ([], ""),
        (["a=1", "b=2"], "a=1,b=2"),
        (["a=1 , ,\tb=2,"], "a=1,b=2"),
        (["t0@vendor=x", "*/-_"], ""),
        (["fw529a3039@dt=FfA"], "fw529a3039@dt=FfA"),
        (["a=1,a=2"], ""),
        (["A=1"], ""),
        (["a"], ""),
        (["a="], ""),
        (["a=b=c"], ""),
        (["a=ü"], ""),
        (["a=\x01"], ""),
        ([",".join(f"k{n}=1" for n in range(32))], ",".join(f"k{n}=1" for n in range(32))),
        ([",".join(f"k{n}=1" for n in range(33))], ""),
        ([f"a={'x' * 256}"], f"a={'x' * 256}"),
        ([f"a={'x' * 257}"], ""),
        ([f"a={'x' * 256}", f"b={'x' * 256}"], ""),
    ],
)
def test_a_malformed_state_loses_only_itself(states: list[str], read_as: str) -> None:
    assert read_state(states) == read_as
    assert read([PARENT], states) == TraceContext(TRACE, SPAN, True, read_as)


@given(st.lists(st.text(max_size=80), max_size=3), st.lists(st.text(max_size=80), max_size=3))
def test_whatever_comes_is_read_or_left(parents: list[str], states: list[str]) -> None:
    context = read(parents, states)
    assert context is None or read(*([value] for _, value in context.headers()[:1])) is not None


def test_what_is_passed_on_is_read_as_it_was_meant() -> None:
    child = TraceContext(TRACE, SPAN, True, "a=1").child()
    (_, parent), (_, state) = child.headers()
    assert child.trace_id == TRACE
    assert child.span_id != SPAN
    assert read([parent], [state]) == child


@pytest.mark.parametrize("is_sampled", [True, False])
def test_the_callers_choice_is_passed_on(is_sampled: bool) -> None:
    child = TraceContext(TRACE, SPAN, is_sampled).child()
    assert [name for name, _ in child.headers()] == ["traceparent"]
    assert child.headers()[0][1].endswith("01" if is_sampled else "00")


@pytest.mark.parametrize(("ratio", "at_least", "at_most"), [(0.0, 0, 0), (1.0, 400, 400), (0.5, 120, 280)])
def test_a_part_of_our_own_traces_is_recorded(ratio: float, at_least: int, at_most: int) -> None:
    assert at_least <= sum(new_trace(ratio).is_sampled for _ in range(400)) <= at_most


def test_an_id_of_zeros_is_never_minted() -> None:
    drawn = iter(["0" * 32, TRACE, "0" * 16, SPAN])
    assert new_trace(1.0, lambda _size: next(drawn)) == TraceContext(TRACE, SPAN, True)
