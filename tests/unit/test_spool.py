"""Spool files leave nothing behind, and the room they share is counted."""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bailiwick.errors import Code
from bailiwick.results.spool import Spool, SpoolFile, storage_error


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool", total_bytes_max=1000)
    spool.clear_leftovers()
    yield spool
    spool.close()


def test_what_is_written_is_read_again_at_its_place(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path)
    pieces = [bytes([index % 256]) * (index % 7) for index in range(3000)]
    file.write(10, pieces)
    file.write(0, [b"0123456789"])
    whole = b"0123456789" + b"".join(pieces)
    assert bytes(file.read(0, len(whole))) == whole
    file.close()


def test_a_spool_file_has_no_name_and_no_other_reader(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path)
    file.write(0, [b"secret rows"])
    assert list(tmp_path.iterdir()) == []
    assert file._descriptor is not None
    assert stat.S_IMODE(os.fstat(file._descriptor).st_mode) == 0o600
    file.close()


def test_reading_more_than_was_written_is_an_error_and_not_an_endless_loop(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path)
    file.write(0, [b"abc"])
    with pytest.raises(OSError, match="shorter"):
        file.read(0, 4)
    file.close()


def test_a_closed_file_is_never_written_to(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path)
    file.write(0, [b"abc"])
    file.close()
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.write(0, [b"abc"])


def test_a_file_closed_in_the_middle_of_a_write_is_closed_after_it(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path)
    descriptor = file._enter()
    closer = threading.Thread(target=file.close)
    closer.start()
    closer.join()
    os.fstat(descriptor)
    file._leave()
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_leftovers_of_a_crash_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "result-abc").write_bytes(b"x")
    (tmp_path / "result-def").write_bytes(b"x")
    (tmp_path / "somebody-elses").write_bytes(b"x")
    spool = Spool(tmp_path, total_bytes_max=0)
    assert spool.clear_leftovers() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["somebody-elses"]
    spool.close()


def test_the_directory_is_made_for_its_owner_only(spool: Spool, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700


def test_room_is_taken_whole_or_not_at_all(spool: Spool) -> None:
    assert spool.reserve(600)
    assert not spool.reserve(500)
    assert spool.held_bytes == 600
    spool.release(600)
    assert spool.reserve(1000)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failing_disk_is_not_worth_trying_again_and_tells_no_path(number: int) -> None:
    error = storage_error(OSError(number, os.strerror(number), "/var/lib/bailiwick/spool/result-1"))
    assert error.code is Code.STORAGE_ERROR
    assert error.retryable is False
    assert "/var" not in error.message
    assert ("full" in error.message) == (number != errno.EIO)
