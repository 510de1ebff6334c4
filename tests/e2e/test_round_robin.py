"""Real clients behind a round-robin proxy over two gateways, and what they are told when one of them dies."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as arrow_flight
import pytest
from adbc_driver_flightsql import dbapi

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.testing.asking import ENDLESS, rows, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.line import Line, laid
from bailiwick.testing.postgres import running_postgres, why_not
from bailiwick.testing.raw_flight import RawFlight, Refused, descriptor, packed, raw_flight

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

T = TypeVar("T")

HOST = "localhost"
"""What these gateways tell of themselves: clients and gateways are on one machine here."""


@dataclass
class House:
    first: RunningGateway
    second: RunningGateway
    ports: tuple[int, int]
    turns: list[int] = field(default_factory=list)
    """Which of the two each connection through the proxy has come to."""
    line: Line | None = None

    def next_target(self) -> tuple[str, int]:
        turn = len(self.turns) % 2
        self.turns.append(turn)
        return "127.0.0.1", self.ports[turn]

    @property
    def at_first(self) -> str:
        return f"{HOST}:{self.ports[0]}"

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """ADBC through the proxy."""
        assert self.line is not None
        credentials = {"username": "admin", "password": self.first.admin_password}
        with dbapi.connect(f"grpc://{self.line.address}", db_kwargs=credentials, autocommit=True) as made:
            yield made

    @contextmanager
    def raw(self, gateway: RunningGateway) -> Iterator[RawFlight]:
        with raw_flight(gateway.grpc_address, basic=("admin", self.first.admin_password)) as client:
            yield client


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("round_robin")
    (directory / "keys").mkdir(mode=0o700)
    ports = _free_ports()
    with ExitStack() as stack:
        url = stack.enter_context(running_postgres()).new_database().url
        assert url is not None
        settings = {
            "BAILIWICK__DATABASE__URL": url.get_secret_value(),
            "BAILIWICK__CATALOG__WAREHOUSE_DIR": str(directory / "warehouse"),
            "BAILIWICK__SERVER__KEYS_DIR": str(directory / "keys"),
            "BAILIWICK__SERVER__ADVERTISED": HOST,
            "BAILIWICK__ENGINE__MEMORY": "1g",
        }

        def started(name: str, port: int) -> RunningGateway:
            arguments = ("--grpc-port", str(port))
            return stack.enter_context(
                running_gateway(directory / name, settings=settings, arguments=arguments)
            )

        first = started("one", ports[0])
        second = started("two", ports[1])
        (directory / "two" / "admin-password").write_text(first.admin_password)
        house = House(first, second, ports)
        house.line = stack.enter_context(laid(house.next_target))
        rows(first, "CREATE NAMESPACE shared")
        rows(first, "CREATE TABLE shared.t AS SELECT id FROM range(100)")
        yield house


def test_connections_take_turns_and_each_is_served_in_full(house: House) -> None:
    before = len(house.turns)
    for number in range(4):
        with house.connected() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT sum(id) FROM shared.t WHERE id < ?", (10,))
            assert cursor.fetchall() == [(45,)]
            cursor.executemany("INSERT INTO shared.t VALUES (?)", [(1000 + number,), (2000 + number,)])
            cursor.execute("SELECT count(*) FROM shared.t WHERE id >= 1000")
            assert cursor.fetchall() == [(2 * (number + 1),)]
            assert connection.adbc_get_table_schema("t", db_schema_filter="shared").names == ["id"]
            objects = connection.adbc_get_objects(depth="tables", db_schema_filter="shared").read_all()
            assert objects.num_rows
    assert set(house.turns[before:]) == {0, 1}
    rows(house.second, "DELETE FROM shared.t WHERE id >= 1000")


def test_an_ingest_through_one_is_there_for_the_next(house: House) -> None:
    brought = pa.table({"n": list(range(1000))})
    with house.connected() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("brought", brought, mode="create", db_schema_name="shared")
    with house.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*), sum(n) FROM shared.brought")
        assert cursor.fetchall() == [(1000, 499500)]


def test_a_prepared_statement_of_one_is_bound_and_run_at_the_other(house: House) -> None:
    with house.raw(house.first) as one, house.raw(house.second) as other:
        handle = one.prepare("SELECT count(*) AS n FROM shared.t WHERE id < ?")
        bound = other.bind(handle, pa.table({"p": pa.array([7], pa.int64())}))
        assert one.run_prepared(bound).to_pydict() == {"n": [7]}
        # Drivers that go on with the old handle have a session, and it is where they bound.
        assert other.run_prepared(handle).to_pydict() == {"n": [7]}
        assert _refused(lambda: one.run_prepared(handle)).code == "INVALID_ARGUMENTS"


def test_a_change_runs_once_and_its_answer_is_fetched_at_the_other(house: House) -> None:
    with house.raw(house.first) as one, house.raw(house.second) as other:
        ticket = one.ticket("CREATE NAMESPACE made_once")
        assert other.fetch(ticket).num_rows == 0
    assert ("made_once",) in rows(house.second, "SHOW NAMESPACES IN lake")


def test_a_session_that_comes_to_another_gateway_is_told_where_it_is_and_keeps_its_settings(
    house: House,
) -> None:
    assert house.line is not None
    if len(house.turns) % 2:
        house.turns.append(1)
    with house.connected() as connection:
        assert house.turns[-1] == 0
        _run(connection, "USE shared")
        assert _run(connection, "SELECT count(*) FROM t") == [(100,)]
        assert house.at_first in _elsewhere(house, lambda: _session_end(connection))
        back = _elsewhere(house, lambda: _run(connection, "SELECT count(*) FROM t"))
        assert back == [(100,)]


def test_a_polled_statement_is_asked_about_where_it_runs_and_cancelled_anywhere(house: House) -> None:
    with house.raw(house.first) as one, house.raw(house.second) as other:
        begun = one.poll(descriptor(sql.CommandStatementQuery(query=ENDLESS)))
        again = begun.flight_descriptor.SerializeToString()
        refused = _refused(lambda: other.poll(again))
        assert refused.code == "INVALID_ARGUMENTS"
        assert house.at_first in str(refused)
        assert _cancelled(other, begun.info) == flight.CANCEL_STATUS_CANCELLING
        ended = wait_until("it has ended", lambda: _poll_refusal(one, again), 20)
        assert ended is not None
        assert ended.code == "QUERY_CANCELLED"


def test_the_result_of_a_polled_statement_says_where_to_fetch_it(house: House) -> None:
    with house.raw(house.first) as one, house.raw(house.second) as other:
        command = descriptor(sql.CommandStatementQuery(query="SELECT count(*) AS n FROM shared.t"))
        info = wait_until("it is done", lambda: _endpoints(one, command))
        assert info is not None
        assert [place.uri for place in info.endpoint[0].location] == [f"grpc+tcp://{house.at_first}"]
        ticket = info.endpoint[0].ticket.SerializeToString()
        assert house.at_first in str(_refused(lambda: other.fetch(ticket)))
        assert one.fetch(ticket).to_pydict() == {"n": [100]}


def test_a_read_that_one_promised_and_the_other_runs_is_cancelled_by_its_ticket(house: House) -> None:
    one, one_options = _arrow(house, house.first)
    other, other_options = _arrow(house, house.second)
    asked = arrow_flight.FlightDescriptor.for_command(packed(sql.CommandStatementQuery(query=ENDLESS)))
    info = one.get_flight_info(asked, one_options)
    reading = _begun(lambda: other.do_get(info.endpoints[0].ticket, other_options).read_all())
    wait_until("it runs", lambda: _running(house.first))
    request = flight.CancelFlightInfoRequest(info=flight.FlightInfo.FromString(info.serialize()))
    action = arrow_flight.Action("CancelFlightInfo", request.SerializeToString())
    answer = next(iter(one.do_action(action, one_options))).body.to_pybytes()
    status = flight.CancelFlightInfoResult.FromString(answer).status
    assert status == flight.CANCEL_STATUS_CANCELLING
    with pytest.raises(pa.ArrowException, match="QUERY_CANCELLED"):
        reading.result(30)


def test_when_the_owner_is_killed_nobody_hangs_and_each_is_told(house: House) -> None:
    if len(house.turns) % 2:
        house.turns.append(1)
    with house.raw(house.first) as one, house.raw(house.second) as other, ExitStack() as stack:
        polled = one.poll(descriptor(sql.CommandStatementQuery(query=ENDLESS)))
        again = polled.flight_descriptor.SerializeToString()
        connection = stack.enter_context(house.connected())
        assert house.turns[-1] == 0
        _run(connection, "USE shared")
        reading = _begun(lambda: _told(connection, ENDLESS))
        wait_until("both run", lambda: len(_running(house.second)) == 2)
        house.first.process.kill()
        house.first.process.wait()
        assert reading.result(30)
        assert _refused(lambda: other.poll(again)).code == "INVALID_ARGUMENTS"
        lost = wait_until("it is given up on", lambda: _lost(other, again), 60)
        assert "is gone" in str(lost)
        carried = other.metadata
        other.metadata = one.metadata
        assert "is gone" in str(_refused(lambda: other.ticket("SELECT 1")))
        other.metadata = carried
        told = wait_until("the proxy's other gateway answers", lambda: _session_end(connection))
        assert "is gone" in told
        # What was promised by the dead one and holds all that it means is good at the other.
        with _connected_again(house) as fresh, fresh.cursor() as anew:
            anew.execute("SELECT count(*) FROM shared.t")
            assert anew.fetchall() == [(100,)]


def _begun(action: Callable[[], T]) -> "Future[T]":
    """In a thread that nobody waits for: one that hangs must not keep the test from saying so."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(action())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def _refused(call: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value


