"""Secrets do not show themselves, and their files are for one reader."""

import pickle
import threading
from pathlib import Path

import pytest

from bailiwick.secrets import (
    InsecureFileError,
    Secret,
    new_secret,
    read_or_create_secret,
    read_secret,
    write_secret,
)


def test_a_secret_does_not_show_itself() -> None:
    secret = Secret("geheim")
    assert "geheim" not in f"{secret} {secret!r} {[secret]} {{'a': {secret}}}"
    assert secret.reveal() == "geheim"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_secrets_are_equal_when_their_values_are() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


def test_new_secrets_differ() -> None:
    assert new_secret() != new_secret()
    assert len(new_secret().reveal()) >= 40


def test_a_written_secret_is_for_its_owner_alone_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    write_secret(path, Secret("new"))
    assert read_secret(path) == Secret("new")
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "seal"
    first = read_or_create_secret(path)
    assert read_or_create_secret(path) == first
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_all_who_create_a_secret_at_once_get_the_same(tmp_path: Path) -> None:
    found: list[Secret] = []
    barrier = threading.Barrier(8)

    def create() -> None:
        barrier.wait()
        found.append(read_or_create_secret(tmp_path / "key"))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o606])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_text("x")
    path.chmod(mode)
    with pytest.raises(InsecureFileError):
        read_secret(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 70_000])
def test_a_file_that_holds_no_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InsecureFileError):
        read_secret(path)
