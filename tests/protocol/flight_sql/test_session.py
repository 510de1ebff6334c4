"""Flight's own calls about sessions and answers, by hand: options, cookies, polling, cancelling, renewing."""

from collections.abc import Iterator
from typing import Any, Self

import grpc
import pyarrow.flight
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.service import SERVICE
from bailiwick.doors.flight_sql.wire import pack
from bailiwick.testing.asking import ENDLESS, rows, running_queries, wait_until
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Metadata = tuple[tuple[str, str], ...]
Errors = flight.SetSessionOptionsResult


class RawClient:
    """One that does with headers and cookies only what a test tells it to."""

    def __init__(self, gateway: RunningGateway, metadata: Metadata) -> None:
        self.metadata = metadata
        self._channel = grpc.insecure_channel(gateway.grpc_address)

    @classmethod
    def signed_in(cls, gateway: RunningGateway) -> Self:
        client = pyarrow.flight.connect(f"grpc://{gateway.grpc_address}")
        name, token = client.authenticate_basic_token("admin", gateway.admin_password)
        client.close()
        return cls(gateway, ((name.decode(), token.decode()),))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._channel.close()

    def poll(self, descriptor: flight.FlightDescriptor) -> flight.PollInfo:
        return flight.PollInfo.FromString(self._unary("PollFlightInfo", descriptor))

    def info(self, text: str) -> flight.FlightInfo:
        return flight.FlightInfo.FromString(self._unary("GetFlightInfo", asking(text)))

    def act(self, name: str, body: Message) -> bytes:
        [result] = self._stream("DoAction", flight.Action(type=name, body=body.SerializeToString()))
        return flight.Result.FromString(result).body

    def fetch(self, ticket: flight.Ticket) -> list[bytes]:
        return list(self._stream("DoGet", ticket))

    def set(self, **options: Any) -> dict[str, int]:
        """The errors, by name."""
        request = flight.SetSessionOptionsRequest()
        for name, value in options.items():
            if value is None:
                request.session_options[name].SetInParent()
            elif isinstance(value, bool):
                request.session_options[name].bool_value = value
            elif isinstance(value, float):
                request.session_options[name].double_value = value
            else:
                request.session_options[name].string_value = value
        errors = Errors.FromString(self.act("SetSessionOptions", request)).errors
        return {name: error.value for name, error in errors.items()}

    def options(self) -> dict[str, Any]:
        answer = self.act("GetSessionOptions", flight.GetSessionOptionsRequest())
        options = flight.GetSessionOptionsResult.FromString(answer).session_options
        return {
            name: getattr(value, value.WhichOneof("option_value") or "") for name, value in options.items()
        }

    def headers(self) -> dict[str, str]:
        """What an answer hands out."""
        call = self._stream("DoAction", flight.Action(type="GetSessionOptions"))
        return dict(call.initial_metadata())

    def _unary(self, method: str, request: Message) -> bytes:
        call = self._channel.unary_unary(f"/{SERVICE}/{method}")
        answer: bytes = call(request.SerializeToString(), metadata=self.metadata)
        return answer

    def _stream(self, method: str, request: Message) -> Any:
        call = self._channel.unary_stream(f"/{SERVICE}/{method}")
        return call(request.SerializeToString(), metadata=self.metadata)


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[RawClient]:
    with RawClient.signed_in(gateway) as opened:
        yield opened


@pytest.fixture
def static_token(gateway: RunningGateway) -> str:
    [(_id, token, _expires_at)] = rows(gateway, "CREATE TOKEN FOR admin")
    return str(token)


def asking(text: str) -> flight.FlightDescriptor:
    return flight.FlightDescriptor(
        type=flight.FlightDescriptor.CMD, cmd=pack(sql.CommandStatementQuery(query=text))
    )


def packed(message: Message) -> AnyMessage:
    return AnyMessage.FromString(pack(message))


def ready(client: RawClient, text: str) -> flight.FlightInfo:
    polled = client.poll(asking(text))
    while polled.HasField("flight_descriptor"):
        polled = client.poll(polled.flight_descriptor)
    return polled.info


@pytest.mark.proves("SetSessionOptions", "GetSessionOptions")
def test_options_are_set_one_by_one_and_shown(client: RawClient, schema: str) -> None:
    wanted = {"schema": schema, "time_zone": "+02:00", "double_quoted_identifiers": True, "timeout_s": 9.5}
    assert client.set(**wanted, colour="red") == {"colour": Errors.INVALID_NAME}
    assert client.options() == {"catalog": "lake", **wanted}
    assert client.set(schema="nowhere", time_zone="Mars/Olympus") == {
        "schema": Errors.INVALID_VALUE,
        "time_zone": Errors.INVALID_VALUE,
    }
    assert client.options() == {"catalog": "lake", **wanted}
    assert client.set(schema=None, time_zone=None, double_quoted_identifiers=None, timeout_s=None) == {}
    assert client.options() == {
        "catalog": "lake",
        "schema": "",
        "time_zone": "UTC",
        "double_quoted_identifiers": False,
    }


def test_a_read_means_what_it_meant_when_it_was_promised(client: RawClient, schema: str) -> None:
    client.set(time_zone="Asia/Tokyo")
    info = client.info("SELECT current_timezone() AS zone")
    client.set(time_zone="UTC")
    assert b"Asia/Tokyo" in b"".join(client.fetch(info.endpoint[0].ticket))


