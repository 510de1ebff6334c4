"""Keys that live as files in the data directory: made once, at random, readable by their owner only."""

import os
import secrets
import stat
from pathlib import Path

from bailiwick.errors import CannotStartError

KEY_BYTES = 32


class UnusableKeyError(CannotStartError):
    """A key file cannot be trusted. Raised at start; the message says what to do."""


def load_or_create_key(path: Path) -> bytes:
    """The key at `path`, made now if there is none. Of several makers at once, all get the same key."""
    try:
        return _read(path)
    except FileNotFoundError:
        _create(path)
        return _read(path)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        key = os.read(descriptor, KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if mode & 0o077:
        raise UnusableKeyError(
            f"the key {path.name} can be read by others (mode {mode:o}): remove it, a new one is made"
        )
    if len(key) != KEY_BYTES:
        raise UnusableKeyError(f"the key {path.name} is damaged: remove it, a new one is made")
    return key


def _create(path: Path) -> None:
    """Written aside, then linked into place: nobody ever reads half a key, and the first one made stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(descriptor, secrets.token_bytes(KEY_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(aside, path)
        except FileExistsError:
            return
    finally:
        aside.unlink()
