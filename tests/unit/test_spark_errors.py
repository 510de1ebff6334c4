"""Every failure Spark knows of has a code of ours."""

import json
import zipfile
from collections import Counter
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.engines.spark_error_table import read, table
from bailiwick.engines.spark_errors import SparkFailure, classify
from bailiwick.errors import MAY_HAVE_HAPPENED, MEANINGS, Code

SPARK = "org.apache.spark.SparkException"
ICEBERG = "org.apache.iceberg.exceptions"
TASK = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 3.0 (TID 3) (worker-1.internal executor 2): "
)


def conditions() -> dict[str, Any]:
    """All of Spark's error conditions, from the jar that is pinned."""
    found = util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    [jar] = Path(found.origin).parent.glob("jars/spark-common-utils_2*.jar")
    with zipfile.ZipFile(jar) as archive:
        loaded: dict[str, Any] = json.loads(archive.read("error/error-conditions.json"))
    return loaded


CONDITIONS = conditions()
SUBCONDITIONS = [
    (f"{name}.{sub}", entry["sqlState"])
    for name, entry in CONDITIONS.items()
    for sub in entry.get("subClass", {})
]


def code_of(condition: str, sqlstate: str | None) -> Code:
    return classify(SparkFailure("said Spark", error_class=condition, sqlstate=sqlstate)).code


def test_none_of_sparks_conditions_is_unmapped_by_accident() -> None:
    counts = Counter(code_of(name, entry.get("sqlState")) for name, entry in CONDITIONS.items())
    assert len(CONDITIONS) == 1247
    assert sum(counts.values()) == 1247
    print(dict(counts.most_common()))  # noqa: T201 - shown by `pytest -s`, for whoever moves to the next Spark
    expected_at_least = {
        Code.SEMANTIC_ERROR: 300,
        Code.EXECUTION_FAILED: 300,
        Code.INVALID_ARGUMENTS: 100,
        Code.NOT_SUPPORTED: 80,
        Code.SYNTAX_ERROR: 30,
        Code.TYPE_MISMATCH: 30,
        Code.INVALID_CAST: 20,
        Code.STORAGE_ERROR: 15,
        Code.RESOURCE_EXHAUSTED: 15,
        Code.COLUMN_NOT_FOUND: 10,
    }
    assert {code: counts[code] >= least for code, least in expected_at_least.items()} == dict.fromkeys(
        expected_at_least, True
    )


def test_what_is_an_internal_error_was_decided_to_be_one() -> None:
    """Nothing falls through to INTERNAL_ERROR: each one is named in the table or has an internal SQLSTATE."""
    internal = {
        name
        for name, entry in CONDITIONS.items()
        if code_of(name, entry.get("sqlState")) is Code.INTERNAL_ERROR
    }
    named = {name for name in internal if table().of_condition(name) is Code.INTERNAL_ERROR}
    by_sqlstate = {
        name for name in internal if str(CONDITIONS[name].get("sqlState"))[:2] in ("F0", "HY", "XX")
    }
    assert internal == named | by_sqlstate
    assert len(internal) < 40


def test_every_entry_of_the_table_names_something_spark_has() -> None:
    names = {*CONDITIONS, *(name for name, _ in SUBCONDITIONS)}
    known = table()
    assert [name for name in (*known.conditions, *known.legacy) if name not in names] == []
    prefixes = [prefix for prefix, _ in (*known.condition_prefixes, *known.legacy_prefixes)]
    assert [prefix for prefix in prefixes if not any(name.startswith(prefix) for name in names)] == []
    sqlstates = {str(entry.get("sqlState")) for entry in CONDITIONS.values()}
    ours_too = {meaning.sqlstate for meaning in MEANINGS.values()}
    assert [
        state for state in known.sqlstates if not any(s.startswith(state) for s in sqlstates | ours_too)
    ] == []


def test_no_entry_of_the_table_repeats_what_the_sqlstate_says_anyway() -> None:
    known = table()
    needless = [
        name
        for name, code in known.conditions.items()
        if "." not in name
        and known.of_sqlstate(CONDITIONS[name].get("sqlState") or "") is code
        and name not in known.details
    ]
    assert needless == []


