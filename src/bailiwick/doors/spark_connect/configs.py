"""Which of Spark's settings a client may read, and which it may set, to what. Pure.

Closed by default. Reading: keys of Spark SQL that say nothing of the house, and values that look like neither
a place nor a secret; everything else does not exist. Setting: the list below. What changes how names, texts,
numbers or times are understood is not on it, for rules must mean the same in every session. Spark's keys are
told apart by case, and so are they here.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.time_zones import checked_time_zone
from bailiwick.telemetry.scrub import scrub

KEYS_MAX: Final = 100
KEY_CHARS_MAX: Final = 200
VALUE_CHARS_MAX: Final = 1_000

_Check = Callable[[str], str]
"""Gives the value as it is set, or raises INVALID_ARGUMENTS."""


def _truth(value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise _bad("true or false")
    return value.lower()


def _number(least: int, most: int) -> _Check:
    def check(value: str) -> str:
        if not re.fullmatch(r"-?\d{1,12}", value) or not least <= int(value) <= most:
            raise _bad(f"a number from {least} to {most}")
        return value

    return check


def _one_of(*words: str) -> _Check:
    def check(value: str) -> str:
        if value.lower() not in words:
            raise _bad(f"one of {', '.join(words)}")
        return value.lower()

    return check


def _only(value: str) -> _Check:
    def check(given: str) -> str:
        if given.lower() != value:
            raise _bad(f"{value}, and nothing else")
        return value

    return check


SETTABLE: Final[Mapping[str, _Check]] = MappingProxyType(
    {
        "spark.sql.session.timeZone": checked_time_zone,
        "spark.sql.shuffle.partitions": _number(1, 2_000),
        "spark.sql.autoBroadcastJoinThreshold": _number(-1, 64 << 20),
        "spark.sql.adaptive.skewJoin.enabled": _truth,
        "spark.sql.crossJoin.enabled": _truth,
        "spark.sql.sources.partitionOverwriteMode": _one_of("static", "dynamic"),
        "spark.sql.iceberg.data-planning-mode": _one_of("auto", "local", "distributed"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": _number(1, 65_536),
        "spark.sql.execution.arrow.useLargeVarTypes": _truth,
        # What the rest of this list says is for the client itself: it asks for its own settings here.
        "spark.sql.execution.arrow.pyspark.enabled": _truth,
        "spark.sql.execution.arrow.enabled": _truth,
        "spark.sql.execution.arrow.pyspark.fallback.enabled": _truth,
        "spark.sql.execution.arrow.pyspark.selfDestruct.enabled": _truth,
        "spark.sql.execution.pandas.convertToArrowArraySafely": _truth,
        "spark.sql.execution.pandas.inferPandasDictAsMap": _truth,
        "spark.sql.execution.pandas.structHandlingMode": _one_of("legacy", "row", "dict"),
        "spark.sql.execution.pyspark.binaryAsBytes": _truth,
        "spark.sql.pyspark.inferNestedDictAsStruct.enabled": _truth,
        "spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled": _truth,
        "spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled": _truth,
        "spark.sql.repl.eagerEval.enabled": _truth,
        "spark.sql.repl.eagerEval.maxNumRows": _number(1, 10_000),
        "spark.sql.repl.eagerEval.truncate": _number(0, 10_000),
        "spark.sql.connect.serverStacktrace.enabled": _only("false"),
        "spark.sql.pyspark.jvmStacktrace.enabled": _only("false"),
    }
)

IGNORED: Final = frozenset({"spark.app.name", "spark.remote", "spark.master", "spark.submit.deployMode"})
"""What clients set for programs of their own; it means nothing here, and does no harm."""

FIXED: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Rows that are more than this are sent ahead of the plan, in pieces (`brought_rows.py`).
        "spark.sql.session.localRelationCacheThreshold": str(1 << 20),
        "spark.sql.session.localRelationChunkSizeRows": str((1 << 31) - 1),
        "spark.sql.session.localRelationChunkSizeBytes": str(4 << 20),
        "spark.sql.session.localRelationBatchOfChunksSizeBytes": str(16 << 20),
        # Clients ask before their first plan. An engine's answer would have to wait for its turn.
        "spark.connect.session.planCompression.threshold": str(10 << 20),
        "spark.connect.session.planCompression.defaultAlgorithm": "ZSTD",
        "spark.sql.connect.serverStacktrace.enabled": "false",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    }
)
"""What is told to whoever asks, whatever holds in the engine."""

_READABLE_PREFIX: Final = "spark.sql."
_HIDDEN_PREFIXES: Final = (
    "spark.sql.catalog.",
    "spark.sql.catalogImplementation",
    "spark.sql.connect.",
    "spark.sql.extensions",
    "spark.sql.hive.",
    "spark.sql.redaction",
    "spark.sql.streaming.",
    "spark.sql.ui.",
    "spark.sql.warehouse",
)
_HIDDEN_WORDS: Final = re.compile(
    r"(?i)secret|password|token|credential|access.?key|authorization|bailiwick|url|uri|host|path|dir\b|location"
)
_PLACE: Final = re.compile(r"://|^[/~\\]|^[A-Za-z]:\\|^file:|^jdbc:")


def is_readable(key: str) -> bool:
    """Whether a client may know that there is such a key."""
    if key in FIXED or key in SETTABLE:
        return True
    is_hidden = key.startswith(_HIDDEN_PREFIXES) or _HIDDEN_WORDS.search(key) is not None
    return key.startswith(_READABLE_PREFIX) and not is_hidden


def is_showable(key: str, value: str) -> bool:
    """Whether a client may see this value of a key that it may know."""
    return is_readable(key) and not _PLACE.search(value) and scrub(value) == value


def readable(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Those of all settings that a client may see."""
    shown = {key: value for key, value in pairs if is_showable(key, value)}
    return {key: FIXED.get(key, value) for key, value in shown.items()}


def checked(key: str, value: str) -> str:
    """The value as it is set. NOT_SUPPORTED for a key that may not be set, INVALID_ARGUMENTS for a value."""
    if len(key) > KEY_CHARS_MAX or len(value) > VALUE_CHARS_MAX:
        raise BailiwickError(Code.INVALID_ARGUMENTS, "The setting is too long.")
    check = SETTABLE.get(key)
    if check is None:
        raise not_settable(key)
    try:
        return check(value)
    except BailiwickError as error:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS, f"{key} cannot be {value[:60]!r}: {error.message}", details={"key": key}
        ) from None


def not_settable(key: str) -> BailiwickError:
    return BailiwickError(
        Code.NOT_SUPPORTED,
        f"{key[:KEY_CHARS_MAX]} cannot be set here. What may be set: {', '.join(sorted(SETTABLE))}.",
        sqlstate="46110",
        details={"condition": "CANNOT_MODIFY_CONFIG", "key": key[:KEY_CHARS_MAX], "reason": "config"},
    )


def not_found(key: str) -> BailiwickError:
    """As Spark says it of a key that does not exist; one that is hidden does not, either."""
    shown = key[:KEY_CHARS_MAX]
    return BailiwickError(
        Code.INVALID_ARGUMENTS,
        f'The SQL config "{shown}" cannot be found. Please verify that the config exists.',
        sqlstate="42K0I",
        details={"condition": "SQL_CONF_NOT_FOUND", "sqlConf": f'"{shown}"'},
    )


def _bad(wanted: str) -> BailiwickError:
    return BailiwickError(Code.INVALID_ARGUMENTS, f"it must be {wanted}.")
