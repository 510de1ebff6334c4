"""What a keeper tells is read whole and strictly, and its secrets are never shown."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fleet_reports import report
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.memory import MemoryUse
from bailiwick.fleet.report import BODY_BYTES_MAX, EngineState, Report
from bailiwick.secrets import Secret


def told(**changes: Any) -> bytes:
    body = json.loads(report().encode())
    return json.dumps({**body, **changes}).encode()


def without(key: str) -> bytes:
    body = json.loads(report().encode())
    del body[key]
    return json.dumps(body).encode()


def refusal(body: bytes) -> BailiwickError:
    with pytest.raises(BailiwickError) as caught:
        Report.parse(body)
    assert caught.value.code is Code.INVALID_ARGUMENTS
    return caught.value


@pytest.mark.parametrize("state", EngineState)
def test_what_was_written_is_read_again(state: EngineState) -> None:
    written = report(state=state, engine_class="etl", memory=MemoryUse(0.5, 0.25, None))
    assert Report.parse(written.encode()) == written


def test_no_secret_is_shown() -> None:
    for secret in ("engine_token", "catalog_credential", "stamp_key"):
        changes: dict[str, Any] = {secret: Secret("quite-confidential-stuff")}
        one = report(**changes)
        assert "confidential" not in f"{one!r} {one}"
        assert b"confidential" in one.encode()


@pytest.mark.parametrize("key", json.loads(report().encode()))
def test_every_key_must_be_there(key: str) -> None:
    assert key in refusal(without(key)).message


def test_a_key_that_nobody_knows_is_refused_without_being_repeated() -> None:
    assert "swordfish" not in refusal(told(swordfish=1)).message
    assert "unknown" in refusal(told(swordfish=1)).message
    assert "unknown" in refusal(told(memory={"a": 1, **json.loads(report().encode())["memory"]})).message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("node_id", ""),
        ("node_id", "embedded"),
        ("node_id", "a b"),
        ("node_id", "a" * 64),
        ("node_id", "-a"),
        ("node_id", "a\n"),
        ("node_id", 7),
        ("life", "short"),
        ("life", "x" * 65),
        ("address", ""),
        ("address", "a b:1"),
        ("address", "a" * 301),
        ("version", "1" * 65),
        ("spark_version", None),
        ("engine_class", "a/b"),
        ("master", ""),
        ("cores", 0),
        ("cores", True),
        ("cores", 1.5),
        ("cores", 10**9),
        ("heap_bytes", -1),
        ("heap_bytes", 1 << 60),
        ("state", "gone"),
        ("state", ["ready"]),
        ("memory", 0.5),
        ("memory", {"unified_ratio": -0.1, "heap_after_full_gc_ratio": 0, "rss_ratio": 0}),
        ("memory", {"unified_ratio": True, "heap_after_full_gc_ratio": 0, "rss_ratio": 0}),
        ("memory", {"unified_ratio": 1e300, "heap_after_full_gc_ratio": 0, "rss_ratio": 0}),
        ("active_operations", -1),
        ("engine_token", "short"),
        ("engine_token", "x" * 5000),
        ("catalog_credential", "bell\u0007 and some more text"),
        ("stamp_key", "ü" * 20),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_its_name(key: str, value: Any) -> None:
    refused = refusal(told(**{key: value}))
    assert key in refused.message
    assert str(value) not in refused.message or not value or value == "embedded"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        b"[" * 10_000,
        b'{"cores":NaN}',
        b'{"cores":' + b"9" * 6000 + b"}",
        b"{" + b" " * BODY_BYTES_MAX + b"}",
    ],
)
def test_what_is_no_report_at_all_is_refused(body: bytes) -> None:
    refusal(body)


def test_a_key_that_is_there_twice_is_refused() -> None:
    body = report().encode()
    refusal(body[:-1] + b',"cores":2}')


def test_what_is_not_json_is_not_repeated() -> None:
    refused = refusal(b'{"engine_token": "swordfish-swordfish" oops')
    chain = f"{refused} {refused.__cause__} {refused.__context__ if not refused.__suppress_context__ else ''}"
    assert "swordfish" not in chain


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    refusal(body)


def test_another_life_or_way_or_key_is_another_engine() -> None:
    one = report()
    assert one.is_same_engine_as(replace(one, active_operations=3, state=EngineState.DRAINING))
    assert not one.is_same_engine_as(report(life=2))
    assert not one.is_same_engine_as(replace(one, address="10.0.0.1:1"))
    assert not one.is_same_engine_as(replace(one, engine_token=Secret("another-token-of-another")))