def test_an_entry_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="stands under"):
        read({"SYNTAX_ERROR": {"conditions": ["A"]}, "PARSE_ERROR": {"conditions": ["A"]}})


@pytest.mark.parametrize(
    ("condition", "sqlstate", "code"),
    [
        ("PARSE_SYNTAX_ERROR", "42601", Code.SYNTAX_ERROR),
        ("PARSE_EMPTY_STATEMENT", "42617", Code.SYNTAX_ERROR),
        ("TABLE_OR_VIEW_NOT_FOUND", "42P01", Code.TABLE_NOT_FOUND),
        ("VIEW_NOT_FOUND", "42P01", Code.VIEW_NOT_FOUND),
        ("SCHEMA_NOT_FOUND", "42704", Code.SCHEMA_NOT_FOUND),
        ("CATALOG_NOT_FOUND", "42P08", Code.CATALOG_NOT_FOUND),
        ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", Code.COLUMN_NOT_FOUND),
        ("UNRESOLVED_ROUTINE", "42883", Code.FUNCTION_NOT_FOUND),
        ("UNRESOLVED_VARIABLE", "42883", Code.SEMANTIC_ERROR),
        ("SCHEMA_ALREADY_EXISTS", "42P06", Code.DUPLICATE_TABLE),
        ("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07", Code.DUPLICATE_TABLE),
        ("COLUMN_ALREADY_EXISTS", "42711", Code.DUPLICATE_COLUMN),
        ("DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", "42K09", Code.TYPE_MISMATCH),
        ("WRONG_NUM_ARGS.WITHOUT_SUGGESTION", "42605", Code.INVALID_ARGUMENTS),
        ("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000", Code.TYPE_MISMATCH),
        ("INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_COLUMNS", "KD000", Code.SEMANTIC_ERROR),
        ("DIVIDE_BY_ZERO", "22012", Code.DIVISION_BY_ZERO),
        ("ARITHMETIC_OVERFLOW", "22003", Code.INVALID_CAST),
        ("CAST_INVALID_INPUT", "22018", Code.INVALID_CAST),
        ("INVALID_ARRAY_INDEX", "22003", Code.INVALID_ARGUMENTS),
        ("UNSUPPORTED_FEATURE.TIME_TRAVEL", "0A000", Code.NOT_SUPPORTED),
        ("OPERATION_CANCELED", "HY008", Code.QUERY_CANCELLED),
        ("UNABLE_TO_ACQUIRE_MEMORY", "53200", Code.RESOURCE_EXHAUSTED),
        ("FAILED_TO_PARSE_TOO_COMPLEX", "54001", Code.RESOURCE_EXHAUSTED),
        ("FAILED_READ_FILE.FILE_NOT_EXIST", "KD001", Code.STORAGE_ERROR),
        ("USER_RAISED_EXCEPTION", "P0001", Code.SEMANTIC_ERROR),
        ("INTERNAL_ERROR", "XX000", Code.INTERNAL_ERROR),
        ("INVALID_HANDLE.SESSION_NOT_FOUND", "HY000", Code.EXECUTION_FAILED),
        ("A_CONDITION_OF_A_LATER_SPARK", "42999", Code.SEMANTIC_ERROR),
        ("A_CONDITION_OF_A_LATER_SPARK", "ZZ000", Code.INTERNAL_ERROR),
    ],
)
def test_a_condition_has_the_code_that_helps_its_reader(condition: str, sqlstate: str, code: Code) -> None:
    error = classify(SparkFailure("said Spark", error_class=condition, sqlstate=sqlstate))
    assert error.code is code
    assert error.sqlstate == sqlstate
    assert error.details["condition"] == condition


