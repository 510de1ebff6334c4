"""Credentials as drivers send them: a bearer token with every call, a name and password with Handshake. And
on whose behalf they are sent.

This reads headers; whether a credential is good is for the authenticator to say, and what follows from it for
`caller.py`. All failures are AUTHENTICATION_FAILED, and none repeats what was sent.
"""

import base64
import binascii
from collections.abc import AsyncIterator
from typing import Any

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import Peer
from bailiwick.identity.impersonation import ON_BEHALF_OF_HEADER
from bailiwick.identity.users import NAME_CHARS_MAX

Context = Any
"""A grpc.aio.ServicerContext; grpc ships no types."""


async def password_of(requests: AsyncIterator[bytes], context: Context) -> tuple[str, str]:
    """Name and password of a Handshake: from the header, or from the first message."""
    if has_authorization(context):
        scheme, credential = authorization(context)
        if scheme != "basic":
            raise failed("A handshake needs a name and a password.")
        return basic_credentials(credential)
    first = await anext(aiter(requests), None)
    if first is None:
        raise failed("No credentials were sent.")
    basic = parse(flight.BasicAuth, parse(flight.HandshakeRequest, first).payload)
    return basic.username, basic.password


def basic_credentials(encoded: str) -> tuple[str, str]:
    """Name and password from a Basic header. Some drivers leave out base64's padding."""
    try:
        text = base64.b64decode(
            encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4), validate=True
        ).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError) as error:
        raise failed("The Basic credentials are not well-formed.") from error
    name, separator, password = text.partition(":")
    if not separator or not name:
        raise failed("The Basic credentials are not well-formed.")
    return name, password


def peer_of(context: Context) -> Peer:
    return Peer.parse(context.peer() or "")


def has_authorization(context: Context) -> bool:
    return any(key in ("authorization", "auth-token-bin") for key, _ in context.invocation_metadata() or ())


def authorization(context: Context) -> tuple[str, str]:
    """Scheme, in lower case, and credential.

    Drivers that log in by message send the bare token as `auth-token-bin`.
    """
    metadata = context.invocation_metadata() or ()
    values = [value for key, value in metadata if key == "authorization"]
    if len(values) > 1:
        raise failed("Several credentials were sent.")
    if values:
        scheme, _, credential = _text(values[0]).partition(" ")
        if scheme.lower() not in ("basic", "bearer") or not credential:
            raise failed("The authorization header must be Basic or Bearer.")
        return scheme.lower(), credential.strip()
    for key, value in metadata:
        if key == "auth-token-bin":
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
