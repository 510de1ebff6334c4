"""Every statement that changes rows, through ADBC, in each table format; PyIceberg reads what it leaves.

Statements that change definitions are in `test_definitions_adbc.py`.
"""

import datetime
import itertools
from decimal import Decimal
from typing import Any

import pytest

from bailiwick.testing.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FORMATS = ("1", "2", "3")
MODES = (("1", "copy-on-write"), ("2", "copy-on-write"), ("2", "merge-on-read"), ("3", "merge-on-read"))
PEOPLE = "(1, 'ada', 'DE'), (2, 'bela', 'FR'), (3, 'carla', 'DE'), (4, 'dov', 'ES')"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def lake(connection: Any) -> Lake:
    opened = Lake(connection, "statements")
    opened.run("CREATE NAMESPACE IF NOT EXISTS statements")
    return opened


def people(lake: Lake, version: str, mode: str = "copy-on-write") -> str:
    """A new table with four people in it."""
    table = lake.table(f"people_{next(NUMBERS)}")
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
    lake.run(
        f"CREATE TABLE {table} (id BIGINT NOT NULL, name STRING, country STRING) USING iceberg "
        f"PARTITIONED BY (country) TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    lake.run(f"INSERT INTO {table} VALUES {PEOPLE}")
    return table


def names(lake: Lake, table: str) -> list[str]:
    return [name for (name,) in lake.rows(f"SELECT name FROM {table} ORDER BY id")]


@pytest.mark.parametrize("version", FORMATS)
def test_a_created_table_is_empty_and_says_its_format(lake: Lake, version: str) -> None:
    table = lake.table(f"empty_v{version}")
    lake.run(
        f"CREATE TABLE {table} (id BIGINT NOT NULL COMMENT 'the key', at TIMESTAMP, tags ARRAY<STRING>, "
        f"home STRUCT<street: STRING, city: STRING>) USING iceberg PARTITIONED BY (days(at), bucket(8, id)) "
        f"COMMENT 'of people' TBLPROPERTIES ('format-version' = '{version}', 'owner-team' = 'shop')"
    )
    assert lake.rows(f"SELECT * FROM {table}") == []
    read = lake.iceberg(table)
    assert read.metadata.format_version == int(version)
    assert [field.name for field in read.schema().fields] == ["id", "at", "tags", "home"]
    assert read.schema().find_field("id").required
    assert read.schema().find_field("id").doc == "the key"
    assert [str(field.transform) for field in read.spec().fields] == ["day", "bucket[8]"]
    assert read.properties["owner-team"] == "shop"
    assert read.properties["comment"] == "of people"
    assert read.current_snapshot() is None


@pytest.mark.parametrize("version", FORMATS)
def test_an_insert_adds_its_rows_and_says_how_many(lake: Lake, version: str) -> None:
    table = people(lake, version)
    assert lake.run(f"INSERT INTO {table} VALUES (5, 'edith', 'IT'), (6, NULL, 'IT')") == 2
    assert (
        lake.run(
            f"INSERT INTO {table} (id, country, name) SELECT id + 10, country, name FROM {table} WHERE id < 3"
        )
        == 2
    )
    assert names(lake, table) == ["ada", "bela", "carla", "dov", "edith", None, "ada", "bela"]
    read = lake.iceberg(table)
    assert len(read.snapshots()) == 3
    snapshot = read.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["added-records"] == "2"
    assert snapshot.summary["total-records"] == "8"


@pytest.mark.parametrize("version", FORMATS)
def test_create_table_as_select_has_the_rows_at_once(lake: Lake, version: str) -> None:
    source, table = people(lake, version), lake.table(f"copy_v{version}")
    lake.run(
        f"CREATE TABLE {table} USING iceberg PARTITIONED BY (truncate(1, country)) "
        f"TBLPROPERTIES ('format-version' = '{version}') "
        f"AS SELECT id, upper(name) AS name, country FROM {source}"
    )
    assert names(lake, table) == ["ADA", "BELA", "CARLA", "DOV"]
    read = lake.iceberg(table)
    assert len(read.snapshots()) == 1
    assert read.metadata.format_version == int(version)
    assert {row["id"] for row in read.scan().to_arrow().to_pylist()} == {1, 2, 3, 4}


@pytest.mark.parametrize("version", FORMATS)
def test_create_or_replace_keeps_the_table_and_its_history(lake: Lake, version: str) -> None:
    table = people(lake, version)
    before = lake.iceberg(table)
    lake.run(
        f"CREATE OR REPLACE TABLE {table} USING iceberg TBLPROPERTIES ('format-version' = '{version}') "
        f"AS SELECT 7 AS number, 'seven' AS word"
    )
    assert lake.rows(f"SELECT * FROM {table}") == [(7, "seven")]
    after = lake.iceberg(table)
    assert after.metadata.table_uuid == before.metadata.table_uuid
    assert [field.name for field in after.schema().fields] == ["number", "word"]
    # Format 1 cannot forget a partition field: it keeps it with the transform `void`.
    assert {str(field.transform) for field in after.spec().fields} <= {"void"}
    old = before.current_snapshot()
    assert old is not None
    assert lake.value(f"SELECT count(*) FROM {table} VERSION AS OF {old.snapshot_id}") == 4
    lake.run(f"REPLACE TABLE {table} USING iceberg AS SELECT 8 AS number")
    assert lake.rows(f"SELECT * FROM {table}") == [(8,)]


@pytest.mark.parametrize("version", FORMATS)
def test_insert_overwrite_replaces_what_it_names(lake: Lake, version: str) -> None:
    table = people(lake, version)
    lake.run(f"INSERT OVERWRITE {table} PARTITION (country = 'DE') SELECT 9, 'grace'")
    assert names(lake, table) == ["bela", "dov", "grace"]
    lake.run(f"INSERT INTO {table} REPLACE WHERE country = 'FR' SELECT 10, 'hedy', 'FR'")
    assert names(lake, table) == ["dov", "grace", "hedy"]
    lake.run(f"INSERT OVERWRITE {table} SELECT 11, 'ines', 'PT'")
    assert names(lake, table) == ["ines"]
    assert [
        snapshot.summary.operation.value for snapshot in lake.iceberg(table).snapshots() if snapshot.summary
    ] == [
        "append",
        "overwrite",
        "overwrite",
        "overwrite",
    ]


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_update_changes_the_rows_it_names(lake: Lake, version: str, mode: str) -> None:
    table = people(lake, version, mode)
    lake.run(f"UPDATE {table} SET name = concat(name, '!'), country = 'AT' WHERE country = 'DE'")
    assert names(lake, table) == ["ada!", "bela", "carla!", "dov"]
    assert lake.value(f"SELECT count(*) FROM {table} WHERE country = 'AT'") == 2
    assert_delete_files(lake, table, expected=mode == "merge-on-read")


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_delete_removes_the_rows_it_names(lake: Lake, version: str, mode: str) -> None:
    table = people(lake, version, mode)
    lake.run(f"DELETE FROM {table} WHERE name LIKE 'a%' OR id IN (SELECT max(id) FROM {table})")
    assert names(lake, table) == ["bela", "carla"]
    assert_delete_files(lake, table, expected=mode == "merge-on-read")
    lake.run(f"DELETE FROM {table} WHERE country = 'DE'")
    assert names(lake, table) == ["bela"]


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_merge_updates_deletes_and_inserts_in_one_commit(lake: Lake, version: str, mode: str) -> None:
    table = people(lake, version, mode)
    lake.run(
        f"MERGE INTO {table} t "
        "USING (FROM VALUES (1, 'ADA', 'DE'), (2, NULL, 'FR'), (7, 'gus', 'DE') v(id, name, country)) s "
        "ON t.id = s.id "
        "WHEN MATCHED AND s.name IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name, country) VALUES (s.id, s.name, s.country) "
        "WHEN NOT MATCHED BY SOURCE AND t.country = 'ES' THEN UPDATE SET t.name = 'left'"
    )
    assert names(lake, table) == ["ADA", "carla", "left", "gus"]
    assert len(lake.iceberg(table).snapshots()) == 2
    assert_delete_files(lake, table, expected=mode == "merge-on-read")


@pytest.mark.parametrize("version", FORMATS)
def test_truncate_leaves_the_table_empty_and_its_past_readable(lake: Lake, version: str) -> None:
    table = people(lake, version)
    before = lake.iceberg(table).current_snapshot()
    assert before is not None
    lake.run(f"TRUNCATE TABLE {table}")
    assert lake.rows(f"SELECT * FROM {table}") == []
    assert lake.value(f"SELECT count(*) FROM {table} VERSION AS OF {before.snapshot_id}") == 4


@pytest.mark.parametrize("version", FORMATS)
def test_time_travel_reads_by_snapshot_and_by_time(lake: Lake, version: str) -> None:
    table = people(lake, version)
    lake.run(f"DELETE FROM {table} WHERE id > 1")
    (first, at), (second, _) = lake.rows(
        f"SELECT snapshot_id, committed_at FROM {table}.snapshots ORDER BY committed_at"
    )
    assert lake.value(f"SELECT count(*) FROM {table} VERSION AS OF {first}") == 4
    assert lake.value(f"SELECT count(*) FROM {table} FOR SYSTEM_VERSION AS OF {second}") == 1
    assert lake.value(f"SELECT count(*) FROM {table} TIMESTAMP AS OF '{at.isoformat(sep=' ')}'") == 4
    assert [entry.snapshot_id for entry in lake.iceberg(table).history()] == [first, second]


@pytest.mark.parametrize("version", FORMATS)
def test_branches_and_tags_stand_apart_from_main(lake: Lake, version: str) -> None:
    table = people(lake, version)
    lake.run(f"ALTER TABLE {table} CREATE TAG monday RETAIN 30 DAYS")
    lake.run(f"ALTER TABLE {table} CREATE BRANCH audit")
    lake.run(f"INSERT INTO {table}.branch_audit VALUES (5, 'edith', 'IT')")
    assert lake.value(f"SELECT count(*) FROM {table}") == 4
    assert lake.value(f"SELECT count(*) FROM {table} VERSION AS OF 'audit'") == 5
    assert lake.value(f"SELECT count(*) FROM {table}.branch_audit") == 5
    refs = lake.iceberg(table).metadata.refs
    assert {name: ref.snapshot_ref_type.value for name, ref in refs.items()} == {
        "main": "branch",
        "audit": "branch",
        "monday": "tag",
    }
    assert refs["monday"].max_ref_age_ms == 30 * 24 * 3600 * 1000
    lake.run(f"CALL lake.system.fast_forward('{table}', 'main', 'audit')")
    lake.run(f"DELETE FROM {table} WHERE id = 1")
    assert names(lake, table) == ["bela", "carla", "dov", "edith"]
    assert lake.value(f"SELECT count(*) FROM {table} VERSION AS OF 'monday'") == 4
    lake.run(f"ALTER TABLE {table} REPLACE TAG monday AS OF VERSION {refs['audit'].snapshot_id}")
    assert lake.value(f"SELECT count(*) FROM {table} VERSION AS OF 'monday'") == 5
    lake.run(f"ALTER TABLE {table} DROP BRANCH audit")
    lake.run(f"ALTER TABLE {table} DROP TAG monday")
    assert set(lake.iceberg(table).metadata.refs) == {"main"}


def test_format_three_keeps_row_lineage_and_deletion_vectors(lake: Lake) -> None:
    table = people(lake, "3", "merge-on-read")
    before = dict(lake.rows(f"SELECT id, _row_id FROM {table}"))
    assert sorted(before.values()) == [0, 1, 2, 3]
    lake.run(f"UPDATE {table} SET name = 'DOV' WHERE id = 4")
    assert dict(lake.rows(f"SELECT id, _row_id FROM {table}")) == before
    assert lake.rows(f"SELECT DISTINCT file_format FROM {table}.delete_files") == [("PUFFIN",)]
    assert lake.iceberg(table).metadata.next_row_id >= 5


def test_a_table_can_be_raised_to_the_next_format(lake: Lake) -> None:
    table = people(lake, "1")
    for version in ("2", "3"):
        lake.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '{version}')")
        lake.run(f"INSERT INTO {table} VALUES (1{version}, 'v{version}', 'DE')")
        assert lake.iceberg(table).metadata.format_version == int(version)
    assert names(lake, table) == ["ada", "bela", "carla", "dov", "v2", "v3"]