@pytest.mark.parametrize(
    ("exception", "message", "code"),
    [
        (f"{ICEBERG}.ForbiddenException", "Forbidden: not your table", Code.ACCESS_DENIED),
        (f"{ICEBERG}.NotAuthorizedException", "Not authorized: x", Code.CATALOG_ERROR),
        (f"{ICEBERG}.NoSuchTableException", "Table does not exist: s.t", Code.TABLE_NOT_FOUND),
        (f"{ICEBERG}.NoSuchViewException", "View does not exist: s.t", Code.VIEW_NOT_FOUND),
        (f"{ICEBERG}.NoSuchNamespaceException", "Namespace does not exist: s", Code.SCHEMA_NOT_FOUND),
        (f"{ICEBERG}.AlreadyExistsException", "Table already exists: s.t", Code.DUPLICATE_TABLE),
        (f"{ICEBERG}.NamespaceNotEmptyException", "Namespace s is not empty", Code.SEMANTIC_ERROR),
        (f"{ICEBERG}.CommitFailedException", "branch main has changed", Code.COMMIT_CONFLICT),
        (f"{ICEBERG}.CommitStateUnknownException", "Cannot determine", Code.COMMIT_CONFLICT),
        (f"{ICEBERG}.ServiceUnavailableException", "503", Code.CATALOG_UNAVAILABLE),
        (f"{ICEBERG}.ServiceFailureException", "500", Code.CATALOG_ERROR),
        (f"{ICEBERG}.RESTException", "Unable to process", Code.CATALOG_ERROR),
        (f"{ICEBERG}.RESTException", "Error occurred while processing GET request", Code.CATALOG_UNAVAILABLE),
        (f"{ICEBERG}.BadRequestException", "Malformed request", Code.INVALID_ARGUMENTS),
        (f"{ICEBERG}.RuntimeIOException", "Failed to read", Code.STORAGE_ERROR),
        (f"{ICEBERG}.NotFoundException", "File does not exist", Code.STORAGE_ERROR),
        (f"{ICEBERG}.ValidationException", "Cannot find field x", Code.SEMANTIC_ERROR),
        (f"{ICEBERG}.ValidationException", "Found conflicting files that match", Code.COMMIT_CONFLICT),
        ("java.lang.OutOfMemoryError", "Java heap space", Code.RESOURCE_EXHAUSTED),
        ("java.lang.UnsupportedOperationException", "Cannot do that", Code.NOT_SUPPORTED),
        ("java.lang.NullPointerException", "", Code.INTERNAL_ERROR),
        (SPARK, "Total size of serialized results of 1 tasks (95.8 MiB) is bigger than "
                "spark.driver.maxResultSize (20.0 MiB)", Code.RESOURCE_EXHAUSTED),
        (SPARK, TASK + "ExecutorLostFailure (executor 2 exited with 137)", Code.EXECUTION_FAILED),
        (SPARK, TASK + "java.lang.OutOfMemoryError: GC overhead limit exceeded", Code.RESOURCE_EXHAUSTED),
        (SPARK, TASK + "java.io.FileNotFoundException: /srv/warehouse/x.parquet", Code.STORAGE_ERROR),
        (SPARK, TASK + "java.io.IOException: No space left on device", Code.STORAGE_ERROR),
        (SPARK, TASK + f"{ICEBERG}.ForbiddenException: no", Code.ACCESS_DENIED),
        (SPARK, TASK + "java.lang.IllegalStateException: odd", Code.EXECUTION_FAILED),
        (SPARK, TASK + "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. "
                "SQLSTATE: 22012", Code.DIVISION_BY_ZERO),
        (SPARK, "SparkContext was shut down", Code.EXECUTION_FAILED),
        (SPARK, "something nobody has seen", Code.INTERNAL_ERROR),
    ],
)  # fmt: skip
def test_where_spark_gives_no_condition_exception_and_message_decide(
    exception: str, message: str, code: Code
) -> None:
    assert classify(SparkFailure(message, classes=(exception, "java.lang.Exception"))).code is code


def test_a_text_that_is_no_json_is_not_the_storages_fault() -> None:
    jackson = "com.fasterxml.jackson"
    classes = (
        f"{jackson}.databind.exc.MismatchedInputException",
        f"{jackson}.core.JsonProcessingException",
        "java.io.IOException",
    )
    assert classify(SparkFailure("No content to map", classes=classes)).code is Code.PARSE_ERROR


