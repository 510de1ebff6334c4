"""What a failure of Spark means, in our codes.

Asked in this order, the first answer wins: Spark's own error condition where the table names it, the
SQLSTATE, then, where neither is there, a closed list of messages and the Java exception class. A failure
that only wraps another one (a failed task, an aborted write) is judged by what it wraps. What nobody knows
is INTERNAL_ERROR. The answers stand in `spark_errors.toml`.

The whole text goes into `cause_text`, for the log. The client sees Spark's sentence where the mistake is
its own, a scrubbed one where a run broke, and one of ours where the house is at fault.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeVar

from bailiwick.engines import spark_messages
from bailiwick.engines.spark_error_table import table
from bailiwick.errors import MEANINGS, OUT_OF_MEMORY, USER_CODE, Audience, BailiwickError, Code, Position
from bailiwick.telemetry.scrub import bounded, scrub

T = TypeVar("T")

CAUSE_LENGTH_MAX: Final = 64_000
_RETRY_AFTER_S: Final = 5.0
_GUARD_EXCEPTION: Final = "io.bailiwick.Denied"
_PYTHON_EXCEPTION: Final = "org.apache.spark.api.python.PythonException"
_CAUSES_MAX: Final = 10
_INVALID_PLANS: Final = frozenset(
    {
        "org.apache.spark.sql.connect.common.InvalidPlanInput",
        "org.apache.spark.sql.connect.common.InvalidCommandInput",
    }
)


@dataclass(frozen=True, slots=True)
class SparkFailure:
    """What Spark said when it failed, before anyone judged it."""

    message: str
    error_class: str | None = None
    """Spark's error condition, such as `UNRESOLVED_COLUMN.WITH_SUGGESTION`."""
    sqlstate: str | None = None
    classes: tuple[str, ...] = ()
    """The Java exception's class and its parents, the most special first."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None
    column: int | None = None
    """Both counted from 1."""
    cause: "SparkFailure | None" = None
    """What this failure wraps, where the engine was asked for details."""

    @classmethod
    def from_error_info(cls, message: str, metadata: Mapping[str, str]) -> Self:
        """From the `google.rpc.ErrorInfo` of a Connect call. Fields that cannot be read count as absent."""
        classes = _json(metadata.get("classes"), list[object]())
        parameters = _json(metadata.get("messageParameters"), dict[str, object]())
        return cls(
            message=message,
            error_class=metadata.get("errorClass") or None,
            sqlstate=metadata.get("sqlState") or None,
            classes=tuple(str(name) for name in classes),
            parameters={str(name): str(value) for name, value in parameters.items()},
        )


@dataclass(frozen=True, slots=True)
class _Verdict:
    code: Code
    failure: SparkFailure
    """The failure that decided: the one asked about, or one that it wraps."""
    details: dict[str, str]

    @property
    def is_definite(self) -> bool:
        """Whether nothing that it wraps would tell more."""
        is_broad = self.code in (Code.EXECUTION_FAILED, Code.INTERNAL_ERROR)
        return not is_broad or self.details.get("reason") == USER_CODE


_NOT_RETRYABLE_REASONS: Final = frozenset({"limit", "too_complex", "result_too_large", "disk_full"})

# By `reason`, or by `outcome` where that is the matter.
_ADVICE: Final[Mapping[str, str]] = {
    OUT_OF_MEMORY: "The engine ran out of memory. Ask for less at a time, or write the result to a table.",
    "result_too_large": "The result is too large to be returned. Add a LIMIT, or write it to a table.",
    "too_complex": "The statement is nested too deeply to be planned. Break it into smaller ones.",
    "disk_full": "The storage is full.",
    "engine_lost": "The engine was lost while it ran the statement.",
    "executor_lost": "An executor was lost while it ran the statement, more often than Spark retries.",
    "unknown": "The commit was not confirmed.",
    "python_ended": "The process that ran your Python ended by itself: it crashed, or had too little memory.",
    "broadcast_timeout": "A table took too long to be broadcast for a join.",
}

# Parameters by which Spark's own templates name places in the house rather than things in the statement.
_PLACE_PARAMETERS: Final = frozenset(
    {
        "codeLocation",
        "discoveredBasePaths",
        "filePath",
        "location",
        "normalizedRemoteRelativePath",
        "outputPath",
        "path",
        "paths",
        "storage_root",
        "suspiciousPaths",
    }
)


def classify(failure: SparkFailure) -> BailiwickError:
    """The one error of ours that `failure` is. Never raises."""
    refusal = _refusal(failure)
    if refusal is not None:
        return refusal
    verdict = _verdict(failure)
    deciding, reason = verdict.failure, verdict.details.get("reason")
    details = dict(verdict.details)
    known_sqlstate = details.pop("sqlstate", None)
    if deciding.error_class and _has_condition(deciding):
        details["condition"] = bounded(deciding.error_class, 200)
    error = BailiwickError(
        verdict.code,
        _message(verdict),
        sqlstate=_sqlstate(deciding) or known_sqlstate,
        retryable=False if reason in _NOT_RETRYABLE_REASONS else None,
        position=_position(deciding) or _position(failure),
        details=details,
        retry_after_s=_RETRY_AFTER_S if reason == OUT_OF_MEMORY else None,
        cause_text=bounded(_whole(failure), CAUSE_LENGTH_MAX),
    )
    return error.outcome_unknown() if details.get("outcome") == "unknown" else error


def _refusal(failure: SparkFailure) -> BailiwickError | None:
    """What the guard in the engine said, if it was the guard; anyone may write its words into an error."""
    for member in _chain(failure):
        quoted = spark_messages.embedded_exception(member.message) if _is_job(member) else None
        for name, text in ((next(iter(member.classes), ""), member.message), *((quoted,) if quoted else ())):
            told = spark_messages.guard_refusal(text) if name == _GUARD_EXCEPTION else None
            if told is not None:
                return BailiwickError(
                    Code.ACCESS_DENIED,
                    told.message,
                    details={"reason": told.reason},
                    cause_text=bounded(_whole(failure), CAUSE_LENGTH_MAX),
                )
    return None


def _verdict(failure: SparkFailure) -> _Verdict:
    """The first failure of the chain that says something definite; else what the outermost one says."""
    outermost: _Verdict | None = None
    for candidate in _chain(failure):
        verdict = _judged(candidate)
        if verdict is not None and verdict.is_definite:
            return verdict
        outermost = outermost or verdict
    return outermost or _Verdict(_unknown(failure), failure, {})


def _judged(failure: SparkFailure) -> _Verdict | None:
    known, condition, sqlstate = table(), failure.error_class, failure.sqlstate
    if not _INVALID_PLANS.isdisjoint(failure.classes):
        # Spark calls its own what a client has sent.
        return _Verdict(Code.PARSE_ERROR, failure, {})
    if _PYTHON_EXCEPTION in failure.classes:
        # The text is its author's, who may have written anything: no word of it is Spark's.
        return _Verdict(Code.EXECUTION_FAILED, failure, {"reason": USER_CODE})
    code = known.of_condition(condition) if condition else None
    code = code or (known.of_sqlstate(sqlstate) if sqlstate else None)
    if code is None:
        pattern = known.of_message(failure.message)
        if pattern is not None:
            return _Verdict(pattern.code, failure, dict(pattern.details))
        code = known.of_exceptions(failure.classes)
        code = code or (known.of_legacy(condition) if condition else None)
    if code is None:
        return None
    names = (condition, (condition or "").partition(".")[0], sqlstate, (sqlstate or "")[:2], *failure.classes)
    return _Verdict(code, failure, known.details_of(*names))


def _chain(failure: SparkFailure) -> list[SparkFailure]:
    """`failure`, what it wraps, and what the last of them only quotes in its text."""
    chain = [failure]
    while chain[-1].cause is not None and len(chain) < _CAUSES_MAX:
        chain.append(chain[-1].cause)
    if not any(member.error_class or member.sqlstate for member in chain):
        quoted = _quoted(chain[-1])
        if quoted is not None:
            chain.append(quoted)
    return chain


def _quoted(failure: SparkFailure) -> SparkFailure | None:
    found = spark_messages.embedded_exception(failure.message)
    if found is None:
        return None
    name, text = found
    return replace(
        failure,
        message=text,
        classes=(name,),
        error_class=spark_messages.embedded_condition(text),
        sqlstate=spark_messages.embedded_sqlstate(text),
        cause=None,
    )


def _unknown(failure: SparkFailure) -> Code:
    """A failed task without a cause that we know is still a run that broke, not a bug of the house."""
    return Code.EXECUTION_FAILED if _is_job(failure) else Code.INTERNAL_ERROR


def _is_job(failure: SparkFailure) -> bool:
    return failure.message.startswith(("Job aborted", "Task failed", "Writing job aborted"))


def _message(verdict: _Verdict) -> str:
    code, failure = verdict.code, verdict.failure
    advice = _ADVICE.get(verdict.details.get("reason") or verdict.details.get("outcome") or "")
    if advice is not None:
        return advice
    if MEANINGS[code].audience is Audience.GENERIC or _says_nothing_more(failure, code):
        return MEANINGS[code].sentence
    if verdict.details.get("reason") == USER_CODE:
        return spark_messages.python_failure(failure.message)
    text = spark_messages.readable(failure.message, keep_context=code is Code.SYNTAX_ERROR)
    is_of_template = _has_condition(failure) and not _PLACE_PARAMETERS.intersection(failure.parameters)
    # Only a text that Spark made from its own template and the statement is known to name nothing else.
    shown = text if is_of_template and MEANINGS[code].audience is Audience.FULL else scrub(text)
    return shown or MEANINGS[code].sentence


def _says_nothing_more(failure: SparkFailure, code: Code) -> bool:
    """Iceberg tells of a conflict by listing data files and snapshots, Spark of a cancel by its own ids."""
    return code is Code.QUERY_CANCELLED or (code is Code.COMMIT_CONFLICT and not _has_condition(failure))


def _has_condition(failure: SparkFailure) -> bool:
    """Whether Spark named the failure. A legacy number is no name, and its templates hold just anything."""
    return bool(failure.error_class) and not str(failure.error_class).startswith("_LEGACY")


def _sqlstate(failure: SparkFailure) -> str | None:
    sqlstate = failure.sqlstate
    return sqlstate if sqlstate and len(sqlstate) == 5 and sqlstate.isalnum() and sqlstate.isascii() else None


def _position(failure: SparkFailure) -> Position | None:
    if failure.line is not None and failure.column is not None:
        return Position(failure.line, failure.column)
    return spark_messages.position(failure.message)


def _whole(failure: SparkFailure) -> str:
    texts, member = [failure.message], failure.cause
    while member is not None and len(texts) < _CAUSES_MAX:
        texts.append(f"Caused by {next(iter(member.classes), 'an unnamed failure')}: {member.message}")
        member = member.cause
    named = (
        f"[{failure.error_class}] "
        if failure.error_class and failure.error_class not in failure.message
        else ""
    )
    return f"{next(iter(failure.classes), 'Spark')}: {named}" + "\n".join(texts)


def _json(text: str | None, empty: T) -> T:
    """What `text` holds if it is of the kind of `empty`, else that: Spark cuts long ones in two."""
    try:
        value = json.loads(text) if text else None
    except ValueError:
        value = None
    return value if isinstance(value, type(empty)) else empty
