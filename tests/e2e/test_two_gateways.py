"""Two gateways on one PostgreSQL: what one does, the other knows; when one dies, the other says so."""

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow.flight as flight
import pytest

from bailiwick.testing.asking import ENDLESS, failure, rows, start_client, value, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.postgres import running_postgres, why_not

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

PASSWORD = "a long password"


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningGateway, RunningGateway]]:
    directory = tmp_path_factory.mktemp("gateways")
    (directory / "keys").mkdir(mode=0o700)
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        url = postgres.new_database().url
        assert url is not None
        settings = {
            "BAILIWICK__DATABASE__URL": url.get_secret_value(),
            "BAILIWICK__CATALOG__WAREHOUSE_DIR": str(directory / "warehouse"),
            "BAILIWICK__SERVER__KEYS_DIR": str(directory / "keys"),
            "BAILIWICK__ENGINE__MEMORY": "1g",
        }
        first = stack.enter_context(running_gateway(directory / "one", settings=settings))
        # Whoever comes first makes the administrator; the second one is told by a person.
        password = (directory / "one" / "admin-password").read_text()
        (directory / "two").mkdir(mode=0o700)
        second = stack.enter_context(running_gateway(directory / "two", settings=settings))
        (directory / "two" / "admin-password").write_text(password)
        rows(first, "CREATE NAMESPACE shared")
        rows(first, "CREATE TABLE shared.t AS SELECT id FROM range(100)")
        rows(first, f"CREATE USER peer PASSWORD '{PASSWORD}' ROLES (reader)")
        rows(first, "GRANT SELECT ON TABLE lake.shared.t TO USER peer")
        yield first, second


def test_a_table_that_one_makes_is_read_by_the_other_at_once(
    gateways: tuple[RunningGateway, RunningGateway],
) -> None:
    first, second = gateways
    assert value(second, "SELECT sum(id) FROM shared.t") == 4950
    rows(second, "INSERT INTO shared.t VALUES (1000)")
    assert value(first, "SELECT sum(id) FROM shared.t") == 5950
    rows(first, "DELETE FROM shared.t WHERE id = 1000")
    assert value(second, "SELECT count(*) FROM shared.t") == 100


def test_a_user_made_at_one_signs_in_at_the_other_and_a_revoked_right_is_gone_at_both(
    gateways: tuple[RunningGateway, RunningGateway],
) -> None:
    first, second = gateways
    assert rows(second, "SELECT count(*) FROM shared.t", "peer", PASSWORD) == [(100,)]
    rows(first, "CREATE ROW FILTER few ON TABLE lake.shared.t FOR USER peer USING (id < 10)")
    assert rows(second, "SELECT count(*) FROM shared.t", "peer", PASSWORD) == [(10,)]
    rows(second, "REVOKE SELECT ON TABLE lake.shared.t FROM USER peer")
    assert "TABLE_NOT_FOUND" in failure(first, "SELECT count(*) FROM shared.t", "peer", PASSWORD)


def test_a_ticket_of_one_is_good_at_the_other(gateways: tuple[RunningGateway, RunningGateway]) -> None:
    first, second = gateways
    one, other = _signed_in(first), _signed_in(second)
    info = one[0].get_flight_info(flight.FlightDescriptor.for_command(_statement("SELECT 7 AS n")), one[1])
    assert other[0].do_get(info.endpoints[0].ticket, other[1]).read_all().to_pydict() == {"n": [7]}


def test_a_query_of_one_is_seen_and_cancelled_at_the_other(
    gateways: tuple[RunningGateway, RunningGateway],
) -> None:
    first, second = gateways
    client = start_client(first, ENDLESS)
    try:
        query_id = wait_until("it runs", lambda: _running(second))
        rows(second, f"CANCEL QUERY '{query_id}'")
        wait_until("it is cancelled", lambda: _state(second, query_id) == "cancelled", 10)
    finally:
        client.kill()
        client.wait()


def test_when_one_is_killed_the_other_fails_its_queries_with_the_reason(
    gateways: tuple[RunningGateway, RunningGateway],
) -> None:
    first, second = gateways
    client = start_client(first, ENDLESS)
    try:
        query_id = wait_until("it runs", lambda: _running(second))
        first.process.kill()
        wait_until("it is failed", lambda: _state(second, query_id) == "failed", 60)
    finally:
        client.kill()
        client.wait()
    message = value(second, f"SELECT error_message FROM system.runtime.queries WHERE query_id = '{query_id}'")
    assert "was lost" in message
    assert value(second, "SELECT count(*) FROM shared.t") == 100


def _running(gateway: RunningGateway) -> str:
    found = rows(gateway, "SELECT query_id, sql FROM system.runtime.queries WHERE state = 'running'")
    return next((query_id for query_id, sql in found if "CROSS JOIN" in sql), "")


def _state(gateway: RunningGateway, query_id: str) -> str:
    return str(value(gateway, f"SELECT state FROM system.runtime.queries WHERE query_id = '{query_id}'"))


def _signed_in(gateway: RunningGateway) -> tuple[flight.FlightClient, flight.FlightCallOptions]:
    client = flight.FlightClient(f"grpc://{gateway.grpc_address}")
    header = client.authenticate_basic_token("admin", gateway.admin_password)
    return client, flight.FlightCallOptions(headers=[header])


def _statement(sql: str) -> bytes:
    from google.protobuf.any_pb2 import Any

    from bailiwick._generated import FlightSql_pb2

    packed = Any()
    packed.Pack(FlightSql_pb2.CommandStatementQuery(query=sql))
    return packed.SerializeToString()
