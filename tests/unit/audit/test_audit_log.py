"""The log keeps what it was given, in order; nobody changes it; nobody waits who need not; holes are told."""

import asyncio
import io
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from audited import Audited, audited, entry
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from bailiwick.audit.anchor_file import NAME
from bailiwick.audit.chain import Anchor
from bailiwick.audit.entry import AuditEntry, Kind
from bailiwick.audit.log import AuditLog
from bailiwick.audit.store import TAIL_MAX, Search
from bailiwick.errors import BailiwickError, Code
from bailiwick.telemetry import logs
from bailiwick.telemetry.config import LoggingConfig


async def eventually(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


async def test_what_is_noted_is_on_disk_a_moment_later_and_in_order(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        for number in range(1_200):
            world.log.note(entry(str(number)))
        await eventually(lambda: world.store.end().sequence == 1_200)
        assert await world.texts() == [str(number) for number in range(1_200)]


async def test_what_is_written_is_on_disk_when_it_returns_after_all_before_it(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        world.log.note(entry("noted"))
        anchor = await world.log.write(entry("written"))
        assert anchor == world.store.end() == Anchor(2, anchor.hash)
        assert await world.texts() == ["noted", "written"]


async def test_threads_note_and_write_without_losing_anything(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:

        def work(worker: int) -> None:
            for number in range(50):
                world.log.note(entry(f"{worker}.{number}"))
            world.log.write_from_thread(entry(f"{worker}.last"))

        with ThreadPoolExecutor(8) as pool:
            await asyncio.gather(
                *(asyncio.get_running_loop().run_in_executor(pool, work, worker) for worker in range(8))
            )
        texts = await world.texts()
        assert len(texts) == 8 * 51
        for worker in range(8):
            own = [each for each in texts if each.startswith(f"{worker}.")]
            assert own == [*(f"{worker}.{number}" for number in range(50)), f"{worker}.last"]
        assert (await world.log.verify()).is_sound


async def test_closing_writes_what_is_left_and_the_anchor(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        for number in range(700):
            world.log.note(entry(str(number)))
        await world.log.close()
        await world.log.close()
        assert world.store.end().sequence == 700
        assert world.anchor_file.read() == world.store.end()
        with pytest.raises(BailiwickError, match="audit log"):
            await world.log.write(entry("too late"))


async def test_the_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        await world.log.write(entry("before"))
    async with audited(tmp_path) as world:
        await world.log.write(entry("after"))
        found = await world.log.verify()
        assert (found.is_sound, found.count, found.gaps) == (True, 2, 0)


async def test_a_log_is_opened_from_its_directory(tmp_path: Path) -> None:
    world = Audited(tmp_path)
    opened = await AuditLog.open(world.database, tmp_path)
    await opened.write(entry())
    await opened.close()
    await world.database.close()
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    assert not [each.name for each in os.scandir(tmp_path) if each.name.startswith(".")]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET principal = 'eve' WHERE sequence = 1",
        "DELETE FROM audit",
        "DELETE FROM audit WHERE sequence = 3",
        "REPLACE INTO audit SELECT sequence, 1.0, 'eve', NULL, NULL, entry, previous, hash FROM audit",
        "INSERT INTO audit VALUES (9, 1.0, 'eve', NULL, NULL, '{}', 'a', 'b')",
        "INSERT INTO audit VALUES (0, 1.0, 'eve', NULL, NULL, '{}', 'a', 'b')",
        "REPLACE INTO audit VALUES (2, 1.0, 'eve', NULL, NULL, '{}', 'a', 'b')",
    ],
)
async def test_the_database_refuses_to_change_or_forget_entries(tmp_path: Path, statement: str) -> None:
    async with audited(tmp_path) as world:
        for number in range(3):
            await world.log.write(entry(str(number)))
        with (
            pytest.raises(IntegrityError, match="append-only"),
            world.database.synchronous.begin() as connection,
        ):
            connection.execute(text(statement))
        assert (await world.log.verify()).count == 3


def tampered(directory: Path, *statements: str) -> None:
    """With the file itself at hand and the triggers gone, everything can be done."""
    with sqlite3.connect(directory / "bailiwick.db") as connection:
        for trigger in ("audit_is_appended", "audit_is_never_changed", "audit_is_never_deleted"):
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "broken_at"),
    [
        ("UPDATE audit SET entry = replace(entry, 'ann', 'eve') WHERE sequence = 2", 2),
        ("UPDATE audit SET principal = 'eve' WHERE sequence = 2", 2),
        ("UPDATE audit SET at = 7 WHERE sequence = 3", 3),
        ("UPDATE audit SET query_id = NULL WHERE sequence = 1", 1),
        ("UPDATE audit SET hash = previous WHERE sequence = 4", 4),
        ("DELETE FROM audit WHERE sequence = 3", 3),
        ("DELETE FROM audit WHERE sequence = 1", 1),
        ("DELETE FROM audit WHERE sequence > 3", 4),
        ("DELETE FROM audit", 1),
    ],
)
async def test_what_was_done_behind_its_back_is_found(tmp_path: Path, statement: str, broken_at: int) -> None:
    async with audited(tmp_path) as world:
        for number in range(5):
            await world.log.write(entry(str(number)))
    world = Audited(tmp_path)
    tampered(tmp_path, statement)
    found = await world.log.verify()
    await world.database.close()
    assert found.broken is not None
    assert found.broken.sequence == broken_at


async def test_a_log_whose_end_is_missing_says_so_in_its_next_entry(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        for number in range(5):
            await world.log.write(entry(str(number)))
    tampered(tmp_path, "DELETE FROM audit WHERE sequence > 3")
    async with audited(tmp_path) as world:
        found = await world.log.verify()
        assert (found.is_sound, found.gaps) == (True, 1)
        (last,) = await world.log.tail(1)
        assert last.entry.kind is Kind.GAP
        assert "its end was cut off" in last.entry.what


@pytest.mark.parametrize("content", [None, b"", b"rubbish", b"\xff" * 1000])
async def test_a_missing_or_broken_anchor_file_is_told(tmp_path: Path, content: bytes | None) -> None:
    async with audited(tmp_path) as world:
        await world.log.write(entry())
    path = tmp_path / NAME
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    world = Audited(tmp_path)
    found = await world.log.verify()
    assert found.broken is not None
    assert "anchor file" in found.broken.why
    await world.database.close()
    async with audited(tmp_path) as world:
        assert (await world.log.verify()).gaps == 1


async def test_the_anchor_follows_while_the_gateway_runs(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        anchor = await world.log.write(entry())
        await eventually(lambda: world.anchor_file.read() == anchor)


async def test_an_anchor_from_elsewhere_must_be_met(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        seen = await world.log.write(entry("a"))
        await world.log.write(entry("b"))
        assert (await world.log.verify([seen])).is_sound
        assert not (await world.log.verify([Anchor(1, "f" * 64)])).is_sound
        assert not (await world.log.verify([Anchor(99, "f" * 64)])).is_sound


async def test_a_change_whose_entry_cannot_be_written_is_refused_and_leaves_no_entry(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        world.store.is_full = True
        with pytest.raises(BailiwickError) as refused:
            await world.log.write(entry("change"))
        assert refused.value.code is Code.STORAGE_ERROR
        assert "space" not in refused.value.message
        assert world.log.is_failing
        world.store.is_full = False
        await world.log.write(entry("next"))
        assert await world.texts() == ["next"]
        assert not world.log.is_failing


async def test_what_was_noted_while_the_disk_failed_is_kept_later(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        world.store.is_full = True
        world.log.note(entry("a"))
        with pytest.raises(BailiwickError):
            await world.log.flush()
        world.log.note(entry("b"))
        world.store.is_full = False
        await world.log.flush()
        assert await world.texts() == ["a", "b"]


async def test_entries_beyond_the_queue_are_counted_in_the_log_itself(tmp_path: Path) -> None:
    async with audited(tmp_path, queue_length_max=10) as world:
        world.store.is_full = True
        for number in range(13):
            world.log.note(entry(str(number)))
        with pytest.raises(BailiwickError):
            await world.log.flush()
        world.store.is_full = False
        await world.log.flush()
        assert await world.texts() == ["3 entries could not be kept", *map(str, range(10))]
        found = await world.log.verify()
        assert (found.is_sound, found.gaps) == (True, 1)


async def test_new_work_is_held_back_before_the_queue_is_full(tmp_path: Path) -> None:
    async with audited(tmp_path, queue_length_max=10) as world:
        await world.log.admit()
        world.store.is_full = True
        for number in range(5):
            world.log.note(entry(str(number)))
        with pytest.raises(BailiwickError) as refused:
            await world.log.admit()
        assert (refused.value.code, refused.value.retryable) == (Code.STORAGE_ERROR, True)
        waiting = asyncio.create_task(world.log.admit())
        world.store.is_full = False
        await world.log.flush()
        await waiting


async def test_a_failing_disk_is_loud(tmp_path: Path) -> None:
    stream = io.StringIO()
    logs.configure(LoggingConfig(format="json"), stream=stream)
    async with audited(tmp_path) as world:
        world.store.is_full = True
        world.log.note(entry("SELECT 'private'"))
        with pytest.raises(BailiwickError):
            await world.log.flush()
        await world.log.close()
    assert "audit_not_written" in stream.getvalue()
    assert "audit_entries_lost_at_the_end" in stream.getvalue()
    assert "private" not in stream.getvalue()


async def test_an_entry_that_cannot_be_written_keeps_no_other_out(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        world.log.note(AuditEntry(float("nan"), Kind.QUERY, "ann", "x", None))  # type: ignore[arg-type]
        world.log.note(entry("next"))
        await world.log.flush()
        assert await world.texts() == ["an entry could not be written as it was", "next"]


async def test_whoever_stops_waiting_does_not_stop_the_entry(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        task = asyncio.create_task(world.log.write(entry("change")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await world.log.flush()
        assert await world.texts() == ["change"]


async def test_noting_never_waits_for_the_disk(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        with world.database.synchronous.begin():
            began_at = time.monotonic()
            for number in range(1_000):
                world.log.note(entry(str(number)))
            assert time.monotonic() - began_at < 0.5
        await world.log.flush()
        assert world.store.end().sequence == 1_000


async def test_an_entry_in_a_transaction_is_kept_with_it_or_not_at_all(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        async with world.database.asynchronous.begin() as connection:
            await connection.run_sync(lambda sync: world.log.append_in(sync, entry("kept")))
        with world.database.synchronous.connect() as in_thread:
            world.log.append_in(in_thread, entry("rolled back"))
            in_thread.rollback()
        assert await world.texts() == ["kept"]
        await eventually(lambda: world.anchor_file.read() == world.store.end())


async def test_transactions_and_the_writer_share_one_chain(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:

        def commits() -> None:
            for number in range(30):
                with world.database.synchronous.begin() as connection:
                    world.log.append_in(connection, entry(f"commit {number}"))

        thread = threading.Thread(target=commits)
        thread.start()
        for number in range(30):
            await world.log.write(entry(f"query {number}"))
        await asyncio.to_thread(thread.join)
        found = await world.log.verify()
        assert (found.is_sound, found.count) == (True, 60)


async def test_the_tail_is_the_newest_and_what_follows_comes_in_pages(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        for number in range(10):
            world.log.note(entry(str(number), who="ann" if number % 2 else "bob", at=float(number)))
        await world.log.flush()
        assert [link.entry.what for link in await world.log.tail(3)] == ["7", "8", "9"]
        assert [link.entry.what for link in await world.log.tail(3, after=2)] == ["2", "3", "4"]
        assert [link.entry.what for link in await world.log.tail(2, search=Search(who="bob"))] == ["6", "8"]
        assert [link.sequence for link in await world.log.tail(9, search=Search(since=8.0))] == [9, 10]
        assert [link.sequence for link in await world.log.tail(9, search=Search(query_id="q-4"))] == [5]
        assert [link.sequence async for link in world.log.read(4, 6)] == [4, 5, 6]
        assert await world.log.tail(5, after=10) == []


async def test_no_page_is_larger_than_a_page(tmp_path: Path) -> None:
    async with audited(tmp_path) as world:
        for number in range(TAIL_MAX + 5):
            world.log.note(entry(str(number)))
        await world.log.flush()
        assert len(await world.log.tail(10**9)) == TAIL_MAX
        assert len([link async for link in world.log.read()]) == TAIL_MAX + 5


async def test_a_log_that_cannot_be_read_says_so_in_general(tmp_path: Path) -> None:
    world = Audited(tmp_path)
    tampered(tmp_path, "DROP TABLE audit")
    with pytest.raises(BailiwickError) as failed:
        await world.log.tail(1)
    await world.database.close()
    assert (failed.value.code, failed.value.message) == (
        Code.STORAGE_ERROR,
        "The audit log could not be read.",
    )
