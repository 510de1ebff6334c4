"""`bailiwick top` at a real terminal and in a pipe, against a door that answers from a script."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from flight_door import PASSWORD, Door, serving

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.system_tables import NODES_SCHEMA, QUERIES_SCHEMA
from bailiwick.testing.gateway import clean_environment, command
from bailiwick.testing.scripted_queries import Script
from bailiwick.testing.terminal import at_terminal

NODE = {"node_id": "east-1", "state": "ready", "health": "healthy", "restarts": 0, "running": 1}
QUERY = {
    "query_id": "q1",
    "principal": "ann",
    "node_id": "east-1",
    "state": "running",
    "elapsed_ms": 10.0,
    "created_at": datetime(2026, 11, 16, tzinfo=UTC),
    "attempts": 1,
    "is_fallback": False,
    "sql": "SELECT 42",
}


def script(schema: pa.Schema, row: dict[str, object]) -> Script:
    return Script(pa.Table.from_pylist([row], schema=schema))


def queries_script() -> Script:
    schema = QUERIES_SCHEMA.append(pa.field("ended", pa.bool_()))
    return script(schema, {**QUERY, "ended": False})


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with serving() as door:
        door.queries.by_prefix["SELECT node_id"] = script(NODES_SCHEMA, NODE)
        door.queries.by_prefix["SELECT query_id"] = queries_script()
        yield door


def environment(door: Door) -> dict[str, str]:
    return clean_environment({"BAILIWICK_URL": door.uri, "BAILIWICK_PASSWORD": PASSWORD})


def line(*arguments: str) -> list[str]:
    return [str(command()), "top", "--user", "ann", *arguments]


@pytest.mark.parametrize("key", ["q", "Q", "\x03", "\x04"])
async def test_it_looks_again_and_again_until_a_key_ends_it(door: Door, key: str) -> None:
    def session() -> int:
        with at_terminal(line("--every", "0.5"), environment(door), columns=120) as terminal:
            terminal.expect("east-1")
            terminal.expect("SELECT 42")
            terminal.expect("east-1")
            terminal.type(key)
            return terminal.wait()

    assert await asyncio.to_thread(session) == 0
    assert len(door.queries.runs) >= 4


async def test_a_gateway_in_trouble_is_looked_for_again(door: Door) -> None:
    def beginning() -> None:
        terminal.expect("SELECT 42")

    def middle() -> None:
        terminal.expect("what stands here is old: INTERNAL_ERROR: out of order")

    def ending() -> int:
        terminal.expect("east-1")
        terminal.type("q")
        return terminal.wait()

    with at_terminal(line("--every", "0.5"), environment(door), columns=120) as terminal:
        await asyncio.to_thread(beginning)
        broken = BailiwickError(Code.INTERNAL_ERROR, "out of order")
        door.queries.by_prefix["SELECT query_id"] = Script(pa.table({}), failure=broken)
        await asyncio.to_thread(middle)
        door.queries.by_prefix["SELECT query_id"] = queries_script()
        assert await asyncio.to_thread(ending) == 0


@pytest.mark.parametrize("arguments", [("--once",), ()])
async def test_without_a_terminal_one_picture_is_printed(door: Door, arguments: tuple[str, ...]) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        line(*arguments),
        env=environment(door),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "east-1" in done.stdout
    assert "SELECT 42" in done.stdout
    assert "\x1b" not in done.stdout


async def test_once_at_a_terminal_ends_by_itself(door: Door) -> None:
    def session() -> int:
        with at_terminal(line("--once"), environment(door)) as terminal:
            terminal.expect("east-1")
            return terminal.wait()

    assert await asyncio.to_thread(session) == 0
