"""The catalog under a real engine: what Spark does to tables, and what PyIceberg and our own checks say.

The statements people send are tested through ADBC in `test_definitions_adbc.py` and
`test_statements_adbc.py`; here the catalog itself is looked at after each of them.
"""

import asyncio
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import validation, wire
from bailiwick.catalog.locations import check_paths
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.engine import EngineSession
from bailiwick.errors import BailiwickError
from bailiwick.names import TableName
from bailiwick.testing.engine import RunningEngine, run
from bailiwick.testing.iceberg import read_by_pyiceberg

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NUMBERS = itertools.count()
SHARED: dict[str, EngineSession] = {}


@pytest.fixture(scope="module")
def engine(running: RunningEngine) -> RunningEngine:
    running.catalog.create_namespace(("db",))
    return running


@pytest.fixture
def name() -> str:
    return f"db.t{next(NUMBERS)}"


def table_name(name: str) -> TableName:
    return TableName(tuple(name.split(".")[:-1]), name.rpartition(".")[2])


def metadata_of(engine: RunningEngine, name: str) -> Any:
    return wire.parsed_object(engine.catalog.load(table_name(name)).data)


def check(catalog: CatalogService) -> None:
    """Every table is sound by our own rules, and by PyIceberg's where it knows the types."""
    for table in catalog.tables():
        data = catalog.load(table).data
        opened = tables.opened(wire.parsed_object(data))
        validation.check_table(opened)
        check_paths(opened)
        if b'"variant"' not in data:
            read_by_pyiceberg(data)


async def do(engine: RunningEngine, *statements: str) -> list[tuple[Any, ...]]:
    """Run them all, looking at the catalog after each. Gives the rows of the last."""
    rows: list[tuple[Any, ...]] = []
    # One for all: Spark compiles anew for each session.
    session = SHARED.get("session") or await engine.session()
    SHARED["session"] = session
    for statement in statements:
        result = await engine.run(statement, session)
        check(engine.catalog)
        rows = [tuple(row.values()) for row in result.to_pylist()]
    return rows


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_rows_come_and_go_in_every_format(engine: RunningEngine, name: str, version: int) -> None:
    rows = await do(
        engine,
        f"CREATE TABLE {name} (id BIGINT, name STRING, p STRING) PARTITIONED BY (p, bucket(4, id)) "
        f"TBLPROPERTIES ('format-version'='{version}')",
        f"INSERT INTO {name} VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'y')",
        f"UPDATE {name} SET name = 'u' WHERE id = 1",
        f"DELETE FROM {name} WHERE id = 3",
        f"MERGE INTO {name} t USING (SELECT 2 AS id, 'm' AS name UNION ALL SELECT 9, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
        f"SELECT id, name FROM {name} ORDER BY id",
    )
    assert rows == [(1, "u"), (2, "m"), (9, "n")]
    assert metadata_of(engine, name)["format-version"] == version
    overwritten = await do(
        engine,
        f"INSERT OVERWRITE {name} VALUES (5, 'only', 'z')",
        f"SELECT id FROM {name}",
    )
    assert overwritten == [(5,)]
    assert await do(engine, f"TRUNCATE TABLE {name}", f"SELECT count(*) FROM {name}") == [(0,)]


async def test_a_table_goes_from_format_to_format_and_keeps_its_rows(
    engine: RunningEngine, name: str
) -> None:
    await do(engine, f"CREATE TABLE {name} (id BIGINT) TBLPROPERTIES ('format-version'='1')")
    for version in (1, 2, 3):
        await do(
            engine,
            f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='{version}')",
            f"INSERT INTO {name} VALUES ({version})",
        )
    assert await do(engine, f"SELECT id FROM {name} ORDER BY id") == [(1,), (2,), (3,)]
    assert metadata_of(engine, name)["next-row-id"] >= 1
    with pytest.raises(BailiwickError):
        await do(engine, f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='2')")