def _run(connection: Any, text: str) -> list[Any]:
    """With a cursor of its own: one that has failed cannot be used again."""
    cursor = connection.cursor()
    try:
        cursor.execute(text)
        return list(cursor.fetchall())
    finally:
        with suppress(dbapi.Error):
            cursor.close()
        # Where closing fails, because nobody is there, the driver would try again, and break.
        cursor._closed = True


def _told(connection: Any, text: str) -> str:
    """What the client is told instead of an answer; nothing if there is one."""
    try:
        _run(connection, text)
    except dbapi.Error as error:
        return str(error)
    return ""


def _elsewhere(house: House, ask: Callable[[], T]) -> T:
    """What is answered when the connection has come to the other gateway, by breaking it.

    A client may see the break itself first, or take a turn in vain: then it is broken once more.
    """
    line = house.line
    assert line is not None

    def broken_and_asked() -> T:
        line.reset()
        return ask()

    return wait_until("answered by the other", broken_and_asked)


def _session_end(connection: Any) -> str:
    told = _told(connection, "SELECT count(*) FROM t")
    return told if "SESSION_EXPIRED" in told else ""


def _cancelled(client: RawFlight, info: flight.FlightInfo) -> int:
    body = flight.CancelFlightInfoRequest(info=info).SerializeToString()
    return int(flight.CancelFlightInfoResult.FromString(client.act("CancelFlightInfo", body)).status)


