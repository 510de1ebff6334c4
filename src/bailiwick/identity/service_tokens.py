"""What parts of the house show each other: bearer tokens from a file, one a line.

The first token is the one to send, all of them are accepted. So a token is rotated by putting the new one
first, copying the file to the other side, and taking the old one out: nobody is turned away meanwhile. The
file is looked at before each use and read again when it changed; one that does not hold changes nothing.

These tokens say that a part of the house speaks, never which person: no query runs under one.
"""

import hmac
import os
import re
import stat
import threading
from pathlib import Path
from typing import Final

from bailiwick.errors import CannotStartError
from bailiwick.secrets import Secret
from bailiwick.telemetry.logs import logger

FILE_BYTES_MAX: Final = 64 * 1024
TOKENS_MAX: Final = 32
LENGTH_MIN: Final = 24
LENGTH_MAX: Final = 512

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_FORM: Final = re.compile(rf"[A-Za-z0-9._~+/=-]{{{LENGTH_MIN},{LENGTH_MAX}}}")
_BEARER: Final = "bearer "

_log = logger(__name__)


class UnusableTokensError(CannotStartError):
    """The file of tokens is no use. The message names the file and the way out, never what is in it."""


class ServiceTokens:
    """The tokens in `file`, as they are now. Callable from any thread; blocks on the disk, and only briefly.

    Raises UnusableTokensError when it is made, if the file does not hold. Later content that does not hold is
    told in the log, and the tokens of before go on.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seen = _identity(file)
        self._tokens = read_tokens(file)

    def to_send(self) -> Secret:
        """The token to show to others."""
        return self._current()[0]

    def accepts(self, authorization: str) -> bool:
        """Whether this value of an `Authorization` header shows one of the tokens, in constant time."""
        if authorization[: len(_BEARER)].lower() != _BEARER:
            return False
        given = authorization[len(_BEARER) :].encode("utf-8", "surrogateescape")
        # Every token is compared, whichever fits: how long it takes tells nothing.
        fitting = [hmac.compare_digest(given, token.reveal().encode()) for token in self._current()]
        return any(fitting)

    def _current(self) -> tuple[Secret, ...]:
        with self._lock:
            seen = _identity(self._file)
            if seen != self._seen:
                self._seen = seen
                self._read_again()
            return self._tokens

    def _read_again(self) -> None:
        try:
            self._tokens = read_tokens(self._file)
        except UnusableTokensError as error:
            _log.warning("service_tokens_unusable", reason=str(error), using="those from before")
        else:
            _log.info("service_tokens_renewed", token_count=len(self._tokens))


def read_tokens(file: Path) -> tuple[Secret, ...]:
    """The tokens in `file`. Empty lines and lines that begin with `#` are left out."""
    try:
        # A pipe in place of a file must not keep us waiting for its other end.
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as stream:
            status = os.fstat(stream.fileno())
            _check_owner(file, status)
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnusableTokensError(f"{file}: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise UnusableTokensError(f"{file} is larger than {FILE_BYTES_MAX} bytes")
    lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    _check_form(file, found)
    return tuple(Secret(token) for token in found)


def _check_owner(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnusableTokensError(f"{file} is not a regular file")
    if status.st_mode & _OTHERS or status.st_uid != os.geteuid():
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise UnusableTokensError(
            f"{file} has mode {mode}; it must be a file of this user that others cannot read: chmod 0600"
        )


def _check_form(file: Path, found: list[str]) -> None:
    if not found:
        raise UnusableTokensError(f"{file} holds no token; make one with: openssl rand -hex 32")
    if len(found) > TOKENS_MAX:
        raise UnusableTokensError(
            f"{file} holds {len(found)} tokens; at most {TOKENS_MAX} are accepted at once"
        )
    for number, token in enumerate(found, start=1):
        if _FORM.fullmatch(token) is None:
            raise UnusableTokensError(
                f"{file}: token {number} must have {LENGTH_MIN} to {LENGTH_MAX} letters, digits or ._~+/=-"
            )


def _identity(file: Path) -> tuple[int, ...]:
    """What tells one content from another without reading it; a missing file is ()."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
