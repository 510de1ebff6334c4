"""The gRPC port: whatever doors speak gRPC, and the standard health service, behind one listener.

It knows no door. Health is the one service that answers without credentials, and it says SERVING only while
the gateway says it is ready.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from bailiwick.doors.grpc_tracing import TracedHandler
from bailiwick.doors.listening import CannotListenError, listen, shown
from bailiwick.doors.tls import Tls
from bailiwick.telemetry.traces import NO_TRACES, Traces

_ATTEMPTS_MAX = 10
_ENVELOPE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    receive_bytes_max: int = 16 << 20
    """The largest message a client may send."""
    send_bytes_max: int = 16 << 20
    """The largest piece of a result; its envelope comes on top."""
    metadata_bytes_max: int = 32 << 10
    streams_per_connection_max: int = 1_000
    keepalive_s: float = 60.0
    """An idle connection is probed this often, so that dead clients are noticed."""
    keepalive_timeout_s: float = 20.0


class GrpcServer:
    """Listens on every address on the same port. Start it once, stop it once."""

    def __init__(
        self,
        addresses: Sequence[str],
        port: int,
        handlers: Sequence[grpc.GenericRpcHandler],
        limits: GrpcLimits,
        *,
        services: Sequence[str] = (),
        tls: Tls | None = None,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._wanted = (tuple(addresses), port)
        self._handlers = tuple(TracedHandler(each, traces) if traces.is_on else each for each in handlers)
        self._limits = limits
        self._services = ("", *services)
        self._tls = tls
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self.addresses: tuple[str, ...] = ()
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises CannotListenError; clients are told NOT_SERVING until `set_ready`."""
        await self.set_ready(False)
        addresses, wanted = self._wanted
        for _ in range(_ATTEMPTS_MAX):
            found, port = _found(addresses, wanted)
            server = self._build()
            try:
                for address in found:
                    self._add_port(server, shown(address, port))
            except RuntimeError as error:
                # gRPC binds for itself, so somebody may have been quicker between our look and its.
                if wanted != 0:
                    raise CannotListenError(f"port {wanted} is in use") from error
                continue
            await server.start()
            self._server, self.addresses, self.port = server, found, port
            return
        raise CannotListenError(f"no port is free on all of {', '.join(addresses)}")

    async def set_ready(self, ready: bool) -> None:
        serving, not_serving = (
            health_pb2.HealthCheckResponse.SERVING,
            health_pb2.HealthCheckResponse.NOT_SERVING,
        )
        for service in self._services:
            await self._health.set(service, serving if ready else not_serving)

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, let running ones go on for `grace_s`, then end them."""
        await self._health.enter_graceful_shutdown()
        if self._server is not None:
            await self._server.stop(grace_s)

    def _add_port(self, server: grpc.aio.Server, address: str) -> None:
        if self._tls is None:
            server.add_insecure_port(address)
        else:
            server.add_secure_port(address, self._tls.grpc_credentials())

    def _build(self) -> grpc.aio.Server:
        limits = self._limits
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", limits.receive_bytes_max),
                ("grpc.max_send_message_length", limits.send_bytes_max + _ENVELOPE_BYTES),
                ("grpc.max_metadata_size", limits.metadata_bytes_max),
                ("grpc.max_concurrent_streams", limits.streams_per_connection_max),
                ("grpc.keepalive_time_ms", int(limits.keepalive_s * 1000)),
                ("grpc.keepalive_timeout_ms", int(limits.keepalive_timeout_s * 1000)),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                # Two gateways must not share a port without knowing.
                ("grpc.so_reuseport", 0),
            ]
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        server.add_generic_rpc_handlers(self._handlers)
        return server


def _found(addresses: Sequence[str], port: int) -> tuple[tuple[str, ...], int]:
    """The addresses this machine has, and a port that is free on all of them."""
    sockets = listen(addresses, port)
    try:
        return tuple(each.getsockname()[0] for each in sockets), sockets[0].getsockname()[1]
    finally:
        for each in sockets:
            each.close()
