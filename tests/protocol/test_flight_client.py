"""Our own client and the `bailiwick query` command, against a real door."""

import asyncio
import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from flight_door import NUMBERS, PASSWORD, Door, serving

from bailiwick.cli.sql_text import progress_of
from bailiwick.client.address import Address
from bailiwick.client.credentials import Password, Token
from bailiwick.client.errors import QueryFailed, Unreachable
from bailiwick.client.flight import FlightClient
from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.ids import NodeId
from bailiwick.queries.statement import RanOn, SubmissionKey
from bailiwick.testing.scripted_queries import Script

COMMAND = str(Path(sys.executable).parent / "bailiwick")
DEADLINE_S = 30.0


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with serving() as running:
        yield running


@pytest.fixture
async def client(door: Door) -> AsyncIterator[FlightClient]:
    async with FlightClient(Address("127.0.0.1", door.port), Password("ann", PASSWORD)) as opened:
        yield opened


async def test_an_answer_has_schema_id_and_batches(client: FlightClient, door: Door) -> None:
    async with client.execute("numbers") as answer:
        assert answer.schema == NUMBERS.schema
        assert await answer.table() == NUMBERS
    assert answer.query_id == door.queries.runs[0].query_id


async def test_empty_and_columnless_answers_are_read(client: FlightClient) -> None:
    async with client.execute("empty") as answer:
        assert (await answer.table()).schema == NUMBERS.schema
    async with client.execute("no columns") as answer:
        assert sum([batch.num_rows async for batch in answer.batches()]) == 3
    async with client.execute("insert") as answer:
        assert answer.total_records == 3
        assert (await answer.table()).num_rows == 0


async def test_a_token_is_enough(door: Door) -> None:
    async with FlightClient(Address("127.0.0.1", door.port), Token(door.token())) as client:
        async with client.execute("numbers") as answer:
            assert (await answer.table()).num_rows == 10


async def test_the_ipv6_address_answers_too(door: Door) -> None:
    async with FlightClient(Address("::1", door.port), Password("ann", PASSWORD)) as client:
        async with client.execute("numbers") as answer:
            assert (await answer.table()).num_rows == 10


async def test_a_failure_has_all_its_facts(client: FlightClient, door: Door) -> None:
    error = BailiwickError(Code.COMMIT_CONFLICT, "Somebody was quicker.", query_id="q7")
    door.queries.scripts["conflict"] = Script(NUMBERS, failure=error)
    with pytest.raises(QueryFailed) as caught:
        async with client.execute("conflict") as answer:
            await answer.table()
    failure = caught.value
    assert (failure.code, failure.message) == ("COMMIT_CONFLICT", "Somebody was quicker.")
    assert (failure.sqlstate, failure.retryable, failure.query_id) == ("40001", True, "q7")


async def test_leaving_early_ends_the_query(client: FlightClient, door: Door) -> None:
    door.queries.hold("numbers")
    async with client.execute("numbers") as answer:
        assert (await anext(aiter(answer.batches()))).num_rows == 10
    async with asyncio.timeout(DEADLINE_S):
        await door.queries.runs[0].ended.wait()
    assert door.queries.runs[0].cancelled


async def test_a_wrong_password_is_a_failed_query_and_a_dead_address_is_not(door: Door) -> None:
    with pytest.raises(QueryFailed, match="AUTHENTICATION_FAILED"):
        async with FlightClient(Address("127.0.0.1", door.port), Password("ann", "wrong")):
            pass
    for credentials in (Password("ann", PASSWORD), Token("t")):
        with pytest.raises(Unreachable):
            async with (
                FlightClient(Address("127.0.0.1", 1), credentials) as client,
                client.execute("numbers"),
            ):
                pass


async def bailiwick(
    door: Door, *arguments: str, password: str = PASSWORD, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    options = ("--host", "127.0.0.1", "--port", str(door.port))
    variables = {**os.environ, "BAILIWICK_PASSWORD": password}
    command: Sequence[str] = (COMMAND, *arguments, *options)
    return await asyncio.to_thread(
        subprocess.run, command, env=variables, capture_output=True, input=stdin, check=False
    )


async def test_query_prints_every_format(door: Door) -> None:
    def table(data: bytes) -> pa.Table:
        return pa.ipc.open_stream(data).read_all()

    outputs = {}
    for name in ("table", "csv", "json", "arrow"):
        done = await bailiwick(door, "query", "--user", "ann", "-e", "numbers", "--format", name)
        assert (done.returncode, done.stderr) == (0, b"")
        outputs[name] = done.stdout
    assert b"10 rows" in outputs["table"]
    assert list(csv.reader(io.StringIO(outputs["csv"].decode())))[1] == ["0", "n0"]
    assert json.loads(outputs["json"].splitlines()[9]) == {"id": 9, "name": "n9"}
    assert table(outputs["arrow"]) == NUMBERS


async def test_a_failed_query_ends_with_1_and_its_code_on_stderr(door: Door) -> None:
    done = await bailiwick(door, "query", "--user", "ann", "-e", "no such thing")
    assert done.returncode == 1
    assert done.stderr.startswith(b"SYNTAX_ERROR: no such script")
    assert done.stdout == b""
    done = await bailiwick(door, "query", "--user", "ann", "-e", "numbers", password="wrong")
    assert done.returncode == 1
    assert done.stderr.startswith(b"AUTHENTICATION_FAILED: ")


async def test_a_token_made_by_the_command_line_is_printed_alone(door: Door) -> None:
    made = pa.table({"token": ["bw_secret"], "id": ["t1"]})
    door.queries.scripts["CREATE TOKEN FOR `bob` TTL '8h'"] = Script(made, kind=Kind.CHANGE)
    done = await bailiwick(door, "token", "create", "--for", "bob", "--ttl", "8h", "--user", "ann")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"bw_secret\n", b"")