async def test_tables_made_of_queries_appear_whole_or_not_at_all(engine: RunningEngine, name: str) -> None:
    before = engine.catalog.tables()
    with pytest.raises(BailiwickError):
        await do(engine, f"CREATE TABLE {name} AS SELECT raise_error('no') AS x FROM range(3)")
    assert engine.catalog.tables() == before
    await do(engine, f"CREATE TABLE {name} PARTITIONED BY (k) AS SELECT id, id % 2 AS k FROM range(4)")
    first = metadata_of(engine, name)
    rows = await do(
        engine,
        f"CREATE OR REPLACE TABLE {name} TBLPROPERTIES ('a'='b') AS SELECT 'new' AS x, 7 AS id",
        f"SELECT * FROM {name}",
    )
    assert rows == [("new", 7)]
    second = metadata_of(engine, name)
    assert (second["table-uuid"], second["location"]) == (first["table-uuid"], first["location"])
    old = first["current-snapshot-id"]
    assert await do(engine, f"SELECT count(*) FROM {name} VERSION AS OF {old}") == [(4,)]


async def test_schema_partitions_and_order_evolve(engine: RunningEngine, name: str) -> None:
    await do(
        engine,
        f"CREATE TABLE {name} (id INT, ts TIMESTAMP, s STRUCT<x: INT>, old STRING) PARTITIONED BY (days(ts))",
        f"INSERT INTO {name} VALUES (1, TIMESTAMP '2024-01-01 00:00:00', named_struct('x', 1), 'g')",
        f"ALTER TABLE {name} ADD COLUMNS (extra STRING, s.y DOUBLE)",
        f"ALTER TABLE {name} ALTER COLUMN id TYPE BIGINT",
        f"ALTER TABLE {name} RENAME COLUMN extra TO more",
        f"ALTER TABLE {name} ALTER COLUMN more FIRST",
        f"ALTER TABLE {name} DROP COLUMN old",
        f"ALTER TABLE {name} REPLACE PARTITION FIELD days(ts) WITH months(ts)",
        f"ALTER TABLE {name} ADD PARTITION FIELD bucket(8, id)",
        f"ALTER TABLE {name} DROP PARTITION FIELD bucket(8, id)",
        f"ALTER TABLE {name} WRITE ORDERED BY id DESC NULLS LAST",
        f"INSERT INTO {name} VALUES ('m', 2, TIMESTAMP '2024-02-01', named_struct('x', 2, 'y', 0.5))",
    )
    assert await do(engine, f"SELECT more, id, s.y FROM {name} ORDER BY id") == [
        (None, 1, None),
        ("m", 2, 0.5),
    ]
    metadata = metadata_of(engine, name)
    assert (len(metadata["partition-specs"]), len(metadata["sort-orders"])) == (3, 2)


async def test_branches_tags_rollback_and_maintenance(engine: RunningEngine, name: str) -> None:
    await do(engine, f"CREATE TABLE {name} (id INT)", f"INSERT INTO {name} VALUES (1)")
    first = metadata_of(engine, name)["current-snapshot-id"]
    await do(
        engine,
        f"INSERT INTO {name} VALUES (2)",
        f"ALTER TABLE {name} CREATE BRANCH dev",
        f"ALTER TABLE {name} CREATE TAG one AS OF VERSION {first} RETAIN 7 DAYS",
        f"INSERT INTO {name}.branch_dev VALUES (3)",
    )
    assert await do(engine, f"SELECT count(*) FROM {name}.branch_dev") == [(3,)]
    assert await do(engine, f"SELECT count(*) FROM {name} VERSION AS OF 'one'") == [(1,)]
    await do(engine, f"CALL lake.system.fast_forward('{name}', 'main', 'dev')")
    assert await do(engine, f"SELECT count(*) FROM {name}") == [(3,)]
    await do(engine, f"CALL lake.system.rollback_to_snapshot('{name}', {first})")
    assert await do(engine, f"SELECT id FROM {name}") == [(1,)]
    await do(
        engine,
        f"ALTER TABLE {name} DROP BRANCH dev",
        f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
        f"CALL lake.system.compute_table_stats('{name}')",
        f"CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2999-01-01')",
    )
    metadata = metadata_of(engine, name)
    assert len(metadata["snapshots"]) == 2
    assert len(metadata["statistics"]) == 1
    for inside in (
        "snapshots",
        "history",
        "files",
        "manifests",
        "partitions",
        "refs",
        "metadata_log_entries",
    ):
        assert (await do(engine, f"SELECT count(*) FROM {name}.{inside}"))[0][0] >= 1


