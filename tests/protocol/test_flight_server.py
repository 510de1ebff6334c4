"""The gRPC and HTTP ports themselves: addresses, health, limits, stopping."""

import asyncio
import socket
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import httpx
import pytest
from flight_door import Door, descriptor, serving
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.service import SERVICE
from bailiwick.doors.grpc_server import GrpcLimits, GrpcServer
from bailiwick.doors.http.health import health_app
from bailiwick.doors.http.server import HttpServer
from bailiwick.doors.listening import CannotListenError, listen
from bailiwick.testing import generate

LOOPBACK = ("127.0.0.1", "::1")
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with serving() as running:
        yield running


def test_the_generated_modules_are_what_the_protocol_files_give() -> None:
    assert generate.stale() == []


def test_one_port_is_bound_on_every_address() -> None:
    sockets = listen(LOOPBACK, 0)
    try:
        assert {each.getsockname()[1] for each in sockets} == {sockets[0].getsockname()[1]}
        assert [each.getsockname()[0] for each in sockets] == list(LOOPBACK)
    finally:
        for each in sockets:
            each.close()


def test_a_port_in_use_on_any_address_is_refused() -> None:
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListenError, match=f"port {port} is in use on ::1"):
            listen(LOOPBACK, port)


def test_an_address_that_this_machine_does_not_have_is_left_out_but_not_the_last_one() -> None:
    (only,) = listen(("127.0.0.1", "192.0.2.1"), 0)
    only.close()
    with pytest.raises(CannotListenError, match=r"cannot listen on 192\.0\.2\.1"):
        listen(("192.0.2.1",), 0)


async def health(port: int, service: str) -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
        return int(answer.status)


async def test_health_follows_readiness_and_needs_no_credentials() -> None:
    server = GrpcServer(LOOPBACK, 0, [], GrpcLimits(), services=[SERVICE])
    await server.start()
    try:
        for service in ("", SERVICE):
            assert await health(server.port, service) == NOT_SERVING
            await server.set_ready(True)
            assert await health(server.port, service) == SERVING
            await server.set_ready(False)
            assert await health(server.port, service) == NOT_SERVING
    finally:
        await server.stop(0)


async def test_a_second_server_on_the_same_port_is_refused(door: Door) -> None:
    second = GrpcServer(LOOPBACK, door.port, [], GrpcLimits())
    with pytest.raises(CannotListenError, match=f"port {door.port} is in use"):
        await second.start()


async def test_stopping_lets_a_running_call_end() -> None:
    async with serving() as door:
        held = door.queries.hold("numbers")
        info = await door.unary("GetFlightInfo", descriptor(sql.CommandStatementQuery(query="numbers")))
        ticket = flight.FlightInfo.FromString(info).endpoint[0].ticket.SerializeToString()
        fetching = asyncio.create_task(door.stream("DoGet", ticket))
        await door.queries.started.wait()
        stopping = asyncio.create_task(door.server.stop(30))
        held.set()
        assert len(await fetching) == 2
        await stopping


async def test_stopping_ends_what_does_not_end_by_itself() -> None:
    async with serving() as door:
        door.queries.hold("call")
        command = descriptor(sql.CommandStatementQuery(query="call"))
        asking = asyncio.create_task(door.unary("GetFlightInfo", command))
        await door.queries.started.wait()
        await door.server.stop(0.05)
        with pytest.raises(grpc.aio.AioRpcError):
            await asking
        await door.queries.runs[0].ended.wait()
        assert door.queries.runs[0].cancelled


async def test_http_says_alive_ready_and_the_numbers() -> None:
    ready = [False]
    app = health_app(is_ready=lambda: ready[0], metrics=lambda: b"x 1\n")
    server = HttpServer(LOOPBACK, 0, app)
    await server.start()
    try:
        for host in ("127.0.0.1", "[::1]"):
            async with httpx.AsyncClient(base_url=f"http://{host}:{server.port}", trust_env=False) as client:
                ready[0] = False
                assert (await client.get("/healthz")).status_code == 200
                assert (await client.get("/readyz")).status_code == 503
                ready[0] = True
                assert (await client.get("/readyz")).status_code == 200
                metrics = await client.get("/metrics")
                assert metrics.text == "x 1\n"
                assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
                assert (await client.get("/elsewhere")).status_code == 404
                assert (await client.post("/healthz")).status_code == 405
    finally:
        await server.stop(1)
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{server.port}/healthz")


async def test_http_on_a_port_in_use_is_refused(door: Door) -> None:
    with pytest.raises(CannotListenError):
        await HttpServer(LOOPBACK, door.port, health_app(is_ready=lambda: True, metrics=bytes)).start()
