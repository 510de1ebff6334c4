"""The way from the gateway to a keeper: mutual TLS, or plaintext where nobody else can listen.

Both sides show a certificate of the authority that both were given. Files are read again when they change:
what is made from then on uses the new ones, what stands goes on.
"""

import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import grpc

from bailiwick.engines.embedded import Channel
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.errors import BailiwickError, CannotStartError, Code
from bailiwick.fleet.acceptance import address_of
from bailiwick.telemetry.logs import logger

FILE_BYTES_MAX: Final = 1 << 20
MUTUAL_TLS: Final = "mutual-tls"
PLAIN: Final = "plain"

_OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP

_log = logger(__name__)


class EngineChannel(Channel, Protocol):
    """A connection to one life of an engine elsewhere."""

    async def ping(self, timeout_s: float) -> None:
        """Return if the engine answers something small. Raises EngineLost or BailiwickError if not."""


class Link(Protocol):
    """How engines are reached."""

    @property
    def kind(self) -> str:
        """`mutual-tls` or `plain`, for the keeper to compare with its own."""

    def open(self, address: str, token: str) -> EngineChannel:
        """A channel, not connected yet. ACCESS_DENIED for an address that this link must not be used for."""

    def look(self) -> None:
        """Take files anew if they changed. Blocks briefly; belongs in a thread."""


class PlainLink:
    """For engines of this machine. Tokens and rows cross the wire as they are, so it goes nowhere else."""

    kind = PLAIN

    def open(self, address: str, token: str) -> EngineChannel:
        if not address_of(address).is_loopback:
            raise BailiwickError(
                Code.ACCESS_DENIED,
                "Engines of other machines are reached by mutual TLS only: give the gateway its certificate, "
                "key and authority for engines, and the keeper its own.",
            )
        return SparkConnectChannel(address, token)

    def look(self) -> None:
        return


@dataclass(frozen=True, slots=True)
class LinkFiles:
    """PEM: what we show to keepers, its key, and whose certificates of keepers we believe."""

    certificate: Path
    key: Path
    authority: Path


class MutualTlsLink:
    """For engines anywhere. Making it reads the files, and raises CannotStartError if they cannot be read."""

    kind = MUTUAL_TLS

    def __init__(self, files: LinkFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._seen = self._identities()
        self._credentials = self._read()

    def open(self, address: str, token: str) -> EngineChannel:
        return SparkConnectChannel(address, token, self._credentials)

    def look(self) -> None:
        with self._lock:
            seen = self._identities()
            if seen == self._seen:
                return
            self._seen = seen
            try:
                self._credentials = self._read()
            except CannotStartError as error:
                _log.warning("link_files_unusable", reason=str(error), using="those from before")

    def _read(self) -> Any:
        return grpc.ssl_channel_credentials(
            root_certificates=_pem(self._files.authority),
            private_key=_pem(self._files.key, is_private=True),
            certificate_chain=_pem(self._files.certificate),
        )

    def _identities(self) -> tuple[object, ...]:
        return tuple(
            _identity(file) for file in (self._files.certificate, self._files.key, self._files.authority)
        )


def _pem(file: Path, *, is_private: bool = False) -> bytes:
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CannotStartError(f"{file}: {error.strerror}") from error
    if is_private and mode & _OTHERS:
        raise CannotStartError(f"{file} can be read by others: chmod 0600")
    if len(content) > FILE_BYTES_MAX or b"-----BEGIN" not in content:
        raise CannotStartError(f"{file} is not a PEM file")
    return content


def _identity(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
