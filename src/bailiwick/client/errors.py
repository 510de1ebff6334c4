"""What a client of ours can run into: a query that failed, or no gateway to ask."""

import grpc

CODE_HEADER = "bailiwick-error-code"
QUERY_ID_HEADER = "bailiwick-query-id"
SQLSTATE_HEADER = "bailiwick-sqlstate"
RETRYABLE_HEADER = "bailiwick-retryable"


class ClientError(Exception):
    """Any failure of this client."""


class Unreachable(ClientError):  # noqa: N818  (it says what is the case)
    """Nobody answers at the address, or it is no address."""


class QueryFailed(ClientError):  # noqa: N818
    """The gateway refused or the query failed. `code` is one of the documented error codes."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        sqlstate: str | None = None,
        retryable: bool = False,
        query_id: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.sqlstate = sqlstate
        self.retryable = retryable
        self.query_id = query_id


def from_grpc(error: grpc.aio.AioRpcError, address: str) -> ClientError:
    """Our error, from the trailing metadata; or what gRPC itself says, where nobody of ours answered."""
    trailing = {key: value for key, value in (error.trailing_metadata() or ()) if isinstance(value, str)}
    code = trailing.get(CODE_HEADER)
    if code is None and error.code() is grpc.StatusCode.UNAVAILABLE:
        return Unreachable(f"no gateway answers at {address}")
    return QueryFailed(
        code or error.code().name,
        error.details() or "",
        sqlstate=trailing.get(SQLSTATE_HEADER),
        retryable=trailing.get(RETRYABLE_HEADER) == "true",
        query_id=trailing.get(QUERY_ID_HEADER),
    )
