"""What people did is in the audit log, as auditors read it, verify it and take it elsewhere."""

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bailiwick.testing.asking import failure, rows, value
from bailiwick.testing.gateway import RunningGateway, command, running_gateway

pytestmark = pytest.mark.spark

OLGA = ("olga", "olgas password")
RITA = ("rita_of_audit", "ritas password")
COLUMNS = (
    "sequence, kind, principal, what, outcome, code, rows, tables_read, tables_written, rules, policy_version"
)


@pytest.fixture(scope="module")
def lake(gateway: RunningGateway) -> Iterator[RunningGateway]:
    for statement in (
        f"CREATE USER {OLGA[0]} PASSWORD '{OLGA[1]}' ROLES (auditor)",
        f"CREATE USER {RITA[0]} PASSWORD '{RITA[1]}' ROLES (reader)",
        "CREATE NAMESPACE IF NOT EXISTS audited",
        "CREATE TABLE audited.orders (id INT, region STRING, email STRING)",
        "INSERT INTO audited.orders VALUES (1, 'EU', 'a@example.org'), (2, 'US', 'b@example.org')",
        "CREATE TABLE audited.hidden (id INT)",
        f"GRANT SELECT ON TABLE lake.audited.orders TO USER {RITA[0]}",
    ):
        rows(gateway, statement)
    yield gateway
    for statement in (
        "DROP TABLE audited.orders",
        "DROP TABLE audited.hidden",
        f"DROP USER {OLGA[0]}",
        f"DROP USER {RITA[0]}",
    ):
        rows(gateway, statement)


@pytest.fixture(scope="module")
def filtered(lake: RunningGateway) -> Iterator[RunningGateway]:
    rule = f"ON TABLE lake.audited.orders FOR USER {RITA[0]} USING (region = 'EU')"
    rows(lake, f"CREATE ROW FILTER eu_only {rule}")
    yield lake
    rows(lake, "DROP ROW FILTER eu_only ON TABLE lake.audited.orders")


def entries(gateway: RunningGateway, where: str) -> list[dict[str, Any]]:
    sql = f"SELECT {COLUMNS} FROM system.runtime.audit WHERE {where} ORDER BY sequence"
    with gateway.kept_connection(*OLGA).cursor() as cursor:
        cursor.execute(sql)
        found: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
        return found


