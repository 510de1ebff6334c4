"""The taxonomy keeps its promises, and gRPC clients get all of it."""

import pytest

from bailiwick.errors import (
    MAY_HAVE_HAPPENED,
    MEANINGS,
    OUT_OF_MEMORY,
    Audience,
    BailiwickError,
    Code,
    TrinoType,
)

# The table of the wires, as it was agreed; a change here is a change for every client.
AGREED = """
SYNTAX_ERROR 42601 INVALID_ARGUMENT SYNTAX_ERROR 1 USER_ERROR 400 no full
PARSE_ERROR 42000 INVALID_ARGUMENT SYNTAX_ERROR 1 USER_ERROR 400 no full
SEMANTIC_ERROR 42000 INVALID_ARGUMENT GENERIC_USER_ERROR 0 USER_ERROR 400 no full
TYPE_MISMATCH 42804 INVALID_ARGUMENT TYPE_MISMATCH 58 USER_ERROR 400 no full
TABLE_NOT_FOUND 42P01 NOT_FOUND TABLE_NOT_FOUND 46 USER_ERROR 404 no full
COLUMN_NOT_FOUND 42703 INVALID_ARGUMENT COLUMN_NOT_FOUND 47 USER_ERROR 400 no full
SCHEMA_NOT_FOUND 3F000 NOT_FOUND SCHEMA_NOT_FOUND 45 USER_ERROR 404 no full
CATALOG_NOT_FOUND 3D000 NOT_FOUND CATALOG_NOT_FOUND 44 USER_ERROR 404 no full
VIEW_NOT_FOUND 42P01 NOT_FOUND TABLE_NOT_FOUND 46 USER_ERROR 404 no full
FUNCTION_NOT_FOUND 42883 NOT_FOUND FUNCTION_NOT_FOUND 6 USER_ERROR 400 no full
INVALID_ARGUMENTS 22023 INVALID_ARGUMENT INVALID_FUNCTION_ARGUMENT 7 USER_ERROR 400 no full
DUPLICATE_TABLE 42P07 ALREADY_EXISTS TABLE_ALREADY_EXISTS 50 USER_ERROR 409 no full
DUPLICATE_COLUMN 42701 INVALID_ARGUMENT COLUMN_ALREADY_EXISTS 51 USER_ERROR 400 no full
DIVISION_BY_ZERO 22012 INVALID_ARGUMENT DIVISION_BY_ZERO 8 USER_ERROR 400 no full
INVALID_CAST 22018 INVALID_ARGUMENT INVALID_CAST_ARGUMENT 9 USER_ERROR 400 no full
AUTHENTICATION_FAILED 28000 UNAUTHENTICATED PERMISSION_DENIED 4 USER_ERROR 401 no full
ACCESS_DENIED 42501 PERMISSION_DENIED PERMISSION_DENIED 4 USER_ERROR 403 no full
SESSION_EXPIRED 08003 UNAUTHENTICATED PERMISSION_DENIED 4 USER_ERROR 401 no full
EXECUTION_FAILED 38000 INTERNAL REMOTE_TASK_ERROR 65542 INTERNAL_ERROR 500 no scrubbed
QUERY_TIMEOUT 57014 DEADLINE_EXCEEDED EXCEEDED_TIME_LIMIT 131075 INSUFFICIENT_RESOURCES 504 yes full
QUERY_CANCELLED HY008 CANCELLED USER_CANCELED 3 USER_ERROR 499 no full
RESOURCE_EXHAUSTED 53000 RESOURCE_EXHAUSTED QUERY_QUEUE_FULL 131074 INSUFFICIENT_RESOURCES 429 yes full
CATALOG_ERROR 58000 INTERNAL GENERIC_INTERNAL_ERROR 65536 EXTERNAL 502 no generic
CATALOG_UNAVAILABLE 58030 UNAVAILABLE GENERIC_INTERNAL_ERROR 65536 EXTERNAL 503 yes generic
STORAGE_ERROR 58030 UNAVAILABLE GENERIC_INTERNAL_ERROR 65536 EXTERNAL 503 yes generic
COMMIT_CONFLICT 40001 ABORTED TRANSACTION_CONFLICT 17 USER_ERROR 409 yes full
CIRCUIT_BREAKER_OPEN 57P03 UNAVAILABLE NO_NODES_AVAILABLE 65541 INTERNAL_ERROR 503 yes generic
NOT_SUPPORTED 0A000 UNIMPLEMENTED NOT_SUPPORTED 13 USER_ERROR 400 no full
INTERNAL_ERROR XX000 INTERNAL GENERIC_INTERNAL_ERROR 65536 INTERNAL_ERROR 500 no generic
"""


