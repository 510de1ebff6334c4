"""Values that open doors, and the files that keep them.

A `Secret` never shows itself by accident: not in a log line, not in a traceback, not in an f-string. Whoever
needs the value says `reveal()`. Files are made with mode 0600 from the start, and appear whole or not at all.
Everything here blocks on the disk; it is meant for starting up.
"""

import contextlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

SECRET_BYTES_MAX: Final = 64 * 1024
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Secret:
    """A text that nobody sees by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __str__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        """In constant time, so that a wrong guess does not tell how wrong it was."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


class InsecureFileError(Exception):
    """A file with a secret that others could read or have written."""


def new_secret(length_bytes: int = 32) -> Secret:
    """From the system's randomness, in letters that need no quoting anywhere."""
    return Secret(secrets.token_urlsafe(length_bytes))


def read_secret(path: Path) -> Secret:
    """What `path` holds, without the newline at its end. Raises InsecureFileError if others may read it."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_mode & _OTHERS or status.st_uid != os.geteuid():
            raise InsecureFileError(f"{path.name} must be a regular file of this user with mode 0600")
        content = file.read(SECRET_BYTES_MAX + 1)
    if not content.strip() or len(content) > SECRET_BYTES_MAX:
        raise InsecureFileError(f"{path.name} is empty or too large for a secret")
    return Secret(content.decode("utf-8").rstrip("\r\n"))


def write_secret(path: Path, secret: Secret) -> None:
    """Keep `secret` under `path`, in place of what was there. A reader sees the old or the new one, whole."""
    with _written_beside(path, secret) as temporary:
        temporary.replace(path)


def read_or_create_secret(path: Path, length_bytes: int = 32) -> Secret:
    """The secret in `path`; a new one if there is none. Of two who create it at once, both get the same."""
    with contextlib.suppress(FileNotFoundError):
        return read_secret(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A link, unlike a rename, does not overwrite what someone else has just put there.
    with _written_beside(path, new_secret(length_bytes)) as temporary, contextlib.suppress(FileExistsError):
        os.link(temporary, path)
    return read_secret(path)


@contextlib.contextmanager
def _written_beside(path: Path, secret: Secret) -> Iterator[Path]:
    """A finished file next to `path`, gone afterwards unless it was moved."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret.reveal() + "\n")
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
