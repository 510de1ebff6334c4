"""A line carries bytes unchanged until it is told to break, and then breaks in the way it was told."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from bailiwick.testing.asking import wait_until
from bailiwick.testing.line import Line, laid

SHORT_S = 0.3
"""How long nothing must come for it to count as nothing."""


def _echo(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while data := connection.recv(1 << 16):
            connection.sendall(data)


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=_echo, args=(server.accept()[0],)).start()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture
def line(echo_port: int) -> Iterator[Line]:
    with laid(lambda: ("127.0.0.1", echo_port)) as carried:
        yield carried


@contextmanager
def connected(line: Line) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", line.port), timeout=10) as client:
        yield client


def echoed(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return received(client, len(data))


def received(client: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (more := client.recv(1 << 16)):
        got += more
    return got


def test_what_goes_in_comes_out(line: Line) -> None:
    data = bytes(range(256)) * 8_000
    with connected(line) as client:
        threading.Thread(target=client.sendall, args=(data,)).start()
        assert received(client, len(data)) == data
    assert line.connections == 1


def test_a_reset_breaks_what_is_there_and_lets_new_ones_pass(line: Line) -> None:
    with connected(line) as client:
        assert echoed(client, b"before") == b"before"
        line.reset()
        assert is_broken(client)
    with connected(line) as client:
        assert echoed(client, b"again") == b"again"


def test_a_cut_line_refuses_until_it_is_mended(line: Line) -> None:
    with connected(line) as client:
        line.cut()
        assert is_broken(client)
    assert not passes(line)
    line.mend()
    with connected(line) as client:
        assert echoed(client, b"whole") == b"whole"


def passes(line: Line) -> bool:
    """Whether a new connection is of use. One that is broken may be so before it is made."""
    try:
        with connected(line) as client:
            return not is_broken(client)
    except ConnectionError:
        return False


def is_broken(client: socket.socket) -> bool:
    try:
        return not echoed(client, b"anyone?")
    except ConnectionError:
        return True


def test_a_hanging_line_keeps_what_it_got_and_delivers_it_when_it_is_mended(line: Line) -> None:
    with connected(line) as old:
        assert echoed(old, b"before") == b"before"
        line.hang()
        with connected(line) as new:
            for client in (old, new):
                client.sendall(b"kept")
                client.settimeout(SHORT_S)
                with pytest.raises(TimeoutError):
                    client.recv(1)
                client.settimeout(10)
            line.mend()
            assert received(old, 4) == b"kept"
            assert received(new, 4) == b"kept"


def test_a_slow_line_keeps_to_its_pace_and_loses_nothing(line: Line) -> None:
    data = bytes(range(256)) * 128
    with connected(line) as client:
        line.slow(bytes_per_s=100_000)
        started = time.monotonic()
        assert echoed(client, data) == data
        # There and back: each way takes a third of a second.
        assert time.monotonic() - started > 0.3
        line.mend()


def test_latency_delays_everything_once_and_not_each_part(line: Line) -> None:
    data = bytes(1 << 18)
    with connected(line) as client:
        line.slow(latency_s=0.2)
        started = time.monotonic()
        threading.Thread(target=client.sendall, args=(data,)).start()
        assert received(client, len(data)) == data
        # Sixteen chunks each way would take six seconds one after the other.
        assert 0.4 <= time.monotonic() - started < 4.0


def test_a_line_to_nobody_breaks_at_once(echo_port: int) -> None:
    with laid(lambda: ("127.0.0.1", 1)) as line:
        try:
            with connected(line) as client:
                assert is_broken(client)
        except ConnectionResetError:
            pass  # So quickly that not even the connection was seen.


def test_a_flapping_line_breaks_again_and_again_until_it_is_mended(line: Line) -> None:
    line.flap(every_s=0.02)
    for _ in range(2):
        wait_until("whole", lambda: passes(line))
        wait_until("cut", lambda: not passes(line))
    line.mend()
    with connected(line) as client:
        assert echoed(client, b"whole") == b"whole"
        client.settimeout(SHORT_S)
        with pytest.raises(TimeoutError):
            client.recv(1)
