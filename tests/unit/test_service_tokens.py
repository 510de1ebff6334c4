"""The tokens that parts of the house show each other, and the file they are in."""

import os
from pathlib import Path

import pytest

from bailiwick.identity.service_tokens import TOKENS_MAX, ServiceTokens, UnusableTokensError

OLD = "the-old-token-of-the-house-0001"
NEW = "the-new-token-of-the-house-0002"


def kept(directory: Path, *lines: str, mode: int = 0o600) -> Path:
    """As whoever rotates tokens does it: in one step."""
    beside = directory / ".tokens.new"
    beside.write_text("".join(f"{line}\n" for line in lines))
    beside.chmod(mode)
    return beside.replace(directory / "tokens")


def test_the_first_token_is_sent_and_all_are_accepted(tmp_path: Path) -> None:
    tokens = ServiceTokens(kept(tmp_path, "# since spring", NEW, "", OLD))
    assert tokens.to_send().reveal() == NEW
    assert tokens.accepts(f"Bearer {NEW}")
    assert tokens.accepts(f"bearer {OLD}")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        NEW,
        f"Basic {NEW}",
        f"Bearer {NEW} ",
        f"Bearer {NEW[:-1]}",
        "Bearer \udcff",
        f"Bearer {NEW}{OLD}",
    ],
)
def test_nothing_else_is_accepted(tmp_path: Path, header: str) -> None:
    assert not ServiceTokens(kept(tmp_path, NEW, OLD)).accepts(header)


def test_a_rotated_file_counts_from_the_next_use_on(tmp_path: Path) -> None:
    tokens = ServiceTokens(kept(tmp_path, OLD))
    kept(tmp_path, NEW, OLD)
    assert tokens.to_send().reveal() == NEW
    assert tokens.accepts(f"Bearer {OLD}")
    kept(tmp_path, NEW)
    assert not tokens.accepts(f"Bearer {OLD}")


def test_a_later_file_that_does_not_hold_changes_nothing(tmp_path: Path) -> None:
    tokens = ServiceTokens(kept(tmp_path, OLD))
    kept(tmp_path, "short")
    assert tokens.accepts(f"Bearer {OLD}")
    (tmp_path / "tokens").unlink()
    assert tokens.to_send().reveal() == OLD
    kept(tmp_path, NEW)
    assert tokens.to_send().reveal() == NEW


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UnusableTokensError, match="chmod 0600"):
        ServiceTokens(kept(tmp_path, NEW, mode=mode))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "holds no token"),
        (("# only words",), "holds no token"),
        (("x" * 23,), "token 1 must have"),
        ((NEW, "with a space in it, and long"), "token 2 must have"),
        (tuple(f"{NEW}{number}" for number in range(TOKENS_MAX + 1)), "at most"),
        (("x" * 70_000,), "larger than"),
    ],
)
def test_an_unusable_file_is_refused_and_its_content_is_not_repeated(
    tmp_path: Path, lines: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UnusableTokensError, match=said) as refused:
        ServiceTokens(kept(tmp_path, *lines))
    assert NEW not in str(refused.value)


def test_a_missing_file_and_a_pipe_are_refused_without_waiting(tmp_path: Path) -> None:
    with pytest.raises(UnusableTokensError, match="No such file"):
        ServiceTokens(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UnusableTokensError, match="not a regular file"):
        ServiceTokens(tmp_path / "pipe")