@pytest.mark.parametrize("row", AGREED.strip().split("\n"), ids=lambda row: row.split()[0])
def test_a_code_means_on_every_wire_what_was_agreed(row: str) -> None:
    code, sqlstate, grpc_name, trino_name, number, trino_type, http, retryable, audience = row.split()
    meaning = MEANINGS[Code(code)]
    assert (meaning.sqlstate, meaning.grpc, meaning.http) == (sqlstate, grpc_name, int(http))
    assert (meaning.trino.name, meaning.trino.number) == (trino_name, int(number))
    assert (meaning.trino.type, meaning.audience) == (TrinoType(trino_type), Audience(audience))
    assert meaning.retryable is (retryable == "yes")


def test_there_are_29_codes_and_each_has_one_meaning() -> None:
    assert len(Code) == 29
    assert list(MEANINGS) == list(Code)
    assert len(AGREED.strip().split("\n")) == 29
    assert all(meaning.sentence.endswith(".") for meaning in MEANINGS.values())


def test_the_tree_in_the_docstring_names_every_code_once() -> None:
    import bailiwick.errors

    words = (bailiwick.errors.__doc__ or "").split()
    assert [words.count(code.value) for code in Code] == [1] * len(Code)


def test_an_error_takes_sqlstate_and_retryable_from_its_code() -> None:
    error = BailiwickError(Code.QUERY_TIMEOUT, "too slow")
    assert (error.sqlstate, error.retryable) == ("57014", True)


def test_one_failure_may_be_less_retryable_than_its_code() -> None:
    error = BailiwickError(Code.STORAGE_ERROR, "full", sqlstate="53100", retryable=False)
    assert (error.sqlstate, error.retryable) == ("53100", False)


def test_an_unknown_outcome_is_never_retryable() -> None:
    error = BailiwickError(Code.COMMIT_CONFLICT, "?", retry_after_s=1).outcome_unknown("key-1")
    assert error.outcome_unknown().message == f"? {MAY_HAVE_HAPPENED}"
    assert not error.retryable
    assert error.retry_after_s is None
    assert error.details == {"outcome": "unknown", "idempotency_key": "key-1"}


@pytest.mark.parametrize(
    ("details", "retryable", "trino", "http"),
    [
        ({}, None, "QUERY_QUEUE_FULL", 429),
        ({"reason": OUT_OF_MEMORY}, None, "EXCEEDED_LOCAL_MEMORY_LIMIT", 503),
        ({"reason": "limit"}, False, "EXCEEDED_LOCAL_MEMORY_LIMIT", 429),
    ],
)
def test_queues_and_memory_have_names_of_their_own_in_trino(
    details: dict[str, str], retryable: bool | None, trino: str, http: int
) -> None:
    error = BailiwickError(Code.RESOURCE_EXHAUSTED, "no", details=details, retryable=retryable)
    assert (error.trino.name, error.http) == (trino, http)


def test_an_error_reads_as_code_and_message() -> None:
    assert str(BailiwickError(Code.TABLE_NOT_FOUND, "no such table")) == "TABLE_NOT_FOUND: no such table"