def _poll_refusal(client: RawFlight, again: bytes) -> Refused | None:
    try:
        client.poll(again)
    except Refused as refused:
        return refused
    return None


def _lost(client: RawFlight, again: bytes) -> Refused | None:
    refused = _poll_refusal(client, again)
    return refused if refused is not None and refused.code == "EXECUTION_FAILED" else None


def _endpoints(client: RawFlight, command: bytes) -> flight.FlightInfo | None:
    info = client.poll(command).info
    return info if info.endpoint else None


def _running(gateway: RunningGateway) -> list[str]:
    found = rows(gateway, "SELECT query_id, sql FROM system.runtime.queries WHERE state = 'running'")
    return [query_id for query_id, text in found if "CROSS JOIN" in text]


def _arrow(
    house: House, gateway: RunningGateway
) -> tuple[arrow_flight.FlightClient, arrow_flight.FlightCallOptions]:
    client = arrow_flight.FlightClient(f"grpc://{gateway.grpc_address}")
    header = client.authenticate_basic_token("admin", house.first.admin_password)
    return client, arrow_flight.FlightCallOptions(headers=[header])


@contextmanager
def _connected_again(house: House) -> Iterator[Any]:
    """As a client does that is turned away by the dead one: it tries once more."""
    with ExitStack() as stack:

        def attempt() -> Any:
            with suppress(dbapi.Error):
                return stack.enter_context(house.connected())
            return None

        yield wait_until("somebody answers", attempt)
