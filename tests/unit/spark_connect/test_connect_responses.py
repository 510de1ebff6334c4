"""The log of one operation: read again from anywhere, released, spooled, ended."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bailiwick.doors.spark_connect.responses import LogLimits, ResponseLog, SharedMemory
from bailiwick.errors import BailiwickError, Code
from bailiwick.results.spool import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path, total_bytes_max=1 << 20, file_bytes_max=1 << 10)
    yield made
    made.close()


@pytest.fixture
def log(spool: Spool) -> ResponseLog:
    return ResponseLog(spool, LogLimits(window_bytes=2_000, spool_bytes_max=100_000))


async def filled(log: ResponseLog, count: int, size_bytes: int = 10) -> list[str]:
    names: list[str] = []
    for number in range(count):
        await log.append(noting(names, f"{number:>{size_bytes}}".encode()))
    return names


def noting(names: list[str], data: bytes) -> Callable[[str], bytes]:
    """A response that does not hold its name; it goes to `names`."""

    def named(name: str) -> bytes:
        names.append(name)
        return data

    return named


async def read(log: ResponseLog, after: str | None = None) -> list[int]:
    return [int(response) async for response in log.read(after) if response is not None]


def condition(error: BailiwickError) -> str:
    return error.details["condition"]


async def test_what_was_appended_is_read_in_order_as_often_as_one_likes(log: ResponseLog) -> None:
    await filled(log, 3)
    log.finish()
    assert await read(log) == [0, 1, 2]
    assert await read(log) == [0, 1, 2]


async def test_reading_goes_on_behind_any_response(log: ResponseLog) -> None:
    names = await filled(log, 5)
    log.finish()
    assert [await read(log, name) for name in names] == [[1, 2, 3, 4], [2, 3, 4], [3, 4], [4], []]


async def test_what_is_broken_off_is_not_read_to_its_end(log: ResponseLog) -> None:
    await filled(log, 3)
    log.finish()
    reading = aiter(log.read())
    assert await anext(reading) is not None
    log.break_off(BailiwickError(Code.CIRCUIT_BREAKER_OPEN, "The gateway is shutting down."))
    with pytest.raises(BailiwickError, match="shutting down"):
        await anext(reading)
    with pytest.raises(BailiwickError, match="shutting down"):
        await read(log)


async def test_what_the_window_cannot_hold_goes_to_disk_and_comes_back(
    log: ResponseLog, spool: Spool
) -> None:
    names = await filled(log, 50, 500)
    log.finish()
    assert log.disk_bytes > 0
    assert spool.held_bytes == log.disk_bytes
    assert await read(log) == list(range(50))
    log.release(names[-1])
    log.close()
    assert spool.held_bytes == 0


async def test_released_responses_give_back_their_room(log: ResponseLog, spool: Spool) -> None:
    names = await filled(log, 50, 500)
    held = spool.held_bytes
    log.release(names[39])
    assert spool.held_bytes < held
    log.finish()
    assert await read(log, names[39]) == list(range(40, 50))


async def test_what_was_released_cannot_be_read_again(log: ResponseLog) -> None:
    names = await filled(log, 3)
    log.release(names[1])
    log.release(names[0])
    with pytest.raises(BailiwickError) as refused:
        await read(log)
    assert condition(refused.value) == "INVALID_CURSOR.POSITION_NOT_AVAILABLE"


@pytest.mark.parametrize("name", ["", "0", "0-", "0-0123456789abcdef", "zz-x", "ffffffff-x", "-1-x"])
async def test_names_that_were_never_given_mean_nothing(log: ResponseLog, name: str) -> None:
    await filled(log, 1)
    with pytest.raises(BailiwickError) as refused:
        log.release(name)
    assert condition(refused.value) == "INVALID_CURSOR.POSITION_NOT_FOUND"


async def test_a_failure_comes_behind_what_was_answered_before(log: ResponseLog) -> None:
    await filled(log, 2)
    log.fail(BailiwickError(Code.EXECUTION_FAILED, "broke"))
    reader = log.read()
    assert [await anext(reader), await anext(reader)] == [b"         0", b"         1"]
    with pytest.raises(BailiwickError, match="broke"):
        await anext(reader)


async def test_a_newer_reader_takes_the_place_of_an_older(log: ResponseLog) -> None:
    await filled(log, 2)
    older = log.read()
    await anext(older)
    newer = log.read()
    await anext(newer)
    with pytest.raises(BailiwickError) as refused:
        await anext(older)
    assert condition(refused.value) == "INVALID_CURSOR.DISCONNECTED"
    await anext(newer)


async def test_a_reader_who_waits_is_given_a_sign(log: ResponseLog) -> None:
    reader = log.read(idle_s=0.001)
    assert await anext(reader) is None


async def test_responses_that_come_at_the_same_time_have_names_of_their_own(spool: Spool) -> None:
    log = ResponseLog(spool, LogLimits(window_bytes=0, spool_bytes_max=100_000))
    names: list[str] = []
    await asyncio.gather(*(log.append(noting(names, f"{number:>10}".encode())) for number in range(5)))
    log.finish()
    assert [await read(log, name) for name in names] == [[1, 2, 3, 4], [2, 3, 4], [3, 4], [4], []]
    log.close()


async def test_nothing_comes_behind_the_end(log: ResponseLog) -> None:
    await filled(log, 2)
    log.finish()
    await log.append(noting([], b"late"))
    assert await read(log) == [0, 1]


async def test_a_result_that_outgrows_its_room_is_refused(spool: Spool) -> None:
    log = ResponseLog(spool, LogLimits(window_bytes=0, spool_bytes_max=1_000))
    with pytest.raises(BailiwickError) as refused:
        await filled(log, 3, 400)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED


async def test_a_closed_log_takes_nothing_and_gives_nothing(log: ResponseLog, spool: Spool) -> None:
    await filled(log, 20, 500)
    log.close()
    await log.append(noting([], b"late"))
    assert (log.memory_bytes, log.disk_bytes, spool.held_bytes) == (0, 0, 0)
    with pytest.raises(BailiwickError):
        await read(log)


async def test_all_logs_together_hold_no_more_than_their_share_of_memory(spool: Spool) -> None:
    memory = SharedMemory(bytes_max=2_000)
    limits = LogLimits(window_bytes=2_000, spool_bytes_max=100_000, memory=memory)
    one, other = ResponseLog(spool, limits), ResponseLog(spool, limits)
    await filled(one, 5, 500)
    await filled(other, 3, 500)
    assert other.disk_bytes == 1_500
    one.close()
    other.close()
    assert (memory.held_bytes, spool.held_bytes) == (0, 0)
