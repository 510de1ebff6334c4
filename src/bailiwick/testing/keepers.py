"""Engines that join a gateway: `bailiwick engine` as a child process, as a person starts it."""

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bailiwick.testing.daemon import Daemon
from bailiwick.testing.gateway import SHORT_LIVED, clean_environment, command
from bailiwick.testing.processes import java_below

READY = r"^ready node=\S+ engine=(\S+)$"


def new_token_file(file: Path) -> Path:
    """A token by which keepers are known to the gateway; both are given the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(secrets.token_urlsafe(32) + "\n")
    return file


def admitting(token_file: Path) -> dict[str, str]:
    """The settings of a gateway that takes engines whose keepers show a token of this file."""
    return {"BAILIWICK__FLEET__TOKEN_FILE": str(token_file)}


@dataclass(slots=True)
class KeptEngine:
    """A keeper and its engine, by the name `node_id`. It can be started again, on its directory."""

    node_id: str
    directory: Path
    gateway_url: str
    token_file: Path
    master: str = "local[1]"
    arguments: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    keeper: Daemon | None = None

    def start(self) -> None:
        """Begin, and do not wait."""
        options = {
            "--gateway": self.gateway_url,
            "--master": self.master,
            "--name": self.node_id,
            "--data-dir": str(self.directory / "data"),
            "--token-file": str(self.token_file),
        }
        words = [word for option in options.items() for word in option]
        self.keeper = Daemon.start(
            self.directory,
            self.node_id,
            [command(), "engine", *words, *self.arguments],
            clean_environment({**SHORT_LIVED, **self.settings}),
        )

    def wait_joined(self) -> str:
        """Return its address when the gateway has taken it."""
        return self._keeper.wait_for(READY).group(1)

    def mend(self) -> None:
        """Start the keeper again if it died."""
        if not self._keeper.is_alive:
            self.end()
            self.start()

    def end(self) -> None:
        if self.keeper is not None:
            self.keeper.end()

    @property
    def is_alive(self) -> bool:
        return self._keeper.is_alive

    @property
    def pid(self) -> int:
        return self._keeper.pid

    @property
    def engine_pid(self) -> int:
        """The Java that runs Spark now. LookupError while there is none."""
        return java_below(self.pid)

    @property
    def _keeper(self) -> Daemon:
        if self.keeper is None:
            raise LookupError(f"{self.node_id} was not started")
        return self.keeper
