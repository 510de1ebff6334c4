"""The ways in which the query service itself ends a query, and what the caller is told then. Pure."""

from collections.abc import Sequence

from bailiwick.errors import OUT_OF_MEMORY, BailiwickError, Code
from bailiwick.queries.query import Attempt

ENGINE_BACK_S = 5.0
"""About how long a lost engine takes to come back: what callers are told to wait."""
STILL_RUNNING_S = 2.0
"""When to ask again for something that runs."""
ATTEMPTS_SHOWN_MAX = 6


def sql_too_long(size_bytes: int, limit_bytes: int) -> BailiwickError:
    return _over_limit(f"The statement has {size_bytes} bytes, the limit is {limit_bytes}.", "sql_bytes_max")


def too_many_columns(columns: int, limit: int) -> BailiwickError:
    return _over_limit(f"The result has {columns} columns, the limit is {limit}.", "result_columns_max")


def too_many_rows(limit: int) -> BailiwickError:
    return _over_limit(
        f"The result has more than {limit} rows, the limit `result_rows_max`. Add a LIMIT.", "result_rows_max"
    )


def too_many_bytes(limit_bytes: int) -> BailiwickError:
    return _over_limit(
        f"The result has more than {limit_bytes} bytes, the limit `result_bytes_max`. "
        "Select fewer columns or rows.",
        "result_bytes_max",
    )


def message_too_large(size_bytes: int, rows: int, limit_bytes: int) -> BailiwickError:
    what = "One row" if rows == 1 else f"{rows} rows"
    return _over_limit(
        f"{what} of the result: {size_bytes} bytes, and one message may have at most {limit_bytes}. "
        "Select fewer columns, or shorter values.",
        "message_bytes_max",
    )


def timed_out(timeout_s: float) -> BailiwickError:
    return BailiwickError(
        Code.QUERY_TIMEOUT,
        f"The query timed out after {timeout_s:g}s.",
        details={"timeout_s": f"{timeout_s:g}"},
    )


def cancelled_by(name: str) -> BailiwickError:
    return BailiwickError(
        Code.QUERY_CANCELLED, f"The query was cancelled by {name}.", details={"reason": "cancelled"}
    )


def client_left() -> BailiwickError:
    return BailiwickError(
        Code.QUERY_CANCELLED, "The client left before the end.", details={"reason": "client_left"}
    )


def shutting_down() -> BailiwickError:
    return BailiwickError(
        Code.CIRCUIT_BREAKER_OPEN,
        "The gateway is shutting down.",
        retryable=True,
        retry_after_s=ENGINE_BACK_S,
        details={"reason": "shutting_down"},
    )


def given_up_on() -> BailiwickError:
    return BailiwickError(
        Code.EXECUTION_FAILED,
        "The gateway was out of touch with the others for too long, and they ended its queries.",
        retryable=True,
        retry_after_s=ENGINE_BACK_S,
        details={"reason": "gateway_lost"},
    )


def restarted() -> BailiwickError:
    return BailiwickError(
        Code.EXECUTION_FAILED,
        "The gateway was restarted while the query ran.",
        details={"reason": "gateway_restarted"},
    )


def schema_changed() -> BailiwickError:
    return BailiwickError(
        Code.SEMANTIC_ERROR,
        "A table changed since the statement was prepared: its result has other columns. Prepare it again.",
        details={"reason": "schema_changed"},
    )


def stalled(idle_s: float) -> BailiwickError:
    return BailiwickError(
        Code.EXECUTION_FAILED,
        f"The engine gave no sign of life for {idle_s:g}s.",
        retryable=True,
        retry_after_s=ENGINE_BACK_S,
        details={"reason": "stalled"},
    )