def test_a_client_that_adopts_nothing_has_no_session(gateway: RunningGateway, static_token: str) -> None:
    with RawClient(gateway, (("authorization", f"Bearer {static_token}"),)) as client:
        assert client.set(time_zone="+02:00") == {}
        assert client.options()["time_zone"] == "UTC"


def test_a_cookie_alone_carries_a_session(gateway: RunningGateway, static_token: str) -> None:
    with RawClient(gateway, (("authorization", f"Bearer {static_token}"),)) as client:
        cookie = client.headers()["set-cookie"].partition(";")[0]
        assert cookie.startswith("arrow_flight_session_id=")
        client.metadata = (*client.metadata, ("cookie", cookie))
        assert client.set(time_zone="+02:00") == {}
        assert client.options()["time_zone"] == "+02:00"


def test_a_session_of_another_is_none(gateway: RunningGateway, client: RawClient) -> None:
    rows(gateway, "CREATE USER mallory PASSWORD 'a long password' ROLES (reader)")
    [(_id, token, _expires_at)] = rows(gateway, "CREATE TOKEN FOR mallory")
    client.set(time_zone="+02:00")
    stolen = dict(client.metadata)["authorization"].removeprefix("Bearer ")
    metadata = (("authorization", f"Bearer {token}"), ("cookie", f"arrow_flight_session_id={stolen}"))
    with RawClient(gateway, metadata) as other, pytest.raises(grpc.RpcError, match="SESSION_EXPIRED"):
        other.options()


@pytest.mark.proves("CloseSession")
def test_a_closed_sessions_token_is_worth_nothing(client: RawClient) -> None:
    client.options()
    client.act("CloseSession", flight.CloseSessionRequest())
    with pytest.raises(grpc.RpcError, match="SESSION_EXPIRED"):
        client.options()


@pytest.mark.proves("PollFlightInfo", "CancelFlightInfo")
def test_a_polled_query_tells_its_progress_until_it_is_cancelled(
    gateway: RunningGateway, client: RawClient
) -> None:
    polled = client.poll(asking(f"{ENDLESS} /* polled */"))
    seen = [polled.progress]
    while polled.progress == 0 and len(seen) < 60:
        polled = client.poll(polled.flight_descriptor)
        seen.append(polled.progress)
    assert 0 < polled.progress < 1, seen
    assert not polled.info.endpoint
    assert running_queries(gateway, "polled")
    answer = client.act("CancelFlightInfo", flight.CancelFlightInfoRequest(info=polled.info))
    assert flight.CancelFlightInfoResult.FromString(answer).status == flight.CANCEL_STATUS_CANCELLED
    wait_until("ended", lambda: not running_queries(gateway, "polled"))
    with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENTS"):
        client.poll(polled.flight_descriptor)


@pytest.mark.proves("PollFlightInfo", "RenewFlightEndpoint")
def test_a_polled_result_is_fetched_once_also_by_a_renewed_ticket(client: RawClient) -> None:
    [endpoint] = ready(client, "SELECT 41 + 1 AS answer").endpoint
    assert endpoint.HasField("expiration_time")
    answer = client.act("RenewFlightEndpoint", flight.RenewFlightEndpointRequest(endpoint=endpoint))
    renewed = flight.FlightEndpoint.FromString(answer)
    assert len(client.fetch(renewed.ticket)) == 2
    with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENTS"):
        client.fetch(endpoint.ticket)


@pytest.mark.proves("PollFlightInfo")
def test_a_polled_change_runs_once_and_tells_its_rows(client: RawClient, schema: str) -> None:
    assert ready(client, f"CREATE TABLE {schema}.polled (id INT)").total_records in (-1, 0)
    assert ready(client, f"INSERT INTO {schema}.polled VALUES (1), (2), (3)").total_records == 3
    assert len(client.fetch(client.info(f"SELECT * FROM {schema}.polled").endpoint[0].ticket)) >= 2


@pytest.mark.proves("CancelFlightInfo")
def test_what_has_ended_is_not_cancelled(client: RawClient) -> None:
    info = client.info("SELECT 1")
    client.fetch(info.endpoint[0].ticket)
    answer = client.act("CancelFlightInfo", flight.CancelFlightInfoRequest(info=info))
    assert flight.CancelFlightInfoResult.FromString(answer).status == flight.CANCEL_STATUS_NOT_CANCELLABLE


@pytest.mark.proves("CancelQuery")
def test_a_query_is_cancelled_the_old_way(gateway: RunningGateway, client: RawClient) -> None:
    polled = client.poll(asking(f"{ENDLESS} /* the old way */"))
    wait_until("running", lambda: running_queries(gateway, "the old way"))
    answer = client.act(
        "CancelQuery", packed(sql.ActionCancelQueryRequest(info=polled.info.SerializeToString()))
    )
    assert answer == pack(sql.ActionCancelQueryResult(result="CANCEL_RESULT_CANCELLED"))
    wait_until("ended", lambda: not running_queries(gateway, "the old way"))


@pytest.mark.parametrize("action", ["CancelFlightInfo", "CancelQuery", "RenewFlightEndpoint"])
def test_nonsense_is_refused(client: RawClient, action: str) -> None:
    with pytest.raises(grpc.RpcError, match=r"PARSE_ERROR|INVALID_ARGUMENTS|NOT_SUPPORTED"):
        client.act(action, flight.Ticket(ticket=b"nonsense"))
