"""A lease's time zone and quoting reach Spark when they differ, and only then."""

from typing import Any, cast

import pytest

from bailiwick.engines.engine import EngineLost
from bailiwick.engines.spark_calls import SparkCalls
from bailiwick.engines.spark_connect import SparkConnectSession


class RecordedCalls:
    """Remembers what was configured; fails when told to."""

    def __init__(self) -> None:
        self.configured: list[dict[str, str]] = []
        self.is_lost = False

    async def unary(self, method: str, request: Any, *, timeout_s: float) -> None:
        assert (method, timeout_s > 0) == ("Config", True)
        self.configured.append({pair.key: pair.value for pair in request.operation.set.pairs})
        if self.is_lost:
            raise EngineLost("gone")


async def localise(session: SparkConnectSession, time_zone: str, quoted: bool) -> None:
    await session.localise(time_zone=time_zone, double_quoted_identifiers=quoted)


async def test_spark_is_told_what_differs_and_nothing_twice() -> None:
    calls = RecordedCalls()
    session = SparkConnectSession("handle", cast(SparkCalls, calls))
    await localise(session, "UTC", False)
    assert calls.configured == []
    await localise(session, "Europe/Berlin", True)
    await localise(session, "Europe/Berlin", True)
    await localise(session, "UTC", False)
    assert calls.configured == [
        {
            "spark.sql.session.timeZone": "Europe/Berlin",
            "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        },
        {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.ansi.doubleQuotedIdentifiers": "false",
        },
    ]


async def test_batches_are_compressed_for_those_who_read_that_and_for_nobody_after() -> None:
    calls = RecordedCalls()
    session = SparkConnectSession("handle", cast(SparkCalls, calls))
    await session.compress(False)
    assert calls.configured == []
    for is_wanted in (True, True, False):
        await session.compress(is_wanted)
    codecs = [told["spark.sql.execution.arrow.compression.codec"] for told in calls.configured]
    assert codecs == ["zstd", "none"]


async def test_what_was_not_confirmed_is_told_again() -> None:
    calls = RecordedCalls()
    session = SparkConnectSession("handle", cast(SparkCalls, calls))
    calls.is_lost = True
    with pytest.raises(EngineLost):
        await localise(session, "Europe/Berlin", False)
    calls.is_lost = False
    await localise(session, "UTC", False)
    assert len(calls.configured) == 2
    calls.is_lost = True
    with pytest.raises(EngineLost):
        await session.compress(True)
    calls.is_lost = False
    await session.compress(False)
    assert len(calls.configured) == 4
