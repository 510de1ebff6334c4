"""What a profile promises, and what keeps this gateway from keeping it: everything, named at once.

    dev-local            for trying out: only this machine is served
    single-node-durable  one gateway that keeps what it promised: on disk, and encrypted or for this machine
    distributed-durable  several, and engines elsewhere: a shared database and store, encrypted everywhere

A profile is no second set of defaults: a setting means the same under each. It is a list of what must hold,
and a part that cannot see to it refuses to start. This module looks and tells; it mends nothing, and does
not stop at the first. What is wrong under any profile (an unknown setting, a key without its certificate) is
refused elsewhere, too; so is an engine on other machines without Spark's own authentication and encryption
(`engines/surroundings.py`). Everything here blocks on the disk.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bailiwick.config import Config, Profile
from bailiwick.doors.certificates import UnusableCertificateError, read_certificates
from bailiwick.doors.listening import is_loopback
from bailiwick.engines.launch import is_local
from bailiwick.identity.keys import KEY_BYTES

FAILURE_DELAY_S_MIN: Final = 0.1
STATIC_TOKEN_S_MAX: Final = 366 * 86_400.0
DEMO_MARK: Final = "demo"
"""A file in the data directory of a demo, whose users are there for show."""

NOT_YET: Final = (
    "tables are kept as files of the data directory: there is no object store for them yet",
    "engines read those files with the rights of their own user: there are no vended credentials yet",
    "there are no streaming jobs yet, and so neither RocksDB state nor checkpoints in an object store",
)
"""What `distributed-durable` promises and nobody can keep yet. Each goes when its part comes."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_FORGETFUL: Final = frozenset({"tmpfs", "ramfs"})
_MOUNTS: Final = Path("/proc/self/mounts")

FileSystemOf = Callable[[Path], str | None]
"""Of which kind the file system is that holds a path; None where nobody knows."""


class ProfileError(Exception):
    """The profile promises what cannot be kept. `problems` names all that is in the way."""

    def __init__(self, profile: Profile, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.profile = profile
        self.problems = problems


def check(config: Config, data_dir: Path | None = None) -> None:
    """Raise ProfileError if the settings, or the data directory if given, cannot keep their profile."""
    if found := list(problems(config, data_dir)):
        raise ProfileError(config.profile, found)


def file_system_of(path: Path) -> str | None:
    """What Linux says: the kind of the mount that holds the path, or the nearest directory that is there."""
    there = next(each for each in (path.resolve(), *path.resolve().parents) if each.exists())
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(errors="replace").splitlines()]
    except OSError:
        return None
    holding = [
        (len(place), kind)
        for _, place, kind, *_ in mounts
        if there.is_relative_to(place.replace(r"\040", " "))
    ]
    # Of several on the same place, the last one mounted is the one that is seen.
    return max(holding, key=lambda found: found[0])[1] if holding else None


def problems(
    config: Config, data_dir: Path | None = None, *, file_system: FileSystemOf = file_system_of
) -> Iterator[str]:
    """What is in the way of the profile, of the settings and, if given, of the data directory."""
    if config.profile == "dev-local":
        yield from _of_being_here(config)
        return
    yield from _of_encryption(config)
    yield from _of_the_ports(config)
    yield from _of_the_engine(config)
    yield from _of_signing_in(config)
    yield from _of_telemetry(config)
    if config.profile == "distributed-durable":
        yield from _of_the_database(config)
        yield from NOT_YET
    if data_dir is not None:
        yield from _of_the_disk(data_dir, file_system)
        if data_dir.exists():
            yield from _of_the_directory(data_dir)
            yield from _of_the_keys(data_dir / "keys")


def mark_as_demo(data_dir: Path) -> None:
    """From now on this directory serves demos only."""
    (data_dir / DEMO_MARK).touch(mode=0o600)


def _of_being_here(config: Config) -> Iterator[str]:
    if outside := [address for address in config.server.bind if not is_loopback(address)]:
        yield (
            f"server.bind has {', '.join(outside)}, where others could come from: serve only this machine, "
            'or say profile = "single-node-durable"'
        )


def _of_encryption(config: Config) -> Iterator[str]:
    if config.tls.is_on:
        try:
            read_certificates(config.tls)
        except UnusableCertificateError as error:
            yield str(error)
    elif config.profile == "distributed-durable":
        yield "tls.certificate_file and tls.key_file are not set: nothing would be encrypted"
    elif outside := [address for address in config.server.bind if not is_loopback(address)]:
        yield (
            f"tls.certificate_file and tls.key_file are not set: {', '.join(outside)} would be served "
            "without encryption"
        )
    if config.server.plaintext == "allowed":
        yield 'server.plaintext is "allowed": take it out'
    if config.tracing.plaintext == "allowed":
        yield 'tracing.plaintext is "allowed": take it out'


def _of_the_ports(config: Config) -> Iterator[str]:
    for key, port in (("grpc_port", config.server.grpc_port), ("http_port", config.server.http_port)):
        if port == 0:
            yield f"server.{key} is 0, another port at each start: name one"


def _of_the_engine(config: Config) -> Iterator[str]:
    if not is_local(config.engine.master):
        yield (
            "engine.master is not local: the gateway's own engine would talk to it unencrypted; leave it "
            "out, and let `bailiwick engine` start engines elsewhere"
        )


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


def _of_telemetry(config: Config) -> Iterator[str]:
    if config.logging.level == "debug":
        yield 'logging.level is "debug": say "info"'
    if config.logging.breadcrumbs:
        yield "logging.breadcrumbs is on: it is for finding mistakes"


def _of_the_database(config: Config) -> Iterator[str]:
    if not config.database.is_shared:
        yield "database.url is not set: SQLite serves one gateway; name a PostgreSQL"
    elif not config.database.is_verified:
        yield "database.url does not verify the server it reaches: add sslmode=verify-full"


def _of_the_disk(data_dir: Path, file_system: FileSystemOf) -> Iterator[str]:
    kind = file_system(data_dir)
    if kind in _FORGETFUL:
        yield f"the data directory is in memory ({kind}): what was promised would be gone with the machine"


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
