"""Metadata files on disk: written once, never changed, read back whole.

Blocking, for threads only. Nothing outside of an object's own directory is ever touched.
"""

import contextlib
import os
import shutil
import zlib
from pathlib import Path

from bailiwick.catalog.locations import Locations
from bailiwick.catalog.refusals import DamagedMetadataError

FILE_BYTES_MAX = 64 << 20
_MODE = 0o640


class MetadataFiles:
    def __init__(self, locations: Locations) -> None:
        self._locations = locations

    def write(self, directory: str, version: int, uuid: str, data: bytes) -> str:
        """Keep `data` for good, on disk when this returns. Gives its location."""
        location = f"{directory}/{version:05d}-{uuid}.metadata.json"
        path = self._locations.path_of(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        _sync_directory(path.parent)
        return location

    def read(self, location: str) -> bytes:
        """The file's content. Raises DamagedMetadataError if it is not there or cannot be read."""
        try:
            path = self._locations.path_of(location)
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
            if data.startswith(b"\x1f\x8b"):
                data = _unzipped(data)
        except (OSError, ValueError, zlib.error) as error:
            raise DamagedMetadataError("metadata cannot be read", cause_text=repr(error)) from error
        if len(data) > FILE_BYTES_MAX:
            raise DamagedMetadataError("metadata is too large to be read")
        return data

    def discard(self, location: str) -> None:
        """Forget a metadata file. One that is not there, or cannot be removed, is fine: nobody reads it."""
        with contextlib.suppress(OSError, ValueError):
            self._locations.path_of(location).unlink()

    def purge(self, root: str) -> None:
        """Delete an object's directory and all in it. One that is not there is fine."""
        if not self._locations.is_root(root):
            raise ValueError("only an object's own directory can be purged")
        shutil.rmtree(self._locations.path_of(root), ignore_errors=False, onerror=_ignore_missing)


def version_of(location: str) -> int:
    """The number in a metadata file's name, 0 if it has none."""
    digits = location.rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0


def _unzipped(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    return decompressor.decompress(data, FILE_BYTES_MAX + 1)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ignore_missing(_function: object, _path: object, info: tuple[type, BaseException, object]) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]
