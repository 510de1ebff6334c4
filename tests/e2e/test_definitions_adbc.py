"""Every statement that changes definitions, through ADBC; PyIceberg reads what is left on disk.

Statements that change rows are in `test_statements_adbc.py`.
"""

import itertools
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from adbc_driver_manager import Error
from pyiceberg.view.metadata import ViewMetadata

from bailiwick.testing.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def lake(connection: Any) -> Lake:
    opened = Lake(connection, "definitions")
    opened.run("CREATE NAMESPACE IF NOT EXISTS definitions")
    return opened


@pytest.fixture
def table(lake: Lake) -> str:
    """A new table with two rows."""
    name = lake.table(f"things_{next(NUMBERS)}")
    lake.run(
        f"CREATE TABLE {name} (id INT NOT NULL, name STRING, at TIMESTAMP, place STRUCT<city: STRING>) "
        "USING iceberg"
    )
    lake.run(
        f"INSERT INTO {name} VALUES (1, 'a', TIMESTAMP '2024-01-01 00:00:00', named_struct('city', 'Bonn')), "
        f"(2, 'b', TIMESTAMP '2024-02-01 00:00:00', NULL)"
    )
    return name


def columns(lake: Lake, table: str) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in lake.iceberg(table).schema().fields}


def test_columns_are_added_where_one_says(lake: Lake, table: str) -> None:
    lake.run(f"ALTER TABLE {table} ADD COLUMNS (price DECIMAL(10,2) COMMENT 'net', stock INT)")
    lake.run(f"ALTER TABLE {table} ADD COLUMN first STRING FIRST")
    lake.run(f"ALTER TABLE {table} ADD COLUMN after_id STRING AFTER id")
    lake.run(f"ALTER TABLE {table} ADD COLUMN place.street STRING")
    assert list(columns(lake, table)) == ["first", "id", "after_id", "name", "at", "place", "price", "stock"]
    assert columns(lake, table)["price"] == "decimal(10, 2)"
    assert lake.iceberg(table).schema().find_field("price").doc == "net"
    assert lake.rows(f"SELECT id, price, place.city, place.street FROM {table} ORDER BY id") == [
        (1, None, "Bonn", None),
        (2, None, None, None),
    ]


