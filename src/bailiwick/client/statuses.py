"""gRPC statuses as errors of this client."""

import grpc
import grpc.aio

from bailiwick.client.errors import ClientError, QueryFailed, Unreachable

CODE_HEADER = "bailiwick-error-code"
QUERY_ID_HEADER = "bailiwick-query-id"
SQLSTATE_HEADER = "bailiwick-sqlstate"
RETRYABLE_HEADER = "bailiwick-retryable"


def from_grpc(error: grpc.aio.AioRpcError, address: str) -> ClientError:
    """Our error, from the trailing metadata; or what gRPC itself says, where nobody of ours answered."""
    trailing = {key: value for key, value in (error.trailing_metadata() or ()) if isinstance(value, str)}
    code = trailing.get(CODE_HEADER)
    if code is None and error.code() is grpc.StatusCode.UNAVAILABLE:
        return Unreachable(f"no gateway answers at {address}")
    query_id = trailing.get(QUERY_ID_HEADER)
    message = (error.details() or "").removeprefix(f"{code}: ").removesuffix(f" (query {query_id})")
    return QueryFailed(
        code or error.code().name,
        message,
        sqlstate=trailing.get(SQLSTATE_HEADER),
        retryable=trailing.get(RETRYABLE_HEADER) == "true",
        query_id=query_id,
    )
