"""The engine never waits for a reader, memory stays flat, and the order is exact."""

import asyncio
import errno
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.results.batches import Frame, FrameKind
from bailiwick.results.config import ResultsConfig
from bailiwick.results.delivery import Delivery
from bailiwick.results.spool import Bytes, Spool, SpoolFile

MB = 1 << 20
CONFIG = ResultsConfig(window_bytes=MB, spool_bytes_max=200 * MB, spool_total_bytes_max=300 * MB)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool", total_bytes_max=300 * MB)
    spool.clear_leftovers()
    yield spool
    spool.close()


def frame(number: int, size_bytes: int = 1000) -> Frame:
    header = number.to_bytes(8, "little")
    return Frame(FrameKind.BATCH, header, memoryview(bytes([number % 256]) * size_bytes))


def number_of(frame: Frame) -> int:
    number = int.from_bytes(frame.header, "little")
    assert bytes(frame.body) == bytes([number % 256]) * len(frame.body)
    return number


async def take(frames: AsyncIterator[Frame], count: int) -> list[int]:
    return [number_of(await anext(frames)) for _ in range(count)]


async def eventually(condition: Callable[[], bool], *, within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


async def test_while_memory_is_short_a_result_waits_on_disk_and_comes_out_whole(tmp_path: Path) -> None:
    spool = Spool(tmp_path, total_bytes_max=300 * MB, is_memory_short=lambda: True)
    delivery = Delivery(spool, CONFIG)
    for number in range(400):
        await delivery.put(frame(number))
    await eventually(lambda: delivery.disk_bytes > 0)
    assert delivery.memory_bytes_peak < CONFIG.window_bytes // 2
    delivery.finish()
    assert [number_of(one) async for one in delivery.frames()] == list(range(400))
    delivery.close()
    spool.close()


async def test_the_first_frame_is_there_before_the_second_is_made(spool: Spool) -> None:
    delivery = Delivery(spool, CONFIG)
    reader = asyncio.ensure_future(take(delivery.frames(), 1))
    await asyncio.sleep(0)
    assert not reader.done()
    await delivery.put(frame(7))
    assert await asyncio.wait_for(reader, 1) == [7]
    delivery.close()


async def test_a_producer_does_not_wait_for_a_reader_that_reads_nothing(spool: Spool) -> None:
    delivery = Delivery(spool, CONFIG)
    for number in range(1000):
        await delivery.put(frame(number, 100_000))
    delivery.finish()
    assert delivery.memory_bytes_peak <= CONFIG.window_bytes + 200_000
    assert delivery.disk_bytes > 90 * MB
    assert [number_of(frame) async for frame in delivery.frames()] == list(range(1000))
    assert delivery.memory_bytes_peak <= CONFIG.window_bytes + 200_000
    assert (delivery.disk_bytes, spool.held_bytes) == (0, 0)
    delivery.close()


async def test_memory_stays_flat_under_a_million_tiny_frames(spool: Spool) -> None:
    delivery = Delivery(spool, CONFIG)
    tiny = frame(0, 0)
    for _ in range(100_000):
        await delivery.put(tiny)
    delivery.finish()
    assert delivery.memory_bytes_peak <= CONFIG.window_bytes + 10_000
    assert len([1 async for _ in delivery.frames()]) == 100_000
    delivery.close()


async def test_a_reader_that_catches_up_is_served_from_memory_again(spool: Spool) -> None:
    delivery = Delivery(spool, CONFIG)
    frames = delivery.frames()
    for number in range(50):
        await delivery.put(frame(number, 100_000))
    assert await take(frames, 50) == list(range(50))
    assert (delivery.memory_bytes, delivery.disk_bytes, spool.held_bytes) == (0, 0, 0)
    spooled = delivery.spooled_bytes
    assert spooled > 0
    for number in range(50, 60):
        await delivery.put(frame(number, 100_000))
        assert await take(frames, 1) == [number]
    assert delivery.spooled_bytes == spooled
    delivery.close()


@pytest.mark.parametrize("pattern", [(1, 1), (7, 3), (3, 7), (40, 1), (1, 40), (13, 13)])
async def test_order_is_exact_whatever_the_pace(spool: Spool, pattern: tuple[int, int]) -> None:
    delivery = Delivery(spool, CONFIG)
    seen: list[int] = []

    async def produce() -> None:
        for number in range(400):
            await delivery.put(frame(number, 50_000 if number % 3 else 90))
            if number % pattern[0] == 0:
                await asyncio.sleep(0)
        delivery.finish()

    async def read() -> None:
        async for one in delivery.frames():
            seen.append(number_of(one))
            if len(seen) % pattern[1] == 0:
                await asyncio.sleep(0.001)

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(produce())
        tasks.create_task(read())
    assert seen == list(range(400))
    delivery.close()
    assert spool.held_bytes == 0


async def test_disk_is_given_back_as_it_is_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path, total_bytes_max=300 * MB, file_bytes_max=MB)
    delivery = Delivery(spool, CONFIG)
    for number in range(300):
        await delivery.put(frame(number, 100_000))
    delivery.finish()
    frames = delivery.frames()
    held = [spool.held_bytes]
    for start in range(0, 300, 100):
        assert await take(frames, 100) == list(range(start, start + 100))
        held.append(spool.held_bytes)
    assert held[0] > held[1] > held[2] > held[3] == 0
    delivery.close()
    spool.close()