def test_columns_are_renamed_widened_moved_and_dropped(lake: Lake, table: str) -> None:
    identifier = lake.iceberg(table).schema().find_field("name").field_id
    lake.run(f"ALTER TABLE {table} RENAME COLUMN name TO label")
    lake.run(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    lake.run(f"ALTER TABLE {table} ALTER COLUMN label FIRST")
    lake.run(f"ALTER TABLE {table} ALTER COLUMN label COMMENT 'what it is called'")
    lake.run(f"ALTER TABLE {table} ALTER COLUMN id DROP NOT NULL")
    lake.run(f"ALTER TABLE {table} DROP COLUMN place")
    assert columns(lake, table) == {"label": "string", "id": "long", "at": "timestamptz"}
    label = lake.iceberg(table).schema().find_field("label")
    assert (label.field_id, label.doc) == (identifier, "what it is called")
    assert lake.iceberg(table).schema().find_field("id").optional
    assert lake.rows(f"SELECT label, id FROM {table} ORDER BY id") == [("a", 1), ("b", 2)]


def test_a_dropped_column_does_not_come_back_with_its_old_values(lake: Lake, table: str) -> None:
    lake.run(f"ALTER TABLE {table} DROP COLUMN name")
    lake.run(f"ALTER TABLE {table} ADD COLUMN name STRING")
    assert lake.rows(f"SELECT DISTINCT name FROM {table}") == [(None,)]


def test_properties_are_set_and_unset(lake: Lake, table: str) -> None:
    lake.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = '1', 'b' = '2')")
    lake.run(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('a')")
    lake.run(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ('never')")
    properties = lake.iceberg(table).properties
    assert "a" not in properties
    assert properties["b"] == "2"
    assert ("b", "2") in lake.rows(f"SHOW TBLPROPERTIES {table}")


def test_partitioning_changes_for_rows_to_come(lake: Lake, table: str) -> None:
    lake.run(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id) AS shard")
    lake.run(f"ALTER TABLE {table} ADD PARTITION FIELD months(at)")
    lake.run(f"INSERT INTO {table} VALUES (3, 'c', TIMESTAMP '2024-03-01 00:00:00', NULL)")
    lake.run(f"ALTER TABLE {table} REPLACE PARTITION FIELD at_month WITH days(at)")
    lake.run(f"ALTER TABLE {table} DROP PARTITION FIELD shard")
    read = lake.iceberg(table)
    assert [(field.name, str(field.transform)) for field in read.spec().fields] == [("at_day", "day")]
    assert len(read.specs()) >= 3
    assert lake.value(f"SELECT count(DISTINCT spec_id) FROM {table}.files") == 2
    assert lake.value(f"SELECT count(*) FROM {table} WHERE at >= TIMESTAMP '2024-02-01 00:00:00'") == 2


def test_a_sort_order_and_a_key_can_be_given(lake: Lake, table: str) -> None:
    lake.run(f"ALTER TABLE {table} WRITE ORDERED BY name DESC NULLS LAST, id")
    lake.run(f"ALTER TABLE {table} SET IDENTIFIER FIELDS id")
    read = lake.iceberg(table)
    assert [field.direction.value for field in read.sort_order().fields] == ["desc", "asc"]
    assert read.schema().identifier_field_names() == {"id"}
    lake.run(f"ALTER TABLE {table} DROP IDENTIFIER FIELDS id")
    lake.run(f"ALTER TABLE {table} WRITE UNORDERED")
    assert not lake.iceberg(table).sort_order().fields


def test_a_renamed_table_keeps_its_rows_and_gives_up_its_name(lake: Lake, table: str) -> None:
    uuid = lake.iceberg(table).metadata.table_uuid
    renamed = f"{table}_renamed"
    lake.run(f"ALTER TABLE {table} RENAME TO {renamed}")
    assert lake.value(f"SELECT count(*) FROM {renamed}") == 2
    assert lake.iceberg(renamed).metadata.table_uuid == uuid
    with pytest.raises(Error, match="TABLE_NOT_FOUND"):
        lake.rows(f"SELECT * FROM {table}")


def test_a_dropped_table_is_gone_and_a_second_drop_says_so(lake: Lake, table: str) -> None:
    lake.run(f"DROP TABLE {table}")
    with pytest.raises(Error, match="TABLE_NOT_FOUND"):
        lake.rows(f"SELECT * FROM {table}")
    with pytest.raises(Error, match="TABLE_NOT_FOUND"):
        lake.run(f"DROP TABLE {table}")
    lake.run(f"DROP TABLE IF EXISTS {table}")


def test_a_purged_table_leaves_no_files(lake: Lake, table: str) -> None:
    files = [local(path) for (path,) in lake.rows(f"SELECT file_path FROM {table}.files")]
    assert all(path.exists() for path in files)
    lake.run(f"DROP TABLE {table} PURGE")
    assert not any(path.exists() for path in files)


def test_creating_a_table_twice_is_refused_unless_one_asks_for_it(lake: Lake, table: str) -> None:
    with pytest.raises(Error, match="DUPLICATE_TABLE"):
        lake.run(f"CREATE TABLE {table} (other INT) USING iceberg")
    lake.run(f"CREATE TABLE IF NOT EXISTS {table} (other INT) USING iceberg")
    assert "other" not in columns(lake, table)


def test_a_view_answers_like_its_query_until_it_is_replaced_or_dropped(lake: Lake, table: str) -> None:
    view = f"{table}_view"
    lake.run(
        f"CREATE VIEW {view} (label COMMENT 'its name') COMMENT 'short' "
        f"AS SELECT name FROM {table} WHERE id = 1"
    )
    assert lake.rows(f"SELECT * FROM {view}") == [("a",)]
    lake.run(f"CREATE OR REPLACE VIEW {view} AS SELECT name, id FROM {table} WHERE id = 2")
    assert lake.rows(f"SELECT * FROM {view}") == [("b", 2)]
    lake.run(f"ALTER VIEW {view} SET TBLPROPERTIES ('team' = 'shop')")
    assert ("team", "shop") in lake.rows(f"SHOW TBLPROPERTIES {view}")
    assert view.split(".")[1] in {row[1] for row in lake.rows(f"SHOW VIEWS IN {lake.namespace}")}
    with pytest.raises(Error, match="DUPLICATE_TABLE"):
        lake.run(f"CREATE VIEW {view} AS SELECT 1 AS one")
    lake.run(f"DROP VIEW {view}")
    with pytest.raises(Error, match="NOT_FOUND"):
        lake.rows(f"SELECT * FROM {view}")


def test_pyiceberg_reads_the_metadata_of_a_view(lake: Lake, table: str) -> None:
    view = f"{table}_seen"
    lake.run(f"CREATE VIEW {view} AS SELECT id, name FROM {table}")
    lake.run(f"CREATE OR REPLACE VIEW {view} AS SELECT id FROM {table}")
    beside = local(lake.metadata_path(table)).parents[2]
    found = sorted(beside.glob(f"{view.split('.')[1]}*/metadata/*.metadata.json"))
    metadata = [ViewMetadata.model_validate(json.loads(path.read_text())) for path in found]
    newest = max(metadata, key=lambda one: one.current_version_id)
    assert len(newest.versions) == 2
    current = next(one for one in newest.versions if one.version_id == newest.current_version_id)
    assert "SELECT id FROM" in current.representations[0].root.sql


def test_metadata_tables_tell_about_the_table(lake: Lake, table: str) -> None:
    expected = {
        "snapshots": 1,
        "history": 1,
        "refs": 1,
        "files": 2,
        "entries": 2,
        "all_data_files": 2,
        "partitions": 1,
    }
    for name, least in expected.items():
        assert 1 <= lake.value(f"SELECT count(*) FROM {table}.{name}") <= least, name
    assert lake.value(f"SELECT sum(record_count) FROM {table}.files") == 2
    assert lake.value(f"SELECT sum(added_data_files_count) FROM {table}.manifests") >= 1
    assert lake.value(f"SELECT name FROM {table}.refs") == "main"


def test_procedures_maintain_a_table(lake: Lake, table: str) -> None:
    lake.run(f"INSERT INTO {table} VALUES (3, 'c', NULL, NULL)")
    first = lake.value(f"SELECT min_by(snapshot_id, committed_at) FROM {table}.snapshots")
    lake.run(
        f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    )
    assert lake.value(f"SELECT count(*) FROM {table}.files") == 1
    lake.run(f"CALL lake.system.rollback_to_snapshot('{table}', {first})")
    assert lake.value(f"SELECT count(*) FROM {table}") == 2
    lake.run(f"CALL lake.system.expire_snapshots(table => '{table}', older_than => now(), retain_last => 1)")
    assert [snapshot.snapshot_id for snapshot in lake.iceberg(table).snapshots()] == [first]


def test_namespaces_hold_properties_and_go_only_when_empty(lake: Lake) -> None:
    lake.run("CREATE NAMESPACE aside COMMENT 'kept apart' WITH DBPROPERTIES ('team' = 'ops')")
    lake.run("ALTER NAMESPACE aside SET PROPERTIES ('team' = 'dev')")
    assert ("aside",) in lake.rows("SHOW NAMESPACES")
    described = dict(lake.rows("DESCRIBE NAMESPACE EXTENDED aside"))
    assert described["Comment"] == "kept apart"
    assert "(team,dev)" in described["Properties"]
    lake.run("CREATE TABLE aside.t (id INT) USING iceberg")
    assert [row[1] for row in lake.rows("SHOW TABLES IN aside")] == ["t"]
    with pytest.raises(Error):
        lake.run("DROP NAMESPACE aside")
    lake.run("DROP TABLE aside.t")
    lake.run("DROP NAMESPACE aside")
    assert ("aside",) not in lake.rows("SHOW NAMESPACES")


def test_a_definition_can_be_shown(lake: Lake, table: str) -> None:
    assert "USING iceberg" in lake.value(f"SHOW CREATE TABLE {table}")
    described = {row[0]: row[1] for row in lake.rows(f"DESCRIBE TABLE {table}")}
    assert described["id"] == "int"
    assert [name for (name,) in lake.rows(f"SHOW COLUMNS IN {table}")] == ["id", "name", "at", "place"]
    assert "BatchScan" in "".join(str(row[0]) for row in lake.rows(f"EXPLAIN SELECT * FROM {table}"))


def local(location: str) -> Path:
    return Path(urlparse(location).path)
