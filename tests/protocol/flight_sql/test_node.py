"""A node client, in a process of its own. Without node and npm, or without its package, it is not run."""

import json
from typing import Any

import pytest

from bailiwick.testing.asking import rows
from bailiwick.testing.gateway import RunningGateway
from flight_sql.foreign_clients import NODE, run_node

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def saw(gateway: RunningGateway, schema: str) -> dict[str, Any]:
    """What the probe saw, by case."""
    settings = {
        "ADDRESS": gateway.grpc_address,
        "PASSWORD": gateway.admin_password,
        "TOKEN": rows(gateway, "CREATE TOKEN FOR admin TTL '1h'")[0][1],
    }
    printed = run_node(NODE / "probe.js", settings)
    lines = [json.loads(line) for line in printed.splitlines()]
    return {line["case"]: line["saw"] for line in lines}


@pytest.mark.proves("CommandStatementQuery", "Handshake")
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("query", [{"id": number, "name": f"n{number}"} for number in range(3)]),
        ("empty", []),
        ("many rows", 100_000),
        ("count", [{"n": 2}]),
        ("token", [{"answer": 42}]),
        ("catalogs", [{"catalog_name": "lake"}, {"catalog_name": "system"}]),
        ("schemas", [{"catalog_name": "lake", "db_schema_name": "node"}]),
    ],
)
def test_node_gets_the_rows(saw: dict[str, Any], case: str, expected: Any) -> None:
    assert saw[case] == expected


def test_node_gets_values_of_each_type(saw: dict[str, Any]) -> None:
    (row,) = saw["types"]
    assert (row["b"], row["i"], row["d"], row["s"]) == (True, 3, 2.5, "ü")


def test_changes_run_once(saw: dict[str, Any]) -> None:
    assert "error" not in saw["create"]
    assert "error" not in saw["insert"]


@pytest.mark.proves("CommandGetTables")
def test_tables_are_listed(saw: dict[str, Any]) -> None:
    assert [(row["table_name"], row["table_type"]) for row in saw["tables"]] == [("made", "table")]


def test_an_error_is_an_error_though_this_client_keeps_the_reason_to_itself(saw: dict[str, Any]) -> None:
    assert saw["syntax error"]["error"] == "failed to prepare statement"
