"""What a gRPC call shows of its caller: its credential, on whose behalf it is sent, and from where.

This reads headers, for every door that speaks gRPC; whether a credential is good is for the authenticator to
say. All failures are AUTHENTICATION_FAILED, and none repeats what was sent.
"""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import Peer
from bailiwick.identity.impersonation import ON_BEHALF_OF_HEADER
from bailiwick.identity.users import NAME_CHARS_MAX

Context = Any
"""A grpc.aio.ServicerContext; grpc ships no types."""

AUTHORIZATION: Final = "authorization"
BARE_TOKEN: Final = "auth-token-bin"  # noqa: S105  (a header's name)
"""Drivers that log in by message send the token alone under this name."""

PEERS_REMEMBERED_MAX: Final = 4_096


def peer_of(context: Context) -> Peer:
    return _peer(context.peer() or "")


@lru_cache(maxsize=PEERS_REMEMBERED_MAX)
def _peer(text: str) -> Peer:
    return Peer.parse(text)


@lru_cache(maxsize=PEERS_REMEMBERED_MAX)
def place_of(peer: Peer) -> str:
    """Where the client is: `loopback` or `remote`."""
    try:
        return "loopback" if ipaddress.ip_address(peer.address).is_loopback else "remote"
    except ValueError:
        return "remote"


def has_authorization(context: Context) -> bool:
    return any(key in (AUTHORIZATION, BARE_TOKEN) for key, _ in context.invocation_metadata() or ())


def authorization(context: Context, headers: Sequence[str] = (AUTHORIZATION,)) -> tuple[str, str]:
    """Scheme, in lower case, and credential, from one of `headers` or sent as a bare token."""
    metadata = context.invocation_metadata() or ()
    values = [value for key, value in metadata if key in headers]
    if len({_text(value) for value in values}) > 1:
        raise failed("Several credentials were sent.")
    if values:
        scheme, _, credential = _text(values[0]).partition(" ")
        if scheme.lower() not in ("basic", "bearer") or not credential:
            raise failed("The authorization header must be Basic or Bearer.")
        return scheme.lower(), credential.strip()
    for key, value in metadata:
        if key == BARE_TOKEN:
            return "bearer", _text(value)
    raise failed("No credentials were sent.")


def on_behalf_of(context: Context) -> str | None:
    """Whom the caller says to act for; None if for themselves.

    Anything but one name is refused: whoever sends the header does not mean to act for themselves.
    """
    values = [value for key, value in context.invocation_metadata() or () if key == ON_BEHALF_OF_HEADER]
    if not values:
        return None
    name = _text(values[0])
    if len(values) > 1 or not 0 < len(name) <= NAME_CHARS_MAX:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS, f"The header {ON_BEHALF_OF_HEADER} must be there once and name one user."
        )
    return name


def _text(value: str | bytes) -> str:
    try:
        return value if isinstance(value, str) else value.decode()
    except UnicodeDecodeError as error:
        raise failed("The credentials are not text.") from error


def failed(message: str) -> BailiwickError:
    return BailiwickError(Code.AUTHENTICATION_FAILED, message)
