"""A seal opens only for what it was made for, only whole, and only in time."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.keys import UnusableKeyError, load_or_create_key
from bailiwick.identity.seals import Seal

KEY = bytes(range(32))


@given(st.binary(max_size=300), st.floats(0, 1e12), st.text(min_size=1, max_size=60))
def test_a_seal_gives_back_what_was_put_in(payload: bytes, expires_at: float, purpose: str) -> None:
    sealed = Seal(KEY).seal(purpose, payload, expires_at=expires_at)
    assert Seal(KEY).open(purpose, sealed, now=expires_at - 1e-3 * max(1.0, expires_at)) == payload


@given(st.binary(max_size=100), st.data())
def test_a_seal_with_any_bit_changed_does_not_open(payload: bytes, data: st.DataObject) -> None:
    sealed = bytearray(Seal(KEY).seal("ticket", payload, expires_at=100.0))
    position = data.draw(st.integers(0, len(sealed) - 1))
    sealed[position] ^= 1 << data.draw(st.integers(0, 7))
    _refused("ticket", bytes(sealed), reason="forged")


@given(st.binary(max_size=200))
def test_garbage_does_not_open(garbage: bytes) -> None:
    _refused("ticket", garbage, reason="forged")


def test_every_truncation_is_refused() -> None:
    sealed = Seal(KEY).seal("ticket", b"payload", expires_at=100.0)
    for length in range(len(sealed)):
        _refused("ticket", sealed[:length], reason="forged")


def test_a_seal_for_one_purpose_does_not_open_for_another() -> None:
    _refused("statement", Seal(KEY).seal("ticket", b"", expires_at=100.0), reason="forged")


def test_a_purpose_cannot_borrow_from_the_payload() -> None:
    sealed = Seal(KEY).seal("tick", b"et", expires_at=100.0)
    _refused("ticket", sealed, reason="forged")


def test_another_key_does_not_open_it() -> None:
    _refused("ticket", Seal(bytes(32)).seal("ticket", b"", expires_at=100.0), reason="forged")


def test_a_seal_ends_at_its_moment_and_says_so() -> None:
    sealed = Seal(KEY).seal("ticket", b"x", expires_at=100.0)
    assert Seal(KEY).open("ticket", sealed, now=99.9) == b"x"
    _refused("ticket", sealed, now=100.0, reason="expired")


def test_a_seal_without_an_end_is_not_made() -> None:
    for never in (float("inf"), float("nan")):
        with pytest.raises(ValueError, match="ends"):
            Seal(KEY).seal("ticket", b"", expires_at=never)


def test_a_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "seal"
    key = load_or_create_key(path)
    assert len(key) == 32
    assert load_or_create_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_makers_at_the_same_time_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: load_or_create_key(tmp_path / "keys" / "seal"), range(32)))
    assert len(keys) == 1


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seal"
    load_or_create_key(path)
    path.chmod(0o644)
    with pytest.raises(UnusableKeyError, match="read by others"):
        load_or_create_key(path)


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seal"
    path.touch(mode=0o600)
    with pytest.raises(UnusableKeyError, match="damaged"):
        load_or_create_key(path)


def _refused(purpose: str, sealed: bytes, *, now: float = 0.0, reason: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        Seal(KEY).open(purpose, sealed, now)
    assert refused.value.code is Code.INVALID_ARGUMENTS
    assert refused.value.details == {"reason": reason}