async def test_users_are_added_and_listed(door: Door) -> None:
    statement = "CREATE USER `o'neil` WITH PASSWORD 'it''s' ROLES (`reader`, `writer`)"
    door.queries.scripts[statement] = Script(pa.table({}), kind=Kind.CHANGE)
    door.queries.scripts["SHOW USERS"] = Script(pa.table({"name": ["o'neil"]}), kind=Kind.SHOWS)
    roles = ("--role", "reader", "--role", "writer")
    added = await bailiwick(
        door, "user", "add", "o'neil", *roles, "--password-stdin", "--user", "ann", stdin=b"it's\n"
    )
    assert (added.returncode, added.stdout) == (0, b"user o'neil added\n")
    listed = await bailiwick(door, "user", "list", "--user", "ann")
    assert b"o'neil" in listed.stdout


async def test_ctrl_c_ends_the_query_on_the_gateway(door: Door) -> None:
    door.queries.hold("numbers")
    command = [
        COMMAND,
        "query",
        "--port",
        str(door.port),
        "--user",
        "ann",
        "-e",
        "numbers",
        "--format",
        "csv",
    ]
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "BAILIWICK_PASSWORD": PASSWORD}, stdout=-1, stderr=-1
    )
    async with asyncio.timeout(DEADLINE_S):
        await door.queries.started.wait()
        process.send_signal(signal.SIGINT)
        _, stderr = await process.communicate()
        await door.queries.runs[0].ended.wait()
    assert (process.returncode, stderr) == (130, b"cancelled\n")
    assert door.queries.runs[0].cancelled


async def test_a_long_query_shows_its_progress_on_a_terminal(door: Door) -> None:
    held = door.queries.hold("call")
    progress = pa.table({"tasks_done": [3], "tasks_total": [8], "state": ["running"]})
    door.queries.by_prefix[progress_of("").removesuffix("''")] = Script(progress)
    terminal, stderr = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *[COMMAND, "query", "--port", str(door.port), "--user", "ann", "-e", "call"],
        env={**os.environ, "BAILIWICK_PASSWORD": PASSWORD, "TERM": "xterm", "COLUMNS": "120"},
        stdout=-1,
        stderr=stderr,
    )
    os.close(stderr)
    try:
        shown = await asyncio.wait_for(asyncio.to_thread(_read_until, terminal, b"3/8"), DEADLINE_S)
        held.set()
        stdout, _ = await process.communicate()
    finally:
        os.close(terminal)
    assert b"running" in shown
    assert b"n1" in stdout
    assert process.returncode == 0


def _read_until(descriptor: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        seen += os.read(descriptor, 4096)
    return seen


async def test_an_answer_of_the_gateways_own_engine_is_told_on_stderr(door: Door) -> None:
    where = RanOn(NodeId("embedded"), is_fallback=True)
    for text in ("numbers", "insert"):
        door.queries.scripts[text] = replace(door.queries.scripts[text], ran_on=where)
        done = await bailiwick(door, "query", "--user", "ann", "-e", text, "--format", "csv")
        assert done.returncode == 0
        assert done.stderr == b"ran on embedded, the gateway's own engine: no other could take it\n"


async def test_a_statement_is_given_its_placement_and_its_key(door: Door) -> None:
    wishes = ("--placement", "prefer", "--idempotency-key", "order-17")
    done = await bailiwick(door, "query", "--user", "ann", "-e", "numbers", *wishes)
    assert (done.returncode, done.stderr) == (0, b"")
    statement = door.queries.runs[0].statement
    assert (statement.placement, statement.submission) == (Placement.PREFER, SubmissionKey("order-17"))
    done = await bailiwick(door, "query", "--user", "ann", *wishes)
    assert done.returncode == 2
    assert b"give it with -e" in done.stderr
