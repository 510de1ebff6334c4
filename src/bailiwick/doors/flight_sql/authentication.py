"""A name and a password, as drivers send them with Handshake or in a Basic header.

What every gRPC call shows is read by `doors/grpc_credentials.py`; what follows from it is for `caller.py`.
All failures are AUTHENTICATION_FAILED, and none repeats what was sent.
"""

import base64
import binascii
from collections.abc import AsyncIterator

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.doors.grpc_credentials import Context, authorization, failed, has_authorization


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
