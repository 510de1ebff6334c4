"""What a keeper is told when it is started, checked before anything is begun."""

import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from bailiwick.doors.listening import is_loopback, shown
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.surroundings import LOOPBACK, Surroundings, check_more
from bailiwick.errors import CannotStartError
from bailiwick.fleet.acceptance import unroutable
from bailiwick.fleet.report import EMBEDDED, GENERAL, TRUSTED
from bailiwick.ids import NodeId
from bailiwick.secrets import InsecureFileError, read_secret

NAME_LENGTH_MAX: Final = 63
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{NAME_LENGTH_MAX - 1}}}")
_ANY_PORT: Final = 1


@dataclass(frozen=True, slots=True)
class GatewayUrl:
    """Where the gateway's HTTP port is."""

    host: str
    port: int
    is_encrypted: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """`https://HOST[:PORT]`, or `http://` on loopback. Raises CannotStartError."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise _no_url() from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise _no_url()
        if parts.query or parts.fragment or parts.username is not None:
            raise _no_url()
        is_encrypted = parts.scheme == "https"
        if not is_encrypted and not is_loopback(parts.hostname):
            raise CannotStartError(
                f"--gateway: {parts.hostname} is not this machine, and what a keeper sends opens its engine: "
                "use https://"
            )
        return cls(parts.hostname, port or (443 if is_encrypted else 80), is_encrypted)

    def __str__(self) -> str:
        return f"{'https' if self.is_encrypted else 'http'}://{shown(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class KeeperFiles:
    """PEM: what the keeper shows to the gateway, its key, and whose certificates it believes."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class KeeperConfig:
    gateway: GatewayUrl
    engine: EngineConfig
    data_directory: Path
    token_file: Path
    name: NodeId
    engine_class: str = GENERAL
    bind: str = LOOPBACK
    """Where the gateway reaches the forwarder. It is announced as it stands."""
    port: int = 0
    files: KeeperFiles | None = None
    cores: int | None = None
    """Queries that the engine runs at once; by default as many as it has cores of its own."""
    more: dict[str, str] = field(default_factory=dict, repr=False)
    drain_s: float = 25.0

    def check(self) -> None:
        """Raises CannotStartError, with a sentence about what to do, for what cannot be right."""
        for option, name in (("--name", self.name), ("--class", self.engine_class)):
            if _NAME.fullmatch(name) is None or (option == "--name" and name == EMBEDDED):
                raise CannotStartError(
                    f"{option}: 1 to {NAME_LENGTH_MAX} letters, digits, - and _, and not {EMBEDDED}"
                )
        flaw = unroutable(shown(self.bind, self.port or _ANY_PORT), is_loopback(self.bind))
        if flaw is not None:
            raise CannotStartError(f"--bind {self.bind}: {flaw}")
        if self.files is None and not is_loopback(self.bind):
            raise CannotStartError(
                f"--bind {self.bind}: without certificates an engine is served on loopback only: give "
                "--certificate, --key and --authority"
            )
        check_more(self.engine.master, self.surroundings(None))

    @property
    def runs_code(self) -> bool:
        """Whether users' Python may run in the engine."""
        return self.engine_class == TRUSTED

    def surroundings(self, trust_store: Path | None) -> Surroundings:
        # Executors reach the driver where the gateway reaches the keeper.
        driver_host = LOOPBACK if is_loopback(self.bind) else self.bind
        return Surroundings(driver_host, trust_store, self.more)


def default_name() -> NodeId:
    """After the machine."""
    letters = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0]).lstrip("-_")
    return NodeId(letters[:NAME_LENGTH_MAX] or "engine")


def read_properties(file: Path) -> dict[str, str]:
    """Spark properties, `key value` or `key=value` a line. Raises CannotStartError; it may hold secrets."""
    try:
        text = read_secret(file).reveal()
    except OSError as error:
        raise CannotStartError(f"{file}: {error.strerror}") from error
    except (InsecureFileError, UnicodeDecodeError) as error:
        raise CannotStartError(f"{file}: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"(spark\.[A-Za-z0-9._-]+)(?:\s*=\s*|\s+)(\S.*)", line)
        if match is None or match.group(1) in found:
            raise CannotStartError(f"{file}: line {number} must be one `spark.key value`, each key once")
        found[match.group(1)] = match.group(2)
    return found


def _no_url() -> CannotStartError:
    return CannotStartError("--gateway: must be https://HOST:PORT, or http://127.0.0.1:PORT on this machine")
