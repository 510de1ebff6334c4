"""What SQLite and PostgreSQL both promise, and what only several gateways on one PostgreSQL need."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from sqlalchemy import MetaData, insert, inspect, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from bailiwick.database import schema
from bailiwick.database.config import DatabaseConfig
from bailiwick.database.database import Database
from bailiwick.database.errors import NewerDatabaseError, UnusableDatabaseError
from bailiwick.database.migrations import MIGRATIONS, Migration, migrate
from bailiwick.testing.certificates import Authority
from bailiwick.testing.postgres import PrivatePostgres

NAMESPACE = {"catalog": "lake", "namespace": "sales", "properties": "0"}


async def test_both_sides_see_one_anothers_commits(database: Database) -> None:
    async with database.asynchronous.begin() as connection:
        await connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    with database.synchronous_reads.connect() as connection_of_thread:
        found = connection_of_thread.execute(select(schema.catalog_namespaces.c.namespace)).scalars().all()
    assert found == ["sales"]


async def test_a_reader_sees_one_moment_and_does_not_wait(database: Database) -> None:
    counted = select(schema.catalog_namespaces.c.namespace)
    with database.synchronous_reads.connect() as reader:
        assert reader.execute(counted).all() == []
        with database.synchronous.begin() as writer:
            writer.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
            assert reader.execute(counted).all() == []
        assert reader.execute(counted).all() == []
    with database.synchronous_reads.connect() as reader:
        assert len(reader.execute(counted).all()) == 1


async def test_a_reader_cannot_write(database: Database) -> None:
    with database.synchronous_reads.connect() as connection, pytest.raises(DBAPIError, match=r"read.?only"):
        connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    async with database.asynchronous_reads.connect() as connected:
        with pytest.raises(DBAPIError, match=r"read.?only"):
            await connected.execute(insert(schema.catalog_namespaces).values(NAMESPACE))


async def test_transactions_that_read_first_and_write_later_lose_nothing(database: Database) -> None:
    with database.synchronous.begin() as connection:
        connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    await asyncio.gather(
        asyncio.to_thread(count_up, database, 50),
        count_up_on_loop(database, 25),
        count_up_on_loop(database, 25),
    )
    assert counted(database) == 100


async def test_two_gateways_that_read_first_and_write_later_lose_nothing(
    shared: tuple[Database, Database],
) -> None:
    one, other = shared
    with one.synchronous.begin() as connection:
        connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
    await asyncio.gather(
        asyncio.to_thread(count_up, one, 30),
        asyncio.to_thread(count_up, other, 30),
        count_up_on_loop(one, 20),
        count_up_on_loop(other, 20),
    )
    assert counted(one) == counted(other) == 100


def count_up(database: Database, times: int) -> None:
    for _ in range(times):
        with database.synchronous.begin() as connection:
            count = int(connection.execute(select(schema.catalog_namespaces.c.properties)).scalar_one())
            connection.execute(update(schema.catalog_namespaces).values(properties=str(count + 1)))


async def count_up_on_loop(database: Database, times: int) -> None:
    for _ in range(times):
        async with database.asynchronous.begin() as connection:
            read = await connection.execute(select(schema.catalog_namespaces.c.properties))
            count = int(read.scalar_one())
            await connection.execute(update(schema.catalog_namespaces).values(properties=str(count + 1)))


def counted(database: Database) -> int:
    with database.synchronous_reads.connect() as connection:
        return int(connection.execute(select(schema.catalog_namespaces.c.properties)).scalar_one())


async def test_a_cancelled_writer_leaves_nothing_behind_and_frees_the_lock(database: Database) -> None:
    inside = asyncio.Event()

    async def write() -> None:
        async with database.asynchronous.begin() as connection:
            await connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with database.asynchronous.begin() as connection:
        await connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))


async def test_who_is_cancelled_while_another_writes_leaves_at_once_and_spoils_nothing(
    shared: tuple[Database, Database],
) -> None:
    one, other = shared
    with one.synchronous.begin() as holder:
        holder.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), other.asynchronous.begin():
                pytest.fail("two hold the write lock")
    await count_up_on_loop(other, 3)
    assert counted(one) == 3


async def test_a_namespace_that_holds_something_cannot_go(database: Database) -> None:
    with database.synchronous.begin() as connection:
        connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE))
        connection.execute(
            insert(schema.catalog_objects).values(
                catalog="lake", namespace="sales", name="t", kind="table", uuid="u", metadata_location="m"
            )
        )
    with pytest.raises(IntegrityError), database.synchronous.begin() as connection:
        connection.execute(schema.catalog_namespaces.delete())


async def test_errors_do_not_repeat_what_was_to_be_stored(database: Database) -> None:
    secret = "the hash of a password"
    values = NAMESPACE | {"properties": secret}
    async with database.asynchronous.connect() as connection:
        await connection.execute(insert(schema.catalog_namespaces), [values])
        with pytest.raises(IntegrityError) as failed:
            await connection.execute(insert(schema.catalog_namespaces), [values])
    assert secret not in str(failed.value)


@pytest.mark.parametrize("odd", ["a\0b", "\ufffe", "𝒳 'é\"\\ %s :x", "\u2028"])
async def test_any_text_can_be_kept(database: Database, odd: str) -> None:
    with database.synchronous.begin() as connection:
        connection.execute(insert(schema.catalog_namespaces).values(NAMESPACE | {"properties": odd}))
        found = connection.execute(select(schema.catalog_namespaces.c.properties)).scalar_one()
    assert found in (odd, odd.replace("\0", "\ufffd"))


async def test_the_migrations_arrive_at_the_schema(database: Database) -> None:
    migrated = MetaData()
    migrated.reflect(database.synchronous_reads)
    assert set(migrated.tables) == set(schema.metadata.tables)
    for name, table in schema.metadata.tables.items():
        found = migrated.tables[name]
        assert [(c.name, c.type.python_type, c.nullable) for c in found.columns] == [
            (c.name, c.type.python_type, c.nullable) for c in table.columns
        ]
        assert [c.name for c in found.primary_key] == [c.name for c in table.primary_key]
        assert {i.name for i in found.indexes} == {i.name for i in table.indexes}
        assert {(k.target_fullname, k.ondelete) for k in found.foreign_keys} == {
            (k.target_fullname, k.ondelete) for k in table.foreign_keys
        }


async def test_a_migration_that_fails_halfway_leaves_nothing_behind(database: Database) -> None:
    broken = Migration(
        len(MIGRATIONS) + 1, "broken", ("CREATE TABLE half (a TEXT)", "CREATE TABLE users (a TEXT)")
    )
    with pytest.raises(DBAPIError):
        migrate(database.synchronous, (*MIGRATIONS, broken))
    assert not inspect(database.synchronous_reads).has_table("half")
    fixed = replace(broken, statements=("CREATE TABLE half (a TEXT)",))
    assert migrate(database.synchronous, (*MIGRATIONS, fixed)) == fixed.version


async def test_a_database_from_a_newer_version_is_refused(
    tmp_path: Path, database_config: DatabaseConfig
) -> None:
    path = tmp_path / "bailiwick.db"
    database = Database.open(path, database_config)
    with database.synchronous.begin() as connection:
        connection.execute(insert(schema.schema_version).values(version=99, description="", applied_at=0))
    await database.close()
    with pytest.raises(NewerDatabaseError, match=r"schema version 99.* knows up to"):
        Database.open(path, database_config)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET entry = 'x'",
        "DELETE FROM audit",
        "INSERT INTO audit SELECT 3, 0, 'a', NULL, NULL, '', '', ''",
    ],
)
async def test_what_was_put_on_record_cannot_be_changed_by_sql(database: Database, change: str) -> None:
    with database.synchronous.begin() as connection:
        connection.execute(text("INSERT INTO audit SELECT 1, 0, 'a', NULL, NULL, '', '', ''"))
    with pytest.raises(DBAPIError, match="append-only"), database.synchronous.begin() as connection:
        connection.execute(text(change))


async def test_gateways_that_start_at_once_on_an_empty_database_all_get_it(
    postgres: PrivatePostgres, tmp_path: Path
) -> None:
    config, opened = postgres.new_database(), []

    def open_it() -> None:
        opened.append(Database.open(tmp_path / "unused", config))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for database in opened:
        await database.close()
    assert not (tmp_path / "unused").exists()


def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: Path) -> None:
    config = DatabaseConfig(url=SecretStr("postgresql://ann:s3cret@127.0.0.1:1/x"))
    with pytest.raises(UnusableDatabaseError, match="refused") as failed:
        Database.open(tmp_path / "unused", config)
    assert "s3cret" not in str(failed.value)
    assert "s3cret" not in repr(config)


async def test_a_server_is_believed_by_its_certificate_and_one_of_another_authority_is_not(
    postgres: PrivatePostgres, tmp_path: Path
) -> None:
    def of(ca_file: Path) -> DatabaseConfig:
        return DatabaseConfig(
            url=SecretStr(postgres.url("postgres", f"sslmode=verify-full&sslrootcert={ca_file}"))
        )

    database = Database.open(tmp_path / "unused", of(postgres.ca_file))
    with database.synchronous_reads.connect() as connection:
        is_encrypted = text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        assert connection.execute(is_encrypted).scalar_one() is True
    await database.close()
    with pytest.raises(UnusableDatabaseError, match="SSL error"):
        Database.open(tmp_path / "unused", of(Authority(tmp_path / "other").file))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite:///x", "begins with postgresql"),
        ("mysql://u:s3cret@h/x", "begins with postgresql"),
        ("postgresql://u:s3cret@h/x", "unencrypted"),
        ("postgresql://u:s3cret@127.0.0.1,h/x", "unencrypted"),
        ("postgresql://u:s3cret@h/x?sslmode=prefer", "unencrypted"),
        ("postgresql://u:s3cret@h/x?nonsense=1", "not a URL"),
        ("postgresql://u:s3cret%zz@h/x", "not a URL"),
    ],
)
def test_urls_that_cannot_be_meant_are_refused_without_repeating_them(url: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem) as refused:
        DatabaseConfig(url=SecretStr(url))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "is_verified"),
    [
        ("postgresql:///x", True),
        ("postgresql://localhost/x", True),
        ("postgres://[::1]/x", True),
        ("postgresql://h/x?sslmode=require", False),
        ("postgresql://h1,h2/x?sslmode=verify-full", True),
    ],
)
def test_a_database_elsewhere_must_prove_who_it_is(url: str, is_verified: bool) -> None:
    assert DatabaseConfig(url=SecretStr(url)).is_verified is is_verified
