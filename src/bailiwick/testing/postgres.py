"""A private PostgreSQL for tests: started from what the machine has, on a free port, gone afterwards.

It survives being killed (`kill`, then `start`), with everything it had committed; not a crash of the machine,
for it does not sync. PostgreSQL refuses to run as root: then it runs as the user `postgres`.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from pydantic import SecretStr

from bailiwick.database.config import DatabaseConfig
from bailiwick.testing.certificates import Authority

USER = "bailiwick"
START_TIMEOUT_S = 30.0
_POLL_S = 0.02
_DEBIAN = Path("/usr/lib/postgresql")
_SERVICE_USER = "postgres"


def binaries() -> Path | None:
    """The folder with `initdb` and `postgres`: on the PATH, else the newest of Debian's."""
    found = shutil.which("initdb")
    candidates = [] if found is None else [Path(found).resolve().parent]
    if _DEBIAN.is_dir():
        numbered = (path for path in _DEBIAN.iterdir() if path.name.isdigit())
        candidates += [path / "bin" for path in sorted(numbered, key=lambda p: int(p.name), reverse=True)]
    wanted = ("initdb", "postgres")
    return next((path for path in candidates if all((path / name).is_file() for name in wanted)), None)


def why_not() -> str | None:
    """Why this machine cannot run one; None if it can. A test that needs one is skipped with this."""
    if binaries() is None:
        return "no PostgreSQL on this machine: neither initdb on the PATH nor one of Debian's"
    if os.geteuid() == 0 and _service_user() is None:
        return "PostgreSQL does not run as root, and this machine has no user postgres to run it as"
    return None


class PrivatePostgres:
    """One server and its directory. Use `running_postgres`."""

    def __init__(self, directory: Path, folder: Path, port: int, password: str) -> None:
        self._directory = directory
        self._folder = folder
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    def url(self, name: str = "postgres", security: str = "sslmode=disable") -> str:
        """How libpq is told where a database of it is. It speaks TLS to those who want it."""
        return f"postgresql://{USER}:{self._password}@127.0.0.1:{self.port}/{name}?{security}"

    @property
    def ca_file(self) -> Path:
        """Whom to trust to know it by."""
        return self._directory / "tls" / "ca.pem"

    def new_database(self) -> DatabaseConfig:
        """One with nothing in it."""
        name = f"bailiwick_{secrets.token_hex(6)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(sql.Identifier(name))
            )
        return DatabaseConfig(url=SecretStr(self.url(name)))

    def create(self) -> None:
        """Lay out the directory."""
        password_file = self._directory / "password"
        password_file.write_text(self._password)
        issued = Authority(self._directory / "tls").issue()
        for path in (password_file, issued.certificate, issued.key, issued.key.parent):
            self._hand_over(path)
        self._run(
            "initdb",
            *("--pgdata", str(self._data), "--username", USER, "--pwfile", str(password_file)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )

    def start(self) -> None:
        """Return when it answers."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self._directory,
            "ssl": "on",
            "ssl_cert_file": self._directory / "tls" / "server.pem",
            "ssl_key_file": self._directory / "tls" / "server.key",
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "16MB",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._folder / "postgres"), "-D", str(self._data), *arguments]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **_identity()
            )
        self._wait_until_it_answers()

    def kill(self) -> None:
        """As by `kill -9`: what it was doing is cut off. Its children notice and end, too."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Throw everybody out and end at once: the next start mends what is left. Fine if it does not run."""
        self._end(signal.SIGQUIT)

    def pause(self) -> None:
        """Have it hang: connections stay, and nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        children = _children(process.pid)
        process.send_signal(how)
        process.wait(START_TIMEOUT_S)
        _wait_for_end(children)

    def _signal_all(self, how: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError("PostgreSQL does not run")
        for pid in (self._process.pid, *_children(self._process.pid)):
            os.kill(pid, how)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError as error:
                is_gone = self._process is None or self._process.poll() is not None
                if is_gone or time.monotonic() > deadline:
                    log = (self._directory / "log").read_text(errors="replace")
                    raise RuntimeError(f"PostgreSQL did not start: {log[-2000:]}") from error
                time.sleep(_POLL_S)
            else:
                return

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._folder / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **_identity())
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr[-2000:]}")

    def _hand_over(self, path: Path) -> None:
        path.chmod(0o700 if path.is_dir() else 0o600)
        if os.geteuid() == 0 and (user := _service_user()) is not None:
            os.chown(path, user.pw_uid, user.pw_gid)


@contextmanager
def running_postgres() -> Iterator[PrivatePostgres]:
    """One that answers. Raises RuntimeError where `why_not` has a reason."""
    folder, problem = binaries(), why_not()
    if folder is None or problem is not None:
        raise RuntimeError(problem)
    directory = Path(tempfile.mkdtemp(prefix="bailiwick-postgres-"))
    server = PrivatePostgres(directory, folder, _free_port(), secrets.token_urlsafe(16))
    try:
        directory.chmod(0o700)
        if os.geteuid() == 0 and (user := _service_user()) is not None:
            os.chown(directory, user.pw_uid, user.pw_gid)
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _service_user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(_SERVICE_USER)
    except KeyError:
        return None


def _identity() -> dict[str, Any]:
    """As whom and where its programs run."""
    user = _service_user() if os.geteuid() == 0 else None
    if user is None:
        return {"cwd": "/"}
    return {"cwd": "/", "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> Sequence[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _wait_for_end(pids: Sequence[int]) -> None:
    """They hold the directory's shared memory: a new server cannot start before they are gone."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(_POLL_S)