async def test_a_frame_larger_than_the_window_passes(spool: Spool) -> None:
    delivery = Delivery(spool, CONFIG)
    for number in range(4):
        await delivery.put(frame(number, 3 * MB))
    delivery.finish()
    assert [number_of(one) async for one in delivery.frames()] == [0, 1, 2, 3]
    delivery.close()


async def test_a_result_beyond_its_room_is_refused_and_not_worth_trying_again(spool: Spool) -> None:
    delivery = Delivery(spool, ResultsConfig(window_bytes=MB, spool_bytes_max=2 * MB))
    with pytest.raises(BailiwickError) as refused:
        await put_many(delivery, 100)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert refused.value.retryable is False
    assert delivery.disk_bytes <= 2 * MB
    delivery.close()
    assert spool.held_bytes == 0


async def test_the_room_of_all_is_shared_and_given_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path, total_bytes_max=3 * MB)
    first, second = Delivery(spool, CONFIG), Delivery(spool, CONFIG)
    await put_many(first, 30)
    with pytest.raises(BailiwickError, match="share"):
        await put_many(second, 100)
    second.close()
    first.close()
    assert spool.held_bytes == 0
    third = Delivery(spool, CONFIG)
    await put_many(third, 30)
    third.close()
    spool.close()


class FullDisk(Spool):
    """A spool on a disk without room."""

    def new_file(self) -> SpoolFile:
        return FullFile(Path("nowhere"))


class FullFile(SpoolFile):
    def write(self, offset: int, pieces: Sequence[Bytes]) -> None:
        del offset, pieces
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_full_disk_is_a_storage_error(tmp_path: Path) -> None:
    spool = FullDisk(tmp_path, total_bytes_max=300 * MB)
    delivery = Delivery(spool, CONFIG)
    with pytest.raises(BailiwickError) as refused:
        await put_many(delivery, 100)
    assert refused.value.code is Code.STORAGE_ERROR
    assert refused.value.retryable is False
    delivery.close()
    assert spool.held_bytes == 0
    spool.close()


async def test_what_a_full_disk_refused_last_is_still_delivered_from_memory(tmp_path: Path) -> None:
    spool = FullDisk(tmp_path, total_bytes_max=300 * MB)
    delivery = Delivery(spool, CONFIG)
    await put_many(delivery, 9)
    delivery.finish()
    assert [number_of(one) async for one in delivery.frames()] == list(range(9))
    delivery.close()
    spool.close()


