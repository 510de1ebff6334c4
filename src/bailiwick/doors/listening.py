"""Where the ports are: one port on several addresses, and which addresses may go without encryption.

`127.0.0.1` and `::1` are two sockets, and clients expect both to answer.
"""

import errno
import ipaddress
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from bailiwick.errors import CannotStartError

_ATTEMPTS_MAX = 50
_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


class CannotListenError(CannotStartError):
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


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address. A name other than `localhost` counts as outside."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def plaintext_problem(addresses: Sequence[str], *, is_encrypted: bool, is_allowed: bool) -> str | None:
    """Why these addresses may not be served like that; None if they may.

    Passwords and results cross the wire as they are where there is no TLS. On loopback nobody listens in;
    anywhere else somebody must have said that it is meant.
    """
    outside = [address for address in addresses if not is_loopback(address)]
    if is_encrypted or is_allowed or not outside:
        return None
    return (
        f"{', '.join(outside)} would be served without encryption: give tls.certificate_file and "
        'tls.key_file, or say server.plaintext = "allowed" if something in front of the gateway encrypts'
    )


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
