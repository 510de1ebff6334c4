"""How full an engine is, from what it said last and from what the machine says of it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from keeper_house import eventually

from bailiwick.engines.process import EngineMeasures, EngineProcess
from bailiwick.fleet.measures import measured, measured_here, memory_limit_bytes
from bailiwick.fleet.memory import MemoryUse

TOLD = {
    "unified_used": 300,
    "unified_max": 600,
    "heap_after_full_gc": 250,
    "heap_max": 1000,
    "active_operations": 2,
}
LINE = "bailiwick-engine measures " + json.dumps(TOLD)


@asynccontextmanager
async def saying(directory: Path, *lines: str) -> AsyncIterator[EngineProcess]:
    """A process that says these lines, and then `listening`."""
    said = "\n".join((*lines, "bailiwick-engine listening on 7"))
    script = f"import sys\nprint({said!r}, flush=True)\n"
    process = await EngineProcess.start(
        [sys.executable, "-c", script + "sys.stdin.read()"],
        environment={},
        directory=directory,
        log=directory / "engine.log",
    )
    try:
        assert await asyncio.wait_for(asyncio.shield(process.port), 30) == 7
        yield process
    finally:
        await process.end(1)


async def test_measures_are_read_and_do_not_fill_the_log(tmp_path: Path) -> None:
    async with saying(tmp_path, "a word", LINE) as process:
        seen = measured(process, 1 << 40)
    assert seen.active_operations == 2
    assert seen.memory.unified_ratio == 0.5
    assert seen.memory.heap_after_full_gc_ratio == 0.25
    assert 0 < (seen.memory.rss_ratio or 0) < 1
    assert (tmp_path / "engine.log").read_text().count("measures") == 0


async def test_a_line_that_makes_no_sense_changes_nothing(tmp_path: Path) -> None:
    async with saying(
        tmp_path, LINE, "bailiwick-engine measures {}", "bailiwick-engine measures ["
    ) as process:
        assert process.measures is not None
        assert process.measures.unified_used == 300


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"null",
        b"7",
        json.dumps(TOLD | {"heap_max": -1}).encode(),
        json.dumps(TOLD | {"heap_max": 1 << 63}).encode(),
        json.dumps(TOLD | {"heap_max": 1.5}).encode(),
        json.dumps(TOLD | {"heap_max": True}).encode(),
        json.dumps(TOLD | {"more": 1}).encode(),
        b"[" * 5000,
    ],
)
def test_only_whole_numbers_under_the_known_names_are_measures(told: bytes) -> None:
    assert EngineMeasures.parse(told, 0.0) is None


async def test_before_the_first_full_collection_nothing_is_said_of_the_heap(tmp_path: Path) -> None:
    line = "bailiwick-engine measures " + json.dumps(TOLD | {"heap_after_full_gc": 0, "unified_max": 0})
    async with saying(tmp_path, line) as process:
        memory = measured(process, 1 << 40).memory
    assert memory.heap_after_full_gc_ratio is None
    assert memory.unified_ratio is None


async def test_what_spark_keeps_while_nothing_is_at_work_does_not_count(tmp_path: Path) -> None:
    line = "bailiwick-engine measures " + json.dumps(TOLD | {"active_operations": 0})
    async with saying(tmp_path, line) as process:
        memory = measured(process, 1 << 40).memory
    assert memory.unified_ratio is None
    assert memory.heap_after_full_gc_ratio == 0.25


def test_a_process_can_look_at_itself() -> None:
    assert 0 < (measured_here(1 << 40).rss_ratio or 0) < 1


async def test_of_an_engine_that_stands_still_only_its_size_is_told(tmp_path: Path) -> None:
    async with saying(tmp_path, LINE) as process:
        os.kill(process.pid, signal.SIGSTOP)
        await eventually(lambda: measured(process, 1 << 40).memory.unified_ratio is None)
        seen = measured(process, 1 << 40)
    assert seen.memory.rss_ratio is not None
    assert seen.active_operations == 2


async def test_of_an_engine_that_is_gone_nothing_is_told(tmp_path: Path) -> None:
    async with saying(tmp_path, LINE) as process:
        pass
    assert measured(process, 1 << 40).memory == measured(None, 1).memory == MemoryUse()


def test_the_limit_is_that_of_the_container_if_there_is_one(tmp_path: Path) -> None:
    limit, unlimited = tmp_path / "memory.max", tmp_path / "unlimited"
    limit.write_text("1048576\n")
    unlimited.write_text("max\n")
    assert memory_limit_bytes((limit,)) == 1048576
    assert memory_limit_bytes((unlimited, limit)) == 1048576
    assert memory_limit_bytes((unlimited,)) > 1 << 20
