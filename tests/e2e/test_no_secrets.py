"""Nothing that opens a door is in what the gateway prints, answers or explains, nor on a command line."""

import re
from pathlib import Path

import psutil
import pytest

from bailiwick.testing.asking import failure, rows
from bailiwick.testing.gateway import RunningGateway

pytestmark = pytest.mark.spark

SHORTEST = 16
LARGEST_BYTES = 64 << 10
PASSWORD = "a password of the secret test"
LOOKS = (
    "EXPLAIN {}",
    "EXPLAIN EXTENDED {}",
    "EXPLAIN FORMATTED {}",
    "EXPLAIN COST {}",
    "EXPLAIN CODEGEN {}",
)
DESCRIPTIONS = (
    "DESCRIBE TABLE EXTENDED secretive.t",
    "SHOW TBLPROPERTIES secretive.t",
    "SHOW CREATE TABLE secretive.t",
    "DESCRIBE NAMESPACE EXTENDED secretive",
)


def kept_secrets(gateway: RunningGateway) -> set[str]:
    """What the data directory keeps for itself: keys, passwords, credentials of the engine."""
    found: set[str] = {PASSWORD}
    for path in gateway.data_dir.rglob("*"):
        if not path.is_file() or path.stat().st_size > LARGEST_BYTES or "warehouse" in path.parts:
            continue
        if path.parent.name == "keys" or re.search("password|credential|stamp|token", path.name):
            found.add(path.read_bytes().decode(errors="replace").strip())
        elif path.suffix in (".properties", ".conf"):
            found |= set(re.findall(r"(?im)^\S*(?:token|secret|password)[ =]+(\S{16,})$", path.read_text()))
    return {secret for secret in found if len(secret) >= SHORTEST}


@pytest.fixture(scope="module")
def secretive(gateway: RunningGateway) -> RunningGateway:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS secretive")
    rows(gateway, "CREATE TABLE secretive.t AS SELECT 1 AS id")
    failure(gateway, f"CREATE USERS x PASSWORD '{PASSWORD}'")
    rows(gateway, f"CREATE USER secret_sue PASSWORD '{PASSWORD}' ROLES (reader)")
    return gateway


def assert_clean(text: str, gateway: RunningGateway, what: str) -> None:
    leaked = [secret[:6] for secret in kept_secrets(gateway) if secret in text]
    assert leaked == [], f"{what} shows secrets that begin with {leaked}"


def test_there_are_secrets_to_look_for(secretive: RunningGateway) -> None:
    assert len(kept_secrets(secretive)) >= 4


def test_the_log_has_none(secretive: RunningGateway) -> None:
    # The first password of the first admin is told once, on purpose, to whoever starts the gateway.
    lines = [line for line in secretive.log_text().splitlines() if "user admin has the password" not in line]
    assert len(lines) > 3
    assert_clean("\n".join(lines), secretive, "the log")


def test_the_engines_own_log_has_none(secretive: RunningGateway) -> None:
    found = [path for path in secretive.data_dir.rglob("*.log") if path.is_file()]
    assert found
    for path in found:
        assert_clean(path.read_text(errors="replace"), secretive, path.name)


@pytest.mark.parametrize("look", LOOKS)
def test_explain_has_none(secretive: RunningGateway, look: str) -> None:
    told = str(rows(secretive, look.format("SELECT * FROM secretive.t WHERE id > 0")))
    assert "secretive" in told or "Codegen" in told or "codegen" in told
    assert_clean(told, secretive, look)
    assert "bailiwick.stamp" not in told


@pytest.mark.parametrize("statement", DESCRIPTIONS)
def test_descriptions_have_none(secretive: RunningGateway, statement: str) -> None:
    told = str(rows(secretive, statement))
    assert_clean(told, secretive, statement)
    assert "bailiwick.stamp" not in told


def test_system_tables_and_audit_have_none(secretive: RunningGateway) -> None:
    for table in ("queries", "tasks", "sessions", "nodes", "audit", "policy_decisions"):
        assert_clean(str(rows(secretive, f"SELECT * FROM system.runtime.{table}")), secretive, table)


def test_errors_have_none(secretive: RunningGateway) -> None:
    for sql in ("SELECT * FROM secretive.missing", "SELECT assert_true(false)", "SET spark.bailiwick.x = 1"):
        assert_clean(failure(secretive, sql), secretive, sql)


def test_the_engines_command_line_and_environment_have_none(secretive: RunningGateway) -> None:
    for pid in (secretive.pid, secretive.engine_pid):
        process = psutil.Process(pid)
        seen = "\n".join(
            [*process.cmdline(), *(f"{name}={text}" for name, text in process.environ().items())]
        )
        assert_clean(seen, secretive, f"process {process.name()}")


def test_private_files_are_private(secretive: RunningGateway) -> None:
    loose = [
        path.name
        for path in (secretive.data_dir, *secretive.data_dir.rglob("*"))
        if _may_hold_secrets(path) and path.stat().st_mode & 0o077
    ]
    assert loose == []


def _may_hold_secrets(path: Path) -> bool:
    telling = ("key", "password", "credential", "token", ".db", "anchor", ".properties", ".conf")
    return path.is_file() and any(word in path.name for word in telling) and "warehouse" not in path.parts
