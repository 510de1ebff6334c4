"""The commands a person types, against a running gateway: what they print, and how they exit."""

import json
import os
import subprocess

import pyarrow as pa
import pytest

from bailiwick.testing.gateway import RunningGateway, command

pytestmark = pytest.mark.spark


def bailiwick(
    gateway: RunningGateway | None, *arguments: str, stdin: str | bytes | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BAILIWICK")}
    if gateway is not None:
        inherited |= {"BAILIWICK_URL": gateway.uri, "BAILIWICK_PASSWORD": gateway.admin_password}
    return subprocess.run(
        [command(), *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        env={**inherited, **environment},
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_query_prints_a_table_and_exits_with_0(gateway: RunningGateway) -> None:
    done = bailiwick(gateway, "query", "--user", "admin", "-e", "SELECT 1 AS one, 'two' AS two")
    assert done.returncode == 0, done.stderr
    assert b"one" in done.stdout
    assert b"two" in done.stdout


def test_csv_json_and_arrow(gateway: RunningGateway) -> None:
    sql = "SELECT id, if(id = 1, NULL, 'x,y') AS s FROM range(2) ORDER BY id"
    csv = bailiwick(gateway, "query", "--user", "admin", "--format", "csv", "-e", sql)
    assert csv.stdout.decode().replace("\r", "").split() == ["id,s", '0,"x,y"', "1,"]
    told = bailiwick(gateway, "query", "--user", "admin", "--format", "json", "-e", sql)
    assert [json.loads(line) for line in told.stdout.decode().strip().split("\n")] == [
        {"id": 0, "s": "x,y"},
        {"id": 1, "s": None},
    ]
    arrow = bailiwick(gateway, "query", "--user", "admin", "--format", "arrow", "-e", sql)
    assert pa.ipc.open_stream(arrow.stdout).read_all().to_pydict() == {"id": [0, 1], "s": ["x,y", None]}


def test_host_and_port_do_the_same_as_the_url(gateway: RunningGateway) -> None:
    host, port = gateway.grpc_address.rsplit(":", 1)
    done = bailiwick(
        None,
        *("query", "--host", host, "--port", port, "--user", "admin", "--protocol", "flight"),
        *("--password-stdin", "-e", "SELECT 5 AS five"),
        stdin=gateway.admin_password + "\n",
    )
    assert done.returncode == 0, done.stderr
    assert b"5" in done.stdout


def test_a_failed_query_exits_with_1_and_says_why(gateway: RunningGateway) -> None:
    done = bailiwick(gateway, "query", "--user", "admin", "-e", "SELECT * FROM nowhere")
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"TABLE_NOT_FOUND" in done.stderr


def test_no_address_and_an_unreachable_one_are_configuration_errors() -> None:
    for arguments in ((), ("--host", "127.0.0.1", "--port", "1")):
        done = bailiwick(
            None, "query", *arguments, "--user", "admin", "-e", "SELECT 1", BAILIWICK_PASSWORD="x"
        )
        assert done.returncode == 2, done.stderr
        assert done.stdout == b""
        assert done.stderr


def test_bad_usage_exits_with_2(gateway: RunningGateway) -> None:
    assert bailiwick(gateway, "query", "--no-such-option").returncode == 2
    assert bailiwick(gateway, "query", "--user", "admin", "--format", "xml", "-e", "SELECT 1").returncode == 2


def test_users_and_tokens_are_administered(gateway: RunningGateway) -> None:
    added = bailiwick(
        gateway,
        *("user", "add", "cli-ann", "--role", "reader", "--user", "admin", "--password-stdin"),
        stdin="a long password\n",
    )
    assert added.returncode == 0, added.stderr
    assert b"cli-ann" in bailiwick(gateway, "user", "list", "--user", "admin").stdout
    created = bailiwick(gateway, "token", "create", "--for", "cli-ann", "--ttl", "1h", "--user", "admin")
    token = created.stdout.decode().strip()
    assert token.startswith("bw_")
    assert len(created.stdout.decode().split()) == 1
    by_token = {"BAILIWICK_TOKEN": token, "BAILIWICK_PASSWORD": ""}
    asked = bailiwick(gateway, "query", "--format", "csv", "-e", "SELECT 3 AS three", **by_token)
    assert asked.stdout.decode().split() == ["three", "3"], asked.stderr
    revoked = bailiwick(gateway, "token", "revoke", token.split("_")[1], "--user", "admin")
    assert revoked.returncode == 0, revoked.stderr
    refused = bailiwick(gateway, "query", "-e", "SELECT 3", **by_token)
    assert refused.returncode == 1
    assert b"AUTHENTICATION_FAILED" in refused.stderr or b"SESSION_EXPIRED" in refused.stderr


def test_help_tells_what_there_is() -> None:
    text = bailiwick(None, "--help").stdout.decode()
    for name in ("serve", "demo", "query", "user", "token", "doctor", "check-config"):
        assert name in text
