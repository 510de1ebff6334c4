"""gRPC statuses as errors of this client."""

import grpc
import grpc.aio

from bailiwick.client.address import Address
from bailiwick.client.errors import ClientError, QueryFailed, Unreachable

CODE_HEADER = "bailiwick-error-code"
QUERY_ID_HEADER = "bailiwick-query-id"
SQLSTATE_HEADER = "bailiwick-sqlstate"
RETRYABLE_HEADER = "bailiwick-retryable"


_IN_VAIN = (
    ("CERTIFICATE_VERIFY_FAILED", "the certificate of {} is not trusted: name its authority with --ca"),
    ("Hostname Verification", "the certificate of {} is made out to another name"),
    ("WRONG_VERSION_NUMBER", "what answers at {} does not speak TLS: try --no-tls, or grpc://"),
    ("Tls handshake failed", "no TLS with {}: {}"),
    ("Ssl handshake failed", "no TLS with {}: {}"),
    ("Socket closed", "{} hangs up: does it want a client certificate? Give --client-cert and --client-key"),
)
"""What gRPC says of a TLS connection that did not come about, and what we say."""


def from_grpc(error: grpc.aio.AioRpcError, address: Address) -> ClientError:
    """Our error, from the trailing metadata; or what gRPC itself says, where nobody of ours answered."""
    trailing = {key: value for key, value in (error.trailing_metadata() or ()) if isinstance(value, str)}
    code = trailing.get(CODE_HEADER)
    if code is None and error.code() is grpc.StatusCode.UNAVAILABLE:
        return Unreachable(_why_unreachable(error.details() or "", address))
    query_id = trailing.get(QUERY_ID_HEADER)
    message = (error.details() or "").removeprefix(f"{code}: ").removesuffix(f" (query {query_id})")
    return QueryFailed(
        code or error.code().name,
        message,
        sqlstate=trailing.get(SQLSTATE_HEADER),
        retryable=trailing.get(RETRYABLE_HEADER) == "true",
        query_id=query_id,
    )


def _why_unreachable(details: str, address: Address) -> str:
    if not address.is_encrypted:
        hint = (
            " in plaintext; if it speaks TLS, say --tls or grpc+tls://" if "Socket closed" in details else ""
        )
        return f"no gateway answers at {address}{hint}"
    for telling, sentence in _IN_VAIN:
        if telling in details:
            return sentence.format(address, details.rpartition("handshake failed")[2].strip(" :"))
    return f"no gateway answers at {address}"