def bailiwick(gateway: RunningGateway | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("BAILIWICK")}
    if gateway is not None:
        environment |= {"BAILIWICK_URL": gateway.uri, "BAILIWICK_PASSWORD": OLGA[1]}
    return subprocess.run(
        [command(), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_read_is_told_with_its_tables_and_rows(lake: RunningGateway) -> None:
    rows(lake, "SELECT id FROM audited.orders /* mark-0 */", *RITA)
    (entry,) = entries(lake, "what LIKE '%mark-0%' AND kind = 'query' AND principal = 'rita_of_audit'")
    assert (entry["outcome"], entry["tables_read"]) == ("finished", ["lake.audited.orders"])
    assert entry["policy_version"] > 0


def test_a_change_is_told_before_it_starts_and_when_it_has_ended(lake: RunningGateway) -> None:
    rows(lake, "INSERT INTO audited.orders VALUES (3, 'EU', NULL) /* mark-2 */")
    begun, ended = entries(lake, "what LIKE '%mark-2%' AND kind = 'query' AND principal = 'admin'")
    assert (begun["outcome"], ended["outcome"]) == ("begun", "finished")
    assert ended["tables_written"] == ["lake.audited.orders"]


@pytest.mark.parametrize(
    ("sql", "code", "outcome"),
    [
        ("SELECT * FROM audited.hidden /* mark-3 */", "TABLE_NOT_FOUND", "failed"),
        ("DELETE FROM audited.orders /* mark-4 */", "ACCESS_DENIED", "refused"),
        ("SELECT 1/0 /* mark-5 */", "DIVISION_BY_ZERO", "failed"),
    ],
)
def test_what_did_not_work_is_told_with_its_code(
    lake: RunningGateway, sql: str, code: str, outcome: str
) -> None:
    failure(lake, sql, *RITA)
    mark = sql.partition("/* ")[2].partition(" */")[0]
    entry = entries(lake, f"what LIKE '%{mark}%' AND principal = 'rita_of_audit'")[-1]
    assert (entry["code"], entry["outcome"]) == (code, outcome)


def test_users_and_grants_are_told_without_passwords(lake: RunningGateway) -> None:
    assert entries(lake, "kind = 'policy' AND outcome = 'finished' AND what LIKE 'GRANT SELECT%'")
    assert entries(lake, "kind = 'administration' AND what LIKE 'CREATE USER%'")
    assert entries(lake, "kind = 'sign_in' AND outcome = 'allowed'")
    (query, *_) = entries(lake, "kind = 'query' AND what LIKE 'CREATE TABLE audited.orders%'")
    assert query["tables_written"] == ["lake.audited.orders"]
    assert entries(lake, "kind = 'commit' AND what LIKE 'create table lake.audited%'")
    told = json.dumps(rows(lake, "SELECT entry FROM system.runtime.audit", *OLGA))
    assert OLGA[1] not in told
    assert RITA[1] not in told


def test_a_wrong_password_is_told_with_the_name_that_was_claimed(lake: RunningGateway) -> None:
    assert "AUTHENTICATION_FAILED" in failure(lake, "SELECT 1", "nobody_at_all", "not a password")
    (entry, *_) = entries(lake, "kind = 'sign_in' AND principal = 'nobody_at_all'")
    assert (entry["outcome"], entry["code"]) == ("refused", "AUTHENTICATION_FAILED")


def test_rules_are_told_with_the_reads_they_touched(filtered: RunningGateway) -> None:
    seen = rows(filtered, "SELECT DISTINCT region FROM audited.orders /* mark-1 */", *RITA)
    assert seen == [("EU",)]
    (entry,) = entries(filtered, "what LIKE '%mark-1%' AND kind = 'query' AND principal = 'rita_of_audit'")
    assert entry["rules"] == ["row_filter eu_only on lake.audited.orders"]
    (rule,) = entries(filtered, "outcome = 'finished' AND what LIKE 'CREATE ROW FILTER eu_only%audited%'")
    assert (rule["kind"], "region = 'EU'" in rule["what"]) == ("policy", True)


def test_decisions_are_shown_with_their_reasons_and_hide_what_is_hidden(filtered: RunningGateway) -> None:
    failure(filtered, "SELECT * FROM audited.hidden", *RITA)
    rows(filtered, "SELECT id FROM audited.orders /* mark-8 */", *RITA)
    (query,) = entries(filtered, "what LIKE '%mark-8%' AND kind = 'query' AND principal = 'rita_of_audit'")
    assert query["outcome"] == "finished"
    sql = "SELECT table_name, allowed, rules, because FROM system.runtime.policy_decisions"
    own = rows(filtered, sql, *RITA)
    table, allowed, rules, because = own[-1]
    assert (table, allowed, rules) == ("lake.audited.orders", True, ["row_filter eu_only"])
    assert because
    assert "hidden" not in str(own)
    assert "lake.audited.hidden" in str(rows(filtered, sql, *OLGA))


@pytest.mark.parametrize("sql", ["SHOW AUDIT", "VERIFY AUDIT", "SELECT * FROM system.runtime.audit"])
def test_only_auditors_and_admins_read_it(lake: RunningGateway, sql: str) -> None:
    assert "ACCESS_DENIED" in failure(lake, sql, *RITA)
    assert rows(lake, sql, *OLGA)
    assert rows(lake, sql)


def test_the_log_is_sound_while_the_gateway_runs(lake: RunningGateway) -> None:
    assert value(lake, "VERIFY AUDIT", *OLGA) is True
    done = bailiwick(lake, "audit", "verify", "--user", OLGA[0])
    assert done.returncode == 0, done.stderr
    anchor = done.stdout.split()[-1]
    assert bailiwick(lake, "audit", "verify", "--user", OLGA[0], "--anchor", anchor).returncode == 0
    forged = f"{anchor.partition(':')[0]}:{'f' * 64}"
    done = bailiwick(lake, "audit", "verify", "--user", OLGA[0], "--anchor", forged)
    assert (done.returncode, "rewritten" in done.stderr) == (1, True)
    assert bailiwick(None, "audit", "verify", "--data-dir", str(lake.data_dir)).returncode == 0


def test_the_log_is_exported_and_verified_elsewhere(lake: RunningGateway, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    done = bailiwick(lake, "audit", "export", "--user", OLGA[0], str(path))
    assert done.returncode == 0, done.stderr
    assert bailiwick(None, "audit", "verify", str(path)).stdout == done.stdout
    assert bailiwick(lake, "audit", "export", "--user", OLGA[0], str(path)).returncode == 2
    lines = path.read_text().splitlines()
    assert len(lines) > 10
    path.write_text("\n".join([*lines[:5], lines[5].replace("admin", "nobody"), *lines[6:]]) + "\n")
    broken = bailiwick(None, "audit", "verify", str(path))
    assert (broken.returncode, "broken at entry 6" in broken.stderr) == (1, True)


def test_the_tail_is_for_people_and_follows(lake: RunningGateway) -> None:
    rows(lake, "SELECT 'mark-6'", *RITA)
    done = bailiwick(lake, "audit", "tail", "--user", OLGA[0], "--for", RITA[0], "-n", "1")
    assert "SELECT 'mark-6'" in done.stdout
    environment = {**os.environ, "BAILIWICK_URL": lake.uri, "BAILIWICK_PASSWORD": OLGA[1]}
    with subprocess.Popen(
        [command(), "audit", "tail", "--user", OLGA[0], "-f", "--for", RITA[0], "-n", "1"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        assert "mark-6" in following.stdout.readline()
        rows(lake, "SELECT 'mark-7'", *RITA)
        assert "mark-7" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 130


def test_a_killed_gateway_leaves_a_sound_log_that_has_every_change(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "data") as running:
        rows(running, "CREATE NAMESPACE killed")
        rows(running, "CREATE TABLE killed.t AS SELECT 1 AS mark")
        running.stop(signal.SIGKILL)
    done = bailiwick(None, "audit", "verify", "--data-dir", str(running.data_dir))
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(running.data_dir / "bailiwick.db")) as database:
        texts = [text for (text,) in database.execute("SELECT entry FROM audit ORDER BY sequence")]
    begun = [told["what"] for told in map(json.loads, texts) if told["outcome"] == "begun"]
    assert begun[-2:] == ["CREATE NAMESPACE killed", "CREATE TABLE killed.t AS SELECT 1 AS mark"]