def test_every_type_comes_back_as_it_went_in(lake: Lake) -> None:
    table = lake.table("types")
    lake.run(
        f"CREATE TABLE {table} (b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(20,4), day DATE, "
        f"at TIMESTAMP, local TIMESTAMP_NTZ, s STRING, raw BINARY, a ARRAY<INT>, m MAP<STRING, BIGINT>, "
        f"r STRUCT<x: INT, y: STRING>, v VARIANT) USING iceberg TBLPROPERTIES ('format-version' = '3')"
    )
    lake.run(
        f"INSERT INTO {table} SELECT true, 1, 2, float(0.5), 0.25D, 12345678901.2345, DATE '2024-02-29', "
        "TIMESTAMP '2024-02-29 12:00:00.123456', TIMESTAMP_NTZ '2024-02-29 12:00:00', 'é€', X'00FF', "
        "array(1, null), map('k', 9L), named_struct('x', 1, 'y', 'z'), parse_json('{\"k\": [1, 2]}')"
    )
    columns = "b, i, l, f, d, n, day, at, local, s, raw, a, m, r, to_json(v)"
    ((*values, document),) = lake.rows(f"SELECT {columns} FROM {table}")
    moment = datetime.datetime(2024, 2, 29, 12)
    assert values[:6] == [True, 1, 2, 0.5, 0.25, Decimal("12345678901.2345")]
    assert values[6] == datetime.date(2024, 2, 29)
    assert values[7] == moment.replace(microsecond=123456, tzinfo=datetime.UTC)
    assert values[8:11] == [moment, "é€", b"\x00\xff"]
    assert values[11] == [1, None]
    assert dict(values[12]) == {"k": 9}
    assert values[13] == {"x": 1, "y": "z"}
    assert document == '{"k":[1,2]}'


def assert_delete_files(lake: Lake, table: str, *, expected: bool) -> None:
    """Merge-on-read leaves delete files beside the data, copy-on-write none; PyIceberg sees the same rows."""
    assert (lake.value(f"SELECT count(*) FROM {table}.delete_files") > 0) is expected
    seen_by_pyiceberg = sorted(row["id"] for row in lake.iceberg(table).scan().to_arrow().to_pylist())
    assert seen_by_pyiceberg == [id for (id,) in lake.rows(f"SELECT id FROM {table} ORDER BY id")]
