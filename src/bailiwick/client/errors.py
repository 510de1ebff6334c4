"""What a client of ours can run into: a query that failed, or no gateway to ask."""


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
