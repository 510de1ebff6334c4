"""What keeps a gateway from being one for production: everything that is meant for trying out, named at once.

`profile = "production"` makes these problems fatal. This module looks and tells; it mends nothing, and does
not stop at the first. What is wrong under any profile (an unknown setting, a key without its certificate) is
refused elsewhere, too. Everything here blocks on the disk.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bailiwick.config import Config
from bailiwick.doors.certificates import UnusableCertificateError, read_certificates
from bailiwick.identity.keys import KEY_BYTES

FAILURE_DELAY_S_MIN: Final = 0.1
STATIC_TOKEN_S_MAX: Final = 366 * 86_400.0
DEMO_MARK: Final = "demo"
"""A file in the data directory of a demo, whose users are there for show."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class NotForProductionError(Exception):
    """The profile is `production`, and this is not. `problems` names all that is in the way."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def check(config: Config, data_dir: Path | None = None) -> None:
    """Raise NotForProductionError if the profile asks for production and something is in the way."""
    if config.profile == "production" and (found := list(problems(config, data_dir))):
        raise NotForProductionError(found)


def problems(config: Config, data_dir: Path | None = None) -> Iterator[str]:
    """What is meant for trying out, of the settings and, if given, of the data directory."""
    yield from _of_the_ports(config)
    yield from _of_signing_in(config)
    yield from _of_the_logs(config)
    if data_dir is not None and data_dir.exists():
        yield from _of_the_directory(data_dir)
        yield from _of_the_keys(data_dir / "keys")


def mark_as_demo(data_dir: Path) -> None:
    """From now on this directory serves demos only."""
    (data_dir / DEMO_MARK).touch(mode=0o600)


def _of_the_ports(config: Config) -> Iterator[str]:
    if not config.tls.is_on:
        yield "tls.certificate_file and tls.key_file are not set: nothing would be encrypted"
    else:
        try:
            read_certificates(config.tls)
        except UnusableCertificateError as error:
            yield str(error)
    if config.server.plaintext == "allowed":
        yield 'server.plaintext is "allowed": take it out'
    for key, port in (("grpc_port", config.server.grpc_port), ("http_port", config.server.http_port)):
        if port == 0:
            yield f"server.{key} is 0, another port at each start: name one"


def _of_signing_in(config: Config) -> Iterator[str]:
    identity = config.identity
    if identity.failure_delay_s < FAILURE_DELAY_S_MIN:
        yield (
            f"identity.failure_delay_s is {identity.failure_delay_s:g}: guessing passwords would be quick; "
            f"say at least {FAILURE_DELAY_S_MIN:g}"
        )
    if identity.static_token_ttl_max_s > STATIC_TOKEN_S_MAX:
        yield (
            f"identity.static_token_ttl_max_s is {identity.static_token_ttl_max_s:g}: tokens would outlive "
            f"a year; say at most {STATIC_TOKEN_S_MAX:g}"
        )


def _of_the_logs(config: Config) -> Iterator[str]:
    if config.logging.level == "debug":
        yield 'logging.level is "debug": say "info"'
    if config.logging.breadcrumbs:
        yield "logging.breadcrumbs is on: it is for finding mistakes"


def _of_the_directory(data_dir: Path) -> Iterator[str]:
    found = data_dir.stat()
    mode = stat.S_IMODE(found.st_mode)
    if mode & _OTHERS:
        yield f"the data directory can be entered by others (mode {mode:o}): chmod 700"
    if found.st_uid != os.geteuid():
        yield "the data directory belongs to another user than the one who runs the gateway: chown it"
    if (data_dir / DEMO_MARK).exists():
        yield "the data directory is a demo's, with users that are there for show: use another"


def _of_the_keys(directory: Path) -> Iterator[str]:
    """A key that is not there is fine: it is drawn at random at the first start."""
    if not directory.is_dir():
        return
    for path in sorted(each for each in directory.iterdir() if not each.name.startswith(".")):
        found = path.lstat()
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode):
            yield f"keys/{path.name} is no plain file: remove it"
        elif mode & _OTHERS:
            yield f"keys/{path.name} can be read by others (mode {mode:o}): remove it, a new one is made"
        elif found.st_size < KEY_BYTES:
            yield f"keys/{path.name} has only {found.st_size} bytes: remove it, a new one is made"
