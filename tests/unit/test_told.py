"""What a client was told is our code, wherever the driver put it; and never a code that nobody said."""

import pyarrow as pa
from adbc_driver_manager import AdbcStatusCode
from adbc_driver_manager.dbapi import OperationalError

from bailiwick.testing.told import CONNECTION_LOST, Told


def adbc_error(message: str, details: list[tuple[str, bytes]]) -> OperationalError:
    return OperationalError(message, status_code=AdbcStatusCode.IO, details=details)


def test_a_code_among_the_details_is_taken() -> None:
    details = [("bailiwick-error-code", b"QUERY_TIMEOUT"), ("bailiwick-retryable", b"true")]
    told = Told.by(adbc_error("IO: too late", details))
    assert (told.code, told.may_retry) == ("QUERY_TIMEOUT", True)


def test_a_code_in_the_message_is_taken_where_there_are_no_details() -> None:
    told = Told.by(pa.ArrowInvalid("[FlightSQL] EXECUTION_FAILED: The engine was lost (Internal; DoGet)"))
    assert (told.code, told.may_retry) == ("EXECUTION_FAILED", False)


def test_what_only_looks_like_a_code_is_none() -> None:
    for message in ("IO: connection refused", "no EXECUTION_FAILED here", "MY_CODE: nothing of ours"):
        assert Told.by(OSError(message)).code == CONNECTION_LOST