def test_a_legacy_condition_goes_by_its_exception_and_then_by_its_number() -> None:
    analysis = "org.apache.spark.sql.AnalysisException"
    by_exception = SparkFailure("x", error_class="_LEGACY_ERROR_TEMP_3080", classes=(analysis,))
    by_number = SparkFailure("x", error_class="_LEGACY_ERROR_TEMP_3080")
    assert classify(by_exception).code is Code.SEMANTIC_ERROR
    assert classify(by_number).code is Code.EXECUTION_FAILED
    assert "condition" not in classify(by_number).details


def test_a_failure_that_wraps_another_is_judged_by_what_it_wraps() -> None:
    conflict = SparkFailure("stale", classes=(f"{ICEBERG}.CommitFailedException",))
    failure = SparkFailure(
        "Writing job failed.", error_class="_LEGACY_ERROR_TEMP_2070", classes=(SPARK,), cause=conflict
    )
    error = classify(failure)
    assert error.code is Code.COMMIT_CONFLICT
    assert "Writing job failed." in (error.cause_text or "")
    assert "CommitFailedException: stale" in (error.cause_text or "")


@pytest.mark.parametrize(
    ("exception", "message", "code"),
    [
        ("CommitStateUnknownException", "?", Code.COMMIT_CONFLICT),
        ("RESTException", "Error occurred while processing POST request", Code.CATALOG_UNAVAILABLE),
    ],
)
def test_a_change_of_unknown_outcome_is_never_to_be_repeated(
    exception: str, message: str, code: Code
) -> None:
    error = classify(SparkFailure(message, classes=(f"{ICEBERG}.{exception}",)))
    assert (error.code, error.retryable, error.details["outcome"]) == (code, False, "unknown")
    assert error.message.count(MAY_HAVE_HAPPENED) == 1


@pytest.mark.parametrize(
    ("message", "reason", "retryable"),
    [
        ("x is bigger than spark.driver.maxResultSize (1 g)", "result_too_large", False),
        ("Java heap space", "memory", True),
        ("java.io.IOException: No space left on device", "disk_full", False),
    ],
)
def test_trying_again_is_advised_only_where_it_may_help(message: str, reason: str, retryable: bool) -> None:
    error = classify(SparkFailure(message))
    assert error.details["reason"] == reason
    assert error.retryable is retryable


def test_a_failure_is_read_from_the_error_info_of_a_call() -> None:
    metadata = {
        "errorClass": "UNRESOLVED_ROUTINE",
        "sqlState": "42883",
        "classes": '["org.apache.spark.sql.AnalysisException","java.lang.Exception"]',
        "messageParameters": '{"routineName":"`f`"}',
    }
    failure = SparkFailure.from_error_info("m", metadata)
    assert failure.classes == ("org.apache.spark.sql.AnalysisException", "java.lang.Exception")
    assert (failure.error_class, failure.sqlstate) == ("UNRESOLVED_ROUTINE", "42883")
    assert failure.parameters == {"routineName": "`f`"}


def test_metadata_that_was_cut_in_the_middle_counts_as_absent() -> None:
    failure = SparkFailure.from_error_info(
        "m", {"classes": '["a","b', "messageParameters": '{"a":', "sqlState": ""}
    )
    assert (failure.classes, failure.parameters, failure.sqlstate) == ((), {}, None)


@given(
    message=st.text(max_size=500),
    condition=st.none() | st.sampled_from(sorted(CONDITIONS)) | st.text(max_size=30),
    sqlstate=st.none() | st.text(max_size=6),
    classes=st.lists(st.text(max_size=60), max_size=3),
)
def test_classifying_never_raises_and_always_says_something(
    message: str, condition: str | None, sqlstate: str | None, classes: list[str]
) -> None:
    error = classify(SparkFailure(message, error_class=condition, sqlstate=sqlstate, classes=tuple(classes)))
    assert error.message
    assert len(error.sqlstate) == 5


@pytest.mark.parametrize("name", ["InvalidPlanInput", "InvalidCommandInput"])
def test_a_plan_that_makes_no_sense_is_its_senders_mistake(name: str) -> None:
    classes = (f"org.apache.spark.sql.connect.common.{name}", "java.lang.RuntimeException")
    told = "[INTERNAL_ERROR] Aggregate needs a plan input SQLSTATE: XX000"
    assert classify(SparkFailure(told, "INTERNAL_ERROR", "XX000", classes)).code is Code.PARSE_ERROR
