"""What Spark itself said when it refused, kept beside what we make of it.

Most callers want only our error. A door whose clients know Spark's own errors tells those, after it has taken
out what they must not learn: nothing in here is fit for a client as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from bailiwick.errors import BailiwickError


@dataclass(frozen=True, slots=True)
class SparkAnswer:
    """A refusal as it came over the wire."""

    status: grpc.StatusCode
    message: str
    metadata: Mapping[str, str]
    """Of Spark's ErrorInfo: `errorClass`, `sqlState`, `messageParameters`, `classes` and the like."""
    errors: tuple[Any, ...] = ()
    """The error and what caused it, outermost first, as `FetchErrorDetailsResponse.Error`; none if Spark
    had forgotten them."""


class SparkRefusal(BailiwickError):  # noqa: N818  (it says what Spark did)
    """An error of ours that is an answer of Spark's. `spark` is for the door that knows what to leave out."""

    def __init__(self, error: BailiwickError, spark: SparkAnswer) -> None:
        super().__init__(
            error.code,
            error.message,
            sqlstate=error.sqlstate,
            retryable=error.retryable,
            position=error.position,
            details=error.details,
            retry_after_s=error.retry_after_s,
            query_id=error.query_id,
            cause_text=error.cause_text,
        )
        self.spark = spark
