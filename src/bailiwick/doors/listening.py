"""One port on several addresses: `127.0.0.1` and `::1` are two sockets, and clients expect both to answer."""

import errno
import socket
from collections.abc import Sequence
from contextlib import ExitStack

_ATTEMPTS_MAX = 50
_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


class CannotListenError(Exception):
    """The addresses and the port cannot be had. The message says which and why."""


def listen(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """Bound sockets, one an address, all on the same port; port 0 takes one that is free on all.

    An address of a family this machine does not have (no IPv6, often in containers) is left out, as long as
    one remains. The sockets are bound and not listening yet: nobody connects before there is an answer.
    """
    for _ in range(_ATTEMPTS_MAX):
        try:
            return _bind_all(addresses, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CannotListenError(f"cannot listen on {error.filename}: {error.strerror}") from error
            if port != 0:
                raise CannotListenError(f"port {port} is in use on {error.filename}") from error
    raise CannotListenError(f"no port is free on all of {', '.join(addresses)}")


def shown(address: str, port: int) -> str:
    """`127.0.0.1:50051`, `[::1]:50051`."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _bind_all(addresses: Sequence[str], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    with ExitStack() as undo:
        missing: OSError | None = None
        for address in addresses:
            try:
                bound = _bind(address, sockets[0].getsockname()[1] if sockets else port)
            except OSError as error:
                error.filename = address
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
                continue
            undo.callback(bound.close)
            sockets.append(bound)
        if not sockets and missing is not None:
            raise missing
        undo.pop_all()
    return sockets


def _bind(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound
