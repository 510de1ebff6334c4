"""The store keeps what it acknowledged, refuses what it does not know, and lets nobody else look in."""

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, insert, inspect, select, text, update
from sqlalchemy.exc import OperationalError

from bailiwick.database import schema
from bailiwick.database.database import Database
from bailiwick.database.errors import DirectoryInUseError, NewerDatabaseError, UnusableDatabaseError
from bailiwick.database.lock import DirectoryLock
from bailiwick.database.migrations import MIGRATIONS, Migration, migrate

NAMESPACE = {"catalog": "lake", "namespace": "sales", "properties": "{}"}


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database.open(tmp_path / "bailiwick.db")
    yield opened
    await opened.close()


async def test_both_sides_see_one_anothers_commits(database: Database) -> None:
    async with database.asynchronous.begin() as connection:
        await connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    with database.synchronous_reads.connect() as connection_of_thread:
        found = connection_of_thread.execute(select(schema.catalog_namespaces.c.namespace)).scalars().all()
    assert found == ["sales"]

    with database.synchronous.begin() as connection_of_thread:
        connection_of_thread.execute(update(schema.catalog_namespaces).values(properties='{"a": "b"}'))
    async with database.asynchronous_reads.connect() as connection:
        rows = await connection.execute(select(schema.catalog_namespaces.c.properties))
    assert rows.scalar_one() == '{"a": "b"}'


async def test_what_was_stored_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "bailiwick.db"
    first = Database.open(path)
    async with first.asynchronous.begin() as connection:
        await connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    await first.close()
    second = Database.open(path)
    async with second.asynchronous_reads.connect() as connection:
        count = await connection.execute(select(func.count()).select_from(schema.catalog_namespaces))
    assert count.scalar_one() == 1
    await second.close()


async def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    path = tmp_path / "bailiwick.db"
    path.touch(mode=0o644)
    database = Database.open(path)
    async with database.asynchronous.begin() as connection:
        await connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in os.scandir(tmp_path)}
    await database.close()
    assert modes == dict.fromkeys(("bailiwick.db", "bailiwick.db-wal", "bailiwick.db-shm"), 0o600)


@pytest.mark.parametrize("name", ["a b", "q?mode=ro", "100%25", "é", "a#b"])
async def test_any_directory_name_will_do(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    os.mkdir(directory)  # noqa: PTH102
    database = Database.open(directory / "bailiwick.db")
    async with database.asynchronous.begin() as connection:
        await connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    await database.close()
    assert [entry.name for entry in os.scandir(directory)] == ["bailiwick.db"]


async def test_closing_leaves_one_file_and_no_threads(tmp_path: Path) -> None:
    threads = threading.active_count()
    database = Database.open(tmp_path / "bailiwick.db")
    async with database.asynchronous.begin() as connection:
        await connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    async with database.asynchronous_reads.connect() as connection:
        await connection.execute(select(schema.catalog_namespaces))
    await database.close()
    assert [entry.name for entry in os.scandir(tmp_path)] == ["bailiwick.db"]
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "_connection_worker_thread" in thread.name:
            thread.join(5)
    assert threading.active_count() <= threads


async def test_commits_are_synced_and_foreign_keys_hold_on_every_engine(database: Database) -> None:
    for engine in (database.synchronous, database.synchronous_reads):
        with engine.connect() as connection:
            assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 2
            assert connection.execute(text("PRAGMA foreign_keys")).scalar_one() == 1
    for asynchronous in (database.asynchronous, database.asynchronous_reads):
        async with asynchronous.connect() as connected:
            assert (await connected.execute(text("PRAGMA synchronous"))).scalar_one() == 2
            assert (await connected.execute(text("PRAGMA journal_mode"))).scalar_one() == "wal"


async def test_a_reader_cannot_write(database: Database) -> None:
    with (
        database.synchronous_reads.connect() as connection,
        pytest.raises(OperationalError, match="readonly"),
    ):
        connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))


async def test_transactions_that_read_first_and_write_later_never_collide(database: Database) -> None:
    """Both sides count up the same number; with deferred transactions this fails at once."""
    with database.synchronous.begin() as connection:
        connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE | {"properties": "0"}))

    def in_thread() -> None:
        for _ in range(50):
            with database.synchronous.begin() as connection:
                count = int(connection.execute(select(schema.catalog_namespaces.c.properties)).scalar_one())
                connection.execute(update(schema.catalog_namespaces).values(properties=str(count + 1)))

    async def on_loop() -> None:
        for _ in range(25):
            async with database.asynchronous.begin() as connection:
                read = await connection.execute(select(schema.catalog_namespaces.c.properties))
                count = int(read.scalar_one())
                await connection.execute(update(schema.catalog_namespaces).values(properties=str(count + 1)))

    await asyncio.gather(asyncio.to_thread(in_thread), on_loop(), on_loop())
    with database.synchronous_reads.connect() as connection:
        assert connection.execute(select(schema.catalog_namespaces.c.properties)).scalar_one() == "100"


async def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


async def test_only_the_missing_migrations_are_applied(database: Database) -> None:
    later = Migration(len(MIGRATIONS) + 1, "one more", ("CREATE TABLE more (a TEXT)",))
    assert migrate(database.synchronous, (*MIGRATIONS, later), now=lambda: 7.0) == later.version
    assert migrate(database.synchronous, (*MIGRATIONS, later), now=lambda: 8.0) == later.version
    with database.synchronous_reads.connect() as connection:
        applied = connection.execute(select(schema.schema_version.c.applied_at)).scalars().all()
    assert applied[-1] == 7.0


async def test_a_migration_that_fails_halfway_leaves_nothing_behind(database: Database) -> None:
    broken = Migration(
        len(MIGRATIONS) + 1, "broken", ("CREATE TABLE half (a TEXT)", "CREATE TABLE users (a TEXT)")
    )
    with pytest.raises(OperationalError):
        migrate(database.synchronous, (*MIGRATIONS, broken))
    assert not inspect(database.synchronous_reads).has_table("half")
    fixed = replace(broken, statements=("CREATE TABLE half (a TEXT)",))
    assert migrate(database.synchronous, (*MIGRATIONS, fixed)) == fixed.version


async def test_a_database_from_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bailiwick.db"
    database = Database.open(path)
    with database.synchronous.begin() as connection:
        connection.execute(insert(schema.schema_version).values(version=99, description="", applied_at=0))
    await database.close()
    with pytest.raises(NewerDatabaseError, match=r"schema version 99.* knows up to"):
        Database.open(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bailiwick.db"
    path.write_bytes(b"these are not the bytes you are looking for" * 100)
    with pytest.raises(UnusableDatabaseError, match="not a database"):
        Database.open(path)


def test_a_second_gateway_on_a_directory_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path):
        with pytest.raises(DirectoryInUseError, match=f"process {os.getpid()}") as refused:
            DirectoryLock.acquire(tmp_path)
        assert refused.value.pid == os.getpid()
    DirectoryLock.acquire(tmp_path).release()


def test_the_lock_ends_with_its_process_even_when_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from bailiwick.database.lock import DirectoryLock\n"
        "held = DirectoryLock.acquire(pathlib.Path(sys.argv[1]))\n"
        "print('held', flush=True)\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(DirectoryInUseError) as refused:
            DirectoryLock.acquire(tmp_path)
        assert refused.value.pid == process.pid
        process.kill()
    DirectoryLock.acquire(tmp_path).release()


def test_a_child_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        lock.release()
        DirectoryLock.acquire(tmp_path).release()
        child.kill()