def engine_lost(reason: str | None, cause_text: str, *, is_suspect: bool = False) -> BailiwickError:
    """`reason` is what `Engine.explain_loss` says. Retryable, unless the query may have written something.

    `is_suspect`: if it was for lack of memory, another query may have been the cause.
    """
    if reason == "out_of_memory" and is_suspect:
        return BailiwickError(
            Code.RESOURCE_EXHAUSTED,
            "The engine ran out of memory while this query and others ran on it. Try again; if this was the "
            "large one among them, aggregate or filter more, or write the result to a table.",
            retryable=True,
            retry_after_s=ENGINE_BACK_S,
            details={"reason": OUT_OF_MEMORY},
            cause_text=cause_text,
        )
    if reason == "out_of_memory":
        return BailiwickError(
            Code.RESOURCE_EXHAUSTED,
            "The engine ran out of memory. Aggregate or filter more, avoid large LIMITs and windows over "
            "everything, or write the result to a table.",
            # The same statement would do it again.
            retryable=False,
            details={"reason": OUT_OF_MEMORY},
            cause_text=cause_text,
        )
    return BailiwickError(
        Code.EXECUTION_FAILED,
        "The engine was lost while the query ran.",
        retryable=True,
        retry_after_s=ENGINE_BACK_S,
        details={"reason": "engine_lost"},
        cause_text=cause_text,
    )


def after_attempts(error: BailiwickError, attempts: Sequence[Attempt]) -> BailiwickError:
    """The error that ended a query, with what was tried before: each engine, its error, how long it took.

    The same error, changed: who waits for it has it already.
    """
    if attempts:
        told = [
            f"{attempt.node_id} ({attempt.failure.code} after {attempt.elapsed_s:.1f}s)"
            for attempt in attempts[:ATTEMPTS_SHOWN_MAX]
        ]
        more = len(attempts) - len(told)
        error.message += f" Tried before: {', '.join(told)}{f', and {more} more' if more else ''}."
        error.args = (error.message,)
        error.details["attempts"] = str(len(attempts) + 1)
        for number, each in enumerate(told, start=1):
            error.details[f"attempt_{number}"] = each
    return error


def key_reused() -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS,
        "This idempotency key was used for another statement, or with other values, or elsewhere. Use a key "
        "of its own for each statement.",
        details={"reason": "idempotency_key_reused"},
    )


def too_many_keys(limit: int) -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        f"There are {limit} idempotency keys of yours already, the limit `idempotency_keys_max`. The oldest "
        "are forgotten with time; until then run statements without a key.",
        retryable=False,
        details={"reason": "limit", "limit": "idempotency_keys_max"},
    )


def still_running(query_id: str, state: str) -> BailiwickError:
    """Somebody sent the same under the same key, and it goes on. Nothing was started by this call."""
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        f"This statement was sent before with the same idempotency key, and is {state}. One at a time runs: "
        "ask again when it has ended, or cancel it.",
        retry_after_s=STILL_RUNNING_S,
        details={"reason": "in_progress", "state": state},
        query_id=query_id,
    )


def answer_not_kept(query_id: str, affected_rows: int) -> BailiwickError:
    """A change that happened, and answered with rows, is asked for again."""
    return BailiwickError(
        Code.INVALID_ARGUMENTS,
        "This statement was sent before with the same idempotency key and was carried out. It did not run "
        "again, and the rows that it answered with were not kept.",
        details={"reason": "answer_not_kept", "affected_rows": str(affected_rows)},
        query_id=query_id,
    )


def internal(cause: BaseException) -> BailiwickError:
    return BailiwickError(
        Code.INTERNAL_ERROR,
        "Something went wrong inside the gateway; its log has it under the query id.",
        cause_text=f"{type(cause).__name__}: {cause}",
    )


def unknown_query(query_id: str) -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS, f"There is no query {query_id[:64]}.", details={"reason": "unknown_query"}
    )


def _over_limit(message: str, limit: str) -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED, message, retryable=False, details={"reason": "limit", "limit": limit}
    )


def view_of_quotes() -> BailiwickError:
    """A view keeps its text, and whoever reads it reads it by their own settings."""
    return BailiwickError(
        Code.NOT_SUPPORTED,
        "A view cannot be defined while double_quoted_identifiers is on: others would read its text "
        "otherwise. Turn the option off, and quote names with backticks.",
        details={"reason": "view_quoting"},
    )
