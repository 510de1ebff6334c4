"""Stamps: what the gateway seals is what it opens, and nothing else is."""

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.decision import AppliedFilter, AppliedMask
from bailiwick.policy.model import BoundColumn, Privilege
from bailiwick.policy.stamp import LENGTH_MAX, Stamp, StampKey

KEY = StampKey(b"k" * 32)
STAMP = Stamp(
    lease="L1",
    principal="anna",
    table="lake.sales.orders",
    uuid="7c1e5a3e-0000-4000-8000-000000000001",
    expires_at=1000.5,
    actions=frozenset({Privilege.SELECT, Privilege.INSERT}),
    filters=(AppliedFilter("eu_only", "region = 'EU'", (BoundColumn("region", 3),), ("lake.acl.regions",)),),
    masks=(
        AppliedMask(
            "hide_email",
            "sha2(email, 256)",
            4,
            frozenset({"email", "mail"}),
            tables=("lake.acl.people",),
            columns=(BoundColumn("email", 4),),
            is_value=True,
            action="hash",
        ),
    ),
    prefixes=("file:///warehouse/sales/orders/",),
    policy_version=7,
    for_policy=True,
)


def test_what_was_sealed_opens_as_it_was() -> None:
    assert KEY.open(KEY.seal(STAMP)) == STAMP


def test_equal_stamps_make_equal_texts_that_fit_into_a_header() -> None:
    sealed = KEY.seal(STAMP)
    assert KEY.seal(replace(STAMP)) == sealed
    assert sealed.isascii()
    assert not set(sealed) & set(' \r\n,;"')


def test_a_stamp_knows_what_its_rules_read() -> None:
    assert STAMP.tables == {"lake.acl.regions", "lake.acl.people"}


def test_another_engines_key_does_not_open_it() -> None:
    assert _code(StampKey.new(), KEY.seal(STAMP)) is Code.ACCESS_DENIED


@given(at=st.integers(0, len(KEY.seal(STAMP)) - 1), character=st.sampled_from("aZ09-_.=é"))
def test_a_changed_character_anywhere_is_noticed(at: int, character: str) -> None:
    sealed = KEY.seal(STAMP)
    changed = sealed[:at] + character + sealed[at + 1 :]
    if changed != sealed:
        assert _code(KEY, changed) is Code.ACCESS_DENIED


@pytest.mark.parametrize("sealed", ["", ".", "a", "a.b", "." * 10, "é.é", "a" * (LENGTH_MAX + 1)])
def test_what_is_no_stamp_is_refused(sealed: str) -> None:
    assert _code(KEY, sealed) is Code.ACCESS_DENIED


def test_a_stamp_with_a_field_that_nobody_knows_is_refused() -> None:
    body = json.loads(base64.urlsafe_b64decode(KEY.seal(STAMP).split(".")[0] + "=="))
    payload = base64.urlsafe_b64encode(json.dumps({**body, "more": 1}).encode()).decode().rstrip("=")
    assert _code(KEY, f"{payload}.{KEY._mac(payload)}") is Code.ACCESS_DENIED


def test_a_short_key_and_an_endless_stamp_are_mistakes() -> None:
    with pytest.raises(ValueError, match="at least 32"):
        StampKey(b"short")
    with pytest.raises(ValueError, match="ends"):
        KEY.seal(replace(STAMP, expires_at=float("inf")))


def _code(key: StampKey, sealed: str) -> Code:
    with pytest.raises(BailiwickError) as caught:
        key.open(sealed)
    return caught.value.code
