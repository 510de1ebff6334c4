"""A real gateway as a child process, for tests and benchmarks.

It is started the way a person starts it, `bailiwick serve` on a data directory, and reached the way a client
reaches it. Nothing here looks into the gateway: what is known of it is what it prints and what it answers.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bailiwick.testing.processes import java_below

READY = re.compile(r"^ready grpc=(?P<grpc>\S+) http=(?P<http>\S+)$", re.MULTILINE)
READY_S = 240.0
STOP_S = 40.0
POLL_S = 0.05
SHORT_LIVED: Mapping[str, str] = {"BAILIWICK__ENGINE__QUICK_COMPILE": "true"}
"""For engines that end before thorough compiling would have paid."""
SMALL: Mapping[str, str] = {
    "BAILIWICK__ENGINE__MEMORY": "2g",
    "BAILIWICK__ENGINE__START_TIMEOUT_S": "240",
    **SHORT_LIVED,
}
"""Settings for a machine that tests share with others."""


class NotReadyError(Exception):
    """The gateway ended, or said nothing in time. The text ends with what it printed."""


@dataclass(slots=True)
class RunningGateway:
    process: subprocess.Popen[bytes]
    data_dir: Path
    output_path: Path
    grpc_address: str
    http_address: str
    kept: dict[tuple[str, str | None], Any] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def engine_pid(self) -> int:
        """The Java that runs Spark now, another one after a restart. LookupError while there is none."""
        return java_below(self.pid)

    @property
    def admin_password(self) -> str:
        return (self.data_dir / "admin-password").read_text().strip()

    @property
    def uri(self) -> str:
        return f"grpc://{self.grpc_address}"

    def log_text(self) -> str:
        """All that the gateway printed so far, logs included."""
        return self.output_path.read_text(errors="replace")

    def connect(
        self, user: str = "admin", password: str | None = None, *, options: Mapping[str, str] | None = None
    ) -> Any:
        """An ADBC connection; each statement stands for itself, as the gateway has no transactions."""
        from adbc_driver_flightsql import dbapi

        credentials = {"username": user, "password": self.admin_password if password is None else password}
        return dbapi.connect(self.uri, db_kwargs={**credentials, **(options or {})}, autocommit=True)

    def kept_connection(self, user: str = "admin", password: str | None = None) -> Any:
        """The same connection each time, closed when the gateway ends."""
        if (user, password) not in self.kept:
            self.kept[user, password] = self.connect(user, password)
        return self.kept[user, password]

    def connect_with_token(self, token: str) -> Any:
        from adbc_driver_flightsql import dbapi

        header = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
        return dbapi.connect(self.uri, db_kwargs=header, autocommit=True)

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = STOP_S) -> int:
        """Ask it to end, wait, and give its exit code. Raises TimeoutExpired if it does not end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout_s)


@contextmanager
def running_gateway(
    data_dir: Path,
    *,
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    ready_s: float = READY_S,
) -> Iterator[RunningGateway]:
    """Serve `data_dir` on free ports until the block ends. The directory may be empty or used before.

    `settings` are `BAILIWICK__SECTION__KEY` variables. Whatever happens, no process of it is left.
    """
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    output_path = data_dir.parent / f"{data_dir.name}.{time.time_ns()}.output"
    process = _start(data_dir, output_path, {**SMALL, **(settings or {})}, arguments)
    try:
        addresses = _wait_ready(process, output_path, ready_s)
        running = RunningGateway(process, data_dir, output_path, addresses["grpc"], addresses["http"])
        try:
            yield running
        finally:
            for connection in running.kept.values():
                connection.close()
    finally:
        _end(process)


def command() -> str:
    """The `bailiwick` command that belongs to this Python."""
    return str(Path(sys.executable).parent / "bailiwick")


def clean_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Our own environment with `settings` and none of the caller's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BAILIWICK")}
    return {**inherited, **settings}


def _start(
    data_dir: Path, output_path: Path, settings: Mapping[str, str], arguments: Sequence[str]
) -> subprocess.Popen[bytes]:
    ports = ("--grpc-port", "0", "--http-port", "0")
    with output_path.open("wb") as output:
        return subprocess.Popen(
            [command(), "serve", "--data-dir", str(data_dir), *ports, *arguments],
            env=clean_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_ready(process: subprocess.Popen[bytes], output_path: Path, ready_s: float) -> dict[str, str]:
    deadline = time.monotonic() + ready_s
    while time.monotonic() < deadline:
        printed = output_path.read_text(errors="replace")
        if match := READY.search(printed):
            return match.groupdict()
        if process.poll() is not None:
            raise NotReadyError(f"the gateway ended with {process.returncode}:\n{printed[-4000:]}")
        time.sleep(POLL_S)
    raise NotReadyError(
        f"not ready after {ready_s:.0f} s:\n{output_path.read_text(errors='replace')[-4000:]}"
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """First politely, so that its own tidying is part of what is tested; then the whole process group."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
