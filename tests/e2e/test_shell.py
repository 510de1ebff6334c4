"""The shell of `bailiwick query` at a real terminal, on a real gateway: browsing, cancelling, progress."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bailiwick.testing.asking import rows, running_queries, wait_until
from bailiwick.testing.gateway import RunningGateway, clean_environment, command
from bailiwick.testing.terminal import Terminal, at_terminal

pytestmark = pytest.mark.spark

PROMPT = "^bailiwick>"
ENDLESS = "SELECT count(*) FROM range(4000000000000) WHERE sqrt(id) < 0"


def environment(gateway: RunningGateway, state: Path) -> dict[str, str]:
    given = {"BAILIWICK_URL": gateway.uri, "BAILIWICK_PASSWORD": gateway.admin_password}
    return clean_environment({**given, "XDG_STATE_HOME": str(state)})


@pytest.fixture
def shell(gateway: RunningGateway, tmp_path: Path) -> Iterator[Terminal]:
    line = [command(), "query", "--user", "admin"]
    with at_terminal(line, environment(gateway, tmp_path)) as terminal:
        terminal.expect(PROMPT)
        yield terminal


@pytest.fixture(scope="module")
def lake(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Made by statements through a pipe."""
    statements = """
        CREATE NAMESPACE IF NOT EXISTS kiosk;
        CREATE NAMESPACE IF NOT EXISTS kiosk.eu; -- inside; of the other
        CREATE TABLE IF NOT EXISTS kiosk.orders (id BIGINT COMMENT 'counts; up', region STRING) USING iceberg;
        CREATE TABLE IF NOT EXISTS kiosk.`odd; name` (x INT) USING iceberg;
        CREATE TABLE IF NOT EXISTS kiosk.eu.orders (id BIGINT) USING iceberg;
        INSERT INTO kiosk.orders VALUES (1, 'a;b'), (2, 'it\\'s');
    """
    done = subprocess.run(
        [command(), "query", "--user", "admin"],
        input=statements.encode(),
        env=environment(gateway, tmp_path_factory.mktemp("state")),
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"done, 2 rows changed" in done.stdout


@pytest.mark.usefixtures("lake")
def test_statements_and_browsing(shell: Terminal) -> None:
    shell.enter("SELECT region,")
    shell.enter("       id -- no; end")
    shell.enter("FROM kiosk.orders ORDER BY id;")
    shown = shell.expect(r"2 rows \(\d+\.\d\d s\)")
    assert "a;b" in shown
    assert "it's" in shown
    shell.enter("\\l")
    assert "lake" in shell.expect(r"2 rows\n")
    shell.enter("\\dn kio*")
    assert "kiosk.eu" in shell.expect(r"2 rows\n")
    shell.enter("\\dt kiosk.*")
    listed = shell.expect(r"3 rows\n")
    assert "odd; name" in listed
    assert "kiosk.eu" in listed
    shell.enter("\\d kiosk.orders")
    shell.expect(r"id +bigint +counts; up")
    shell.expect(r"region +string")
    shell.enter("\\d kiosk.`odd; name`")
    shell.expect(r"x +int")
    shell.enter("\\dt system.runtime.q*")
    shell.expect(r"system.runtime +queries +table")
    shell.enter("\\d system.runtime.queries")
    shell.expect(r"query_id +\w+")
    shell.enter("\\d kiosk.nothing")
    shell.expect("TABLE_NOT_FOUND: ")
    shell.expect(PROMPT)
    shell.press_ctrl_d()
    assert shell.wait() == 0


@pytest.mark.usefixtures("lake")
def test_use_holds_for_the_session_and_the_session_ends_with_the_shell(
    shell: Terminal, gateway: RunningGateway
) -> None:
    def sessions() -> int:
        listed = rows(gateway, "SELECT client FROM system.runtime.sessions WHERE schema = 'kiosk'")
        return len(listed)

    shell.enter("USE kiosk;")
    shell.expect("^done")
    shell.enter("SELECT count(*) AS n FROM orders;")
    shell.expect(r"2\s+1 row \(")
    assert sessions() == 1
    shell.enter("\\q")
    assert shell.wait() == 0
    assert sessions() == 0


def test_a_failed_query_is_told_with_its_code_and_id(shell: Terminal) -> None:
    shell.enter("SELECT * FROM nowhere;")
    shell.expect("TABLE_NOT_FOUND: ")
    shell.expect(PROMPT)
    shell.enter("SELECT 1 / 0 AS broken;")
    shell.expect("DIVISION_BY_ZERO: ")
    shell.expect(r"^query \S+")
    shell.expect(PROMPT)
    shell.enter("SELECT 40 + 2 AS answer;")
    shell.expect(r"42\s+1 row \(")


def test_ctrl_c_stops_spark_and_the_shell_stays(shell: Terminal, gateway: RunningGateway) -> None:
    shell.enter(f"{ENDLESS};")
    wait_until("running", lambda: running_queries(gateway, "4000000000000"))
    shell.expect(r"running .*tasks")
    shell.press_ctrl_c()
    shell.expect("^cancelled")
    shell.expect(PROMPT)
    wait_until("stopped", lambda: not running_queries(gateway, "4000000000000"), 10)
    shell.enter("SELECT 40 + 2 AS answer;")
    shell.expect(r"42\s+1 row \(")


def test_many_rows_are_cut_with_a_note(shell: Terminal) -> None:
    shell.enter("SELECT id FROM range(100000);")
    shell.expect(r"first 1000 rows; there are more: \\rows N shows more \(")
    shell.expect(PROMPT)


def test_a_pipe_stops_at_the_first_failure(gateway: RunningGateway, tmp_path: Path) -> None:
    done = subprocess.run(
        [command(), "query", "--user", "admin", "--format", "csv"],
        input=b"SELECT 1 AS a;\nSELECT * FROM nowhere;\nSELECT 2 AS b;\n",
        env=environment(gateway, tmp_path),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.split() == [b"a", b"1"]
    assert b"TABLE_NOT_FOUND" in done.stderr
