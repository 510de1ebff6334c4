"""What the client is shown of a failure of Spark: its own mistake in full, the house's not at all."""

import pytest

from bailiwick.engines.spark_error_table import table
from bailiwick.engines.spark_errors import SparkFailure, classify
from bailiwick.errors import MEANINGS, Audience, Code, Position

SPARK = "org.apache.spark.SparkException"
ICEBERG = "org.apache.iceberg.exceptions"
TASK = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 3.0 (TID 3) (worker-1.internal executor 2): "
)


def test_a_conflict_is_told_without_the_files_it_was_about() -> None:
    message = "Found conflicting files that can contain records matching true: [file:/srv/lake/a.parquet]"
    error = classify(SparkFailure(message, classes=(f"{ICEBERG}.ValidationException",)))
    assert (error.message, error.retryable) == (MEANINGS[Code.COMMIT_CONFLICT].sentence, True)


def test_what_the_catalog_said_is_told_without_the_clients_introduction() -> None:
    failure = SparkFailure("Forbidden: you may read here only", classes=(f"{ICEBERG}.ForbiddenException",))
    assert classify(failure).message == "you may read here only"


def test_a_sentence_of_several_lines_is_kept_and_the_plan_after_it_is_not() -> None:
    message = (
        "[INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS] Cannot write to `t`:\n"
        "Table columns: `id`, `name`.\nData columns: `col1`. SQLSTATE: 21S01; line 1 pos 0;\n"
        "'Distinct\n+- 'Union\n"
    )
    failure = SparkFailure(message, error_class="INSERT_COLUMN_ARITY_MISMATCH", sqlstate="21S01")
    assert (
        classify(failure).message
        == "Cannot write to `t`:\nTable columns: `id`, `name`.\nData columns: `col1`."
    )


@pytest.mark.parametrize(
    ("message", "position", "shown"),
    [
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 1, pos 0)\n\n"
            "== SQL ==\nSELEC 1\n^^^\n",
            Position(1, 1),
            "Syntax error at or near 'SELEC'.\n== SQL ==\nSELEC 1\n^^^",
        ),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `nope` cannot be resolved. "
            "Did you mean one of the following? [`id`]. SQLSTATE: 42703; line 2 pos 7;\n"
            "'Project ['nope]\n+- Range (0, 3, step=1)\n",
            Position(2, 8),
            "A column with name `nope` cannot be resolved. Did you mean one of the following? [`id`].",
        ),
        (
            '[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL '
            'instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. '
            "SQLSTATE: 22012\n"
            "== SQL (line 1, position 8) ==\nSELECT 1/0\n       ^^^\n",
            Position(1, 8),
            "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead.",
        ),
        (
            '[INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE] The limit like expression "-1" is invalid. '
            "The limit expression must be equal to or greater than 0, but got -1. "
            "SQLSTATE: 42K0E; line 1 pos 29;\n"
            "GlobalLimit -1\n+- LocalLimit -1\n   +- Project [id#23L]\n",
            Position(1, 30),
            'The limit like expression "-1" is invalid. '
            "The limit expression must be equal to or greater than 0, but got -1.",
        ),
    ],
    ids=["syntax", "analysis", "runtime", "limit"],
)  # fmt: skip
def test_the_author_of_a_mistake_sees_the_sentence_and_the_place(
    message: str, position: Position, shown: str
) -> None:
    condition = message.partition("[")[2].partition("]")[0]
    sqlstate = message.partition("SQLSTATE: ")[2][:5]
    error = classify(SparkFailure(message, error_class=condition, sqlstate=sqlstate))
    assert error.message == shown
    assert error.position == position


def test_the_place_that_the_engine_counted_wins_over_the_one_in_the_text() -> None:
    failure = SparkFailure(
        "x; line 9 pos 9;", error_class="UNRESOLVED_COLUMN", sqlstate="42703", line=2, column=3
    )
    assert classify(failure).position == Position(2, 3)


def test_a_statement_of_ten_megabytes_does_not_come_back_in_its_error() -> None:
    name = "x" * 10_000_000
    message = f"\n[PARSE_SYNTAX_ERROR] Syntax error at or near '{name}'. SQLSTATE: 42601 (line 1, pos 0)"
    error = classify(SparkFailure(message, error_class="PARSE_SYNTAX_ERROR", sqlstate="42601"))
    assert len(error.message) <= 2_000
    assert len(error.cause_text or "") <= 64_000


def test_a_long_statement_is_shown_only_around_the_mark() -> None:
    lines = "1 +\n" * 50_000
    message = (
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near ')'. SQLSTATE: 42601 (line 50001, pos 2)\n\n"
        f"== SQL ==\n{lines}1 ) oops\n--^^^\n"
    )
    error = classify(SparkFailure(message, error_class="PARSE_SYNTAX_ERROR", sqlstate="42601"))
    assert error.message.endswith("1 +\n1 +\n1 ) oops\n--^^^")
    assert error.message.startswith("Syntax error at or near ')'.\n1 +\n")
    assert error.message.count("\n") == 12
    assert error.position == Position(50001, 3)


def test_a_users_own_words_are_not_scrubbed() -> None:
    message = "[TABLE_OR_VIEW_NOT_FOUND] The table or view `a/b`.`10.1.2.3` cannot be found. SQLSTATE: 42P01"
    error = classify(SparkFailure(message, error_class="TABLE_OR_VIEW_NOT_FOUND", sqlstate="42P01"))
    assert error.message == "The table or view `a/b`.`10.1.2.3` cannot be found."


def test_places_in_the_house_are_scrubbed_even_where_the_mistake_is_the_users() -> None:
    message = "[PATH_NOT_FOUND] Path does not exist: file:/srv/secret/lake. SQLSTATE: 42K03"
    parameters = {"path": "file:/srv/secret/lake"}
    failure = SparkFailure(message, error_class="PATH_NOT_FOUND", sqlstate="42K03", parameters=parameters)
    assert classify(failure).message == "Path does not exist: <location>"


@pytest.mark.parametrize("code", [code for code in Code if MEANINGS[code].audience is Audience.GENERIC])
def test_where_the_house_is_at_fault_the_client_gets_one_sentence(code: Code) -> None:
    secret = "s3://bucket/key at 10.0.0.1:8020 with token=abc"
    for name, its_code in table().exceptions.items():
        if its_code is code:
            error = classify(SparkFailure(secret, classes=(name,)))
            assert error.message == MEANINGS[code].sentence
            assert secret in (error.cause_text or "")


def test_a_broken_run_is_told_without_hosts_paths_and_traces() -> None:
    message = (
        TASK + "java.lang.IllegalStateException: bad page at /srv/lake/part-0.parquet\n\tat a.B.c(B.java:1)\n"
    )
    error = classify(SparkFailure(message, classes=(SPARK,)))
    assert error.code is Code.EXECUTION_FAILED
    assert error.message.endswith("(<host> executor 2): java.lang.IllegalStateException: bad page at <path>")
