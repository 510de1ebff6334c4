"""The standard mask actions show, as Spark SQL, what the standard says, in the type of the column."""

import hashlib
import struct
from datetime import UTC, date, datetime

import pytest

from bailiwick.policy import actions
from bailiwick.testing.plain_spark import PlainSpark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Shown = tuple[str, str, str, str, object]
"""Action, Iceberg's type, a value as SQL, its type in Spark, what is shown."""

LAST = "9223372036854775807"


def _hashed(value: int, code: str) -> int:
    size = struct.calcsize(code)
    (number,) = struct.unpack(code, hashlib.sha256(struct.pack(code, value)).digest()[:size])
    assert isinstance(number, int)
    return number


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


CASES: tuple[Shown, ...] = (
    ("mask-alphanum", "string", "'Ann (42), a.b-c@d.eu!\nü😀'", "string", "xxxx(nn),xx.x-x@x.xxxxxx"),
    ("show-last-4", "string", "'4111-1111-1111-4444'", "string", "nnnn-nnnn-nnnn-4444"),
    ("show-last-4", "string", "'abc'", "string", "abc"),
    ("show-first-4", "string", "'prashant010696@gmail.com'", "string", "prasxxxxnnnnnn@xxxxx.xxx"),
    ("show-first-4", "string", "'abc'", "string", "abc"),
    ("hash", "string", "'ünder'", "string", _digest("ünder")),
    ("hash", "binary", "X'00ff'", "binary", hashlib.sha256(b"\x00\xff").digest()),
    *(
        ("hash", "int", str(number), "int", _hashed(number, "<i"))
        for number in (0, 1, -1, 123_456, 2**31 - 1)
    ),
    *(("hash", "long", f"{number}L", "bigint", _hashed(number, "<q")) for number in (0, 1, -1, int(LAST))),
    ("truncate-to-year", "date", "DATE '2024-07-15'", "date", date(2024, 1, 1)),
    ("truncate-to-month", "date", "DATE '1969-12-31'", "date", date(1969, 12, 1)),
    (
        "truncate-to-year",
        "timestamp",
        "TIMESTAMP_NTZ '2024-07-15 10:11:12'",
        "timestamp_ntz",
        datetime(2024, 1, 1),
    ),
    (
        "truncate-to-month",
        "timestamptz",
        "TIMESTAMP '2024-07-01 00:30:00+01:00'",
        "timestamp",
        datetime(2024, 6, 1, tzinfo=UTC),
    ),
    ("redact", "string", "'x'", "string", "XXXXXXXX"),
    ("redact", "string", "CAST(NULL AS STRING)", "string", "XXXXXXXX"),
    ("redact", "boolean", "true", "boolean", False),
    ("redact", "int", "7", "int", 0),
    ("redact", "long", "7L", "bigint", 0),
    ("redact", "float", "7.5F", "float", 0.0),
    ("redact", "double", "7.5D", "double", 0.0),
    ("redact", "date", "DATE '2024-07-15'", "date", date(1970, 1, 1)),
    (
        "redact",
        "timestamp",
        "TIMESTAMP_NTZ '2024-07-15 10:11:12'",
        "timestamp_ntz",
        datetime(1970, 1, 1),
    ),
    (
        "redact",
        "timestamptz",
        "TIMESTAMP '2024-07-15 00:00:00Z'",
        "timestamp",
        datetime(1970, 1, 1, tzinfo=UTC),
    ),
    ("redact", "binary", "X'01'", "binary", b""),
    ("redact", "fixed[2]", "X'0102'", "binary", b"\x00\x00"),
    (
        "redact",
        "uuid",
        "'123e4567-e89b-12d3-a456-426614174000'",
        "string",
        "0" * 8 + "-0000-0000-0000-" + "0" * 12,
    ),
    ("null", "string", "'x'", "string", None),
    ("null", "list<1: int>", "array(1)", "array<int>", None),
    ("null", "map<1: string, 2: int>", "map('a', 1)", "map<string,int>", None),
    ("hash", "string", "CAST(NULL AS STRING)", "string", None),
    ("hash", "long", "CAST(NULL AS BIGINT)", "bigint", None),
    ("show-last-4", "string", "CAST(NULL AS STRING)", "string", None),
    ("truncate-to-year", "date", "CAST(NULL AS DATE)", "date", None),
)


def _asked(case: Shown) -> str:
    action, type_name, value, _, _ = case
    shown = actions.sql(action, type_name)
    return f"SELECT typeof({shown}) AS type, {shown} AS shown FROM (SELECT {value} AS value)"


def test_each_action_shows_what_the_standard_says_and_keeps_the_type(plain: PlainSpark) -> None:
    answers = plain.answers([_asked(case) for case in CASES])
    found = [
        (case[:3], (answer.error,) if answer.table is None else tuple(answer.table.to_pylist()[0].values()))
        for case, answer in zip(CASES, answers, strict=True)
    ]
    assert found == [(case[:3], case[3:]) for case in CASES]