async def test_variants_and_row_lineage(engine: RunningEngine, name: str) -> None:
    rows = await do(
        engine,
        f"CREATE TABLE {name} (id INT, v VARIANT) TBLPROPERTIES ('format-version'='3', "
        "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')",
        f"INSERT INTO {name} SELECT 1, parse_json('{{\"a\": 10}}')",
        f"INSERT INTO {name} SELECT 2, parse_json('{{\"a\": 20}}')",
        f"UPDATE {name} SET id = 5 WHERE id = 2",
        f"SELECT id, variant_get(v, '$.a', 'int') AS a, _row_id FROM {name} ORDER BY id",
    )
    assert rows == [(1, 10, 0), (5, 20, 1)]


async def test_views_are_made_replaced_renamed_and_dropped(engine: RunningEngine, name: str) -> None:
    view = f"{name}_view"
    await do(engine, f"CREATE TABLE {name} AS SELECT id FROM range(5)")
    assert await do(
        engine, f"CREATE VIEW {view} AS SELECT id FROM {name} WHERE id > 2", f"SELECT count(*) FROM {view}"
    ) == [(2,)]
    assert await do(
        engine, f"CREATE OR REPLACE VIEW {view} (n) AS SELECT count(*) FROM {name}", f"SELECT n FROM {view}"
    ) == [(5,)]
    await do(engine, f"ALTER VIEW {view} RENAME TO {view}2", f"DROP VIEW {view}2")
    assert table_name(f"{view}2") not in engine.catalog.views()


async def test_names_and_places_are_the_catalogs_own(
    engine: RunningEngine, name: str, tmp_path: Path
) -> None:
    odd = "db.`../odd name+%2F é`"
    assert await do(
        engine, f"CREATE TABLE {odd} (id INT)", f"INSERT INTO {odd} VALUES (1)", f"SELECT * FROM {odd}"
    ) == [(1,)]
    await do(engine, f"DROP TABLE {odd}", f"CREATE TABLE {name} (id INT)")
    for statement in (
        f"CREATE TABLE {name}_there (id INT) LOCATION '{tmp_path}'",
        f"CREATE NAMESPACE placed LOCATION '{tmp_path}'",
        f"ALTER TABLE {name} SET LOCATION '{tmp_path}'",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('write.data.path'='{tmp_path}')",
        f"CREATE TABLE {name}_there (id INT) TBLPROPERTIES ('write.metadata.path'='{tmp_path}')",
    ):
        with pytest.raises(BailiwickError):
            await do(engine, statement)
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_a_purged_table_leaves_no_data_and_a_dropped_one_does(engine: RunningEngine, name: str) -> None:
    other = f"{name}_kept"
    for each in (name, other):
        await do(engine, f"CREATE TABLE {each} AS SELECT id FROM range(3)")
    places = {
        each: Path(metadata_of(engine, each)["location"].removeprefix("file:")) for each in (name, other)
    }
    await do(engine, f"DROP TABLE {name} PURGE", f"DROP TABLE {other}")
    assert not list(places[name].rglob("*.parquet"))
    assert list(places[other].rglob("*.parquet"))


async def test_writers_at_the_same_time_lose_nothing(engine: RunningEngine, name: str) -> None:
    await do(engine, f"CREATE TABLE {name} (id INT) TBLPROPERTIES ('commit.retry.num-retries'='20')")

    async def insert(writer: int) -> None:
        session = await engine.session()
        for number in range(4):
            await engine.run(f"INSERT INTO {name} VALUES ({writer * 10 + number})", session)

    await asyncio.gather(insert(1), insert(2))
    assert await do(engine, f"SELECT count(*), count(DISTINCT id) FROM {name}") == [(8, 8)]


async def test_a_commit_after_its_lease_is_refused(engine: RunningEngine, name: str) -> None:
    await do(engine, f"CREATE TABLE {name} (id INT)")
    session = await engine.session()
    old = engine.leases.give(session)
    engine.leases.give(session)
    with pytest.raises(BailiwickError):
        await run(session, f"INSERT INTO {name} VALUES (1)", old)
    assert await do(engine, f"SELECT count(*) FROM {name}") == [(0,)]


async def test_counts_of_rows_are_seen_under_the_lease(engine: RunningEngine, name: str) -> None:
    await do(engine, f"CREATE TABLE {name} (id BIGINT)")
    session = await engine.session()
    lease = engine.leases.give(session)
    await run(session, f"INSERT INTO {name} SELECT id FROM range(7)", lease)
    seen = [commit for commit in engine.leases.commits if commit.lease == lease]
    assert [(str(commit.table), commit.summary["added-records"]) for commit in seen] == [(name, "7")]