async def test_a_failure_reaches_the_reader_at_once_and_frees_everything(spool: Spool) -> None:
    delivery = Delivery(spool, CONFIG)
    await put_many(delivery, 100)
    frames = delivery.frames()
    assert await take(frames, 1) == [0]
    delivery.fail(BailiwickError(Code.DIVISION_BY_ZERO, "division by zero"))
    delivery.fail(BailiwickError(Code.QUERY_CANCELLED, "too late"))
    assert (delivery.memory_bytes, delivery.disk_bytes, spool.held_bytes) == (0, 0, 0)
    with pytest.raises(BailiwickError) as failed:
        await anext(frames)
    assert failed.value.code is Code.DIVISION_BY_ZERO
    await delivery.put(frame(1))
    assert delivery.memory_bytes == 0
    delivery.close()


async def test_a_failure_wakes_a_waiting_reader(spool: Spool) -> None:
    delivery = Delivery(spool, CONFIG)
    reader = asyncio.ensure_future(take(delivery.frames(), 1))
    await asyncio.sleep(0)
    delivery.fail(BailiwickError(Code.QUERY_CANCELLED, "cancelled"))
    with pytest.raises(BailiwickError, match="cancelled"):
        await asyncio.wait_for(reader, 1)
    delivery.close()


async def test_a_reader_that_takes_nothing_is_ended(spool: Spool) -> None:
    ended: list[BailiwickError] = []
    config = CONFIG.model_copy(update={"reader_idle_s": 0.05})
    delivery = Delivery(spool, config, on_idle=ended.append)
    await put_many(delivery, 100)
    await eventually(lambda: bool(ended))
    assert ended[0].code is Code.QUERY_CANCELLED
    assert "0.05 s" in ended[0].message
    assert (delivery.memory_bytes, spool.held_bytes) == (0, 0)
    with pytest.raises(BailiwickError, match="took nothing"):
        await anext(delivery.frames())
    delivery.close()


async def test_a_reader_that_waits_for_a_slow_engine_is_not_idle(spool: Spool) -> None:
    ended: list[BailiwickError] = []
    config = CONFIG.model_copy(update={"reader_idle_s": 0.05})
    delivery = Delivery(spool, config, on_idle=ended.append)
    frames = delivery.frames()
    await delivery.put(frame(0))
    assert await take(frames, 1) == [0]
    waiting = asyncio.ensure_future(take(frames, 1))
    await asyncio.wait([waiting], timeout=0.2)
    assert not ended
    await delivery.put(frame(1))
    assert await waiting == [1]
    delivery.close()


async def test_closing_while_the_disk_is_busy_frees_everything(spool: Spool) -> None:
    for _ in range(20):
        delivery = Delivery(spool, CONFIG)
        await put_many(delivery, 40)
        reader = asyncio.ensure_future(take(delivery.frames(), 40))
        for _ in range(12):
            await asyncio.sleep(0)
        delivery.close()
        reader.cancel()
        await asyncio.wait([reader])
        assert spool.held_bytes == 0


async def test_in_memory_it_is_not_what_bounds_the_throughput(spool: Spool) -> None:
    delivery = Delivery(spool, ResultsConfig())
    one = frame(0, 2 * MB)

    async def produce() -> None:
        for number in range(500):
            await delivery.put(one)
            if number % 3 == 0:
                await asyncio.sleep(0)
        delivery.finish()

    started = time.perf_counter()
    producing = asyncio.ensure_future(produce())
    size = sum([part.size_bytes async for part in delivery.frames()])
    elapsed_s = time.perf_counter() - started
    await producing
    assert size / elapsed_s > 500e6
    delivery.close()


async def put_many(delivery: Delivery, count: int) -> None:
    for number in range(count):
        await delivery.put(frame(number, 100_000))
