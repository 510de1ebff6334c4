"""Paths and files: reading or writing past the catalog, and tables that lie where others do."""

import pytest

from attacks.attempt import Attacker, Attempt, refused
from bailiwick.testing.leaks import ask

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

READERS = ("parquet", "iceberg", "text", "csv", "json", "binaryFile", "orc", "avro", "xml", "delta", "hive")

ATTEMPTS: tuple[Attempt, ...] = (
    *(refused(f"files by {reader}", f"SELECT * FROM {reader}.`{{location}}`") for reader in READERS),
    *(
        refused(f"data files by {reader}", f"SELECT * FROM {reader}.`{{location}}/data/*`")
        for reader in READERS[:2]
    ),
    refused("a metadata file as a table", "SELECT * FROM iceberg.`{metadata}`"),
    refused("a metadata file as a table of the catalog", "SELECT * FROM lake.`{metadata}`"),
    refused("a path as a table of the catalog", "SELECT * FROM lake.house.`{location}`"),
    refused("a path as a schema", "SELECT * FROM lake.`{location}`.files"),
    refused("files by a function", "SELECT * FROM read_files('{location}')"),
    refused("files of the machine", "SELECT * FROM text.`/etc/passwd`"),
    refused("the engine's secrets", "SELECT * FROM text.`{data}/run/engine.properties`"),
    refused(
        "a temporary view on files",
        "CREATE TEMPORARY VIEW mine USING parquet OPTIONS (path '{location}/data')",
    ),
    refused("a table on files", "CREATE TABLE lake.desk.mine USING parquet LOCATION '{location}/data'"),
    refused(
        "a table of another format",
        "CREATE TABLE lake.desk.mine (a INT) USING csv OPTIONS (path '{location}')",
    ),
    refused("a table where another lies", "CREATE TABLE lake.desk.mine (id INT) LOCATION '{location}'"),
    refused("a table inside another", "CREATE TABLE lake.desk.mine (id INT) LOCATION '{location}/data'"),
    refused("a table above others", "CREATE TABLE lake.desk.mine (id INT) LOCATION '{warehouse}'"),
    refused(
        "a table beside the warehouse", "CREATE TABLE lake.desk.mine (id INT) LOCATION '{data}/run/mine'"
    ),
    refused(
        "a table with dots in its way",
        "CREATE TABLE lake.desk.mine (id INT) LOCATION '{warehouse}/desk/../house'",
    ),
    *(
        refused(
            f"{key} in another table",
            f"CREATE TABLE lake.desk.mine (id INT) TBLPROPERTIES ('{key}' = '{{location}}')",
        )
        for key in (
            "write.data.path",
            "write.metadata.path",
            "write.object-storage.path",
            "write.folder-storage.path",
        )
    ),
    refused(
        "rows into a directory", "INSERT OVERWRITE DIRECTORY '{data}/out' USING json SELECT ssn FROM people"
    ),
    refused(
        "rows into a local directory", "INSERT OVERWRITE LOCAL DIRECTORY '{data}/out' SELECT ssn FROM people"
    ),
    refused("files into a table", "LOAD DATA INPATH '{location}/data' INTO TABLE lake.desk.mine"),
    refused("a table that is registered", "CALL lake.system.register_table('desk.mine', '{metadata}')"),
    refused("files that are added", "CALL lake.system.add_files('desk.mine', '`parquet`.`{location}/data`')"),
    refused(
        "a table that is copied by its definition", "CREATE TABLE lake.desk.mine LIKE lake.vault.secrets"
    ),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_no_way_past_the_catalog(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(_placed(attacker, attempt))


@pytest.mark.parametrize("key", ["location", "write.data.path", "write.metadata.path"])
def test_a_table_cannot_be_moved_to_where_another_lies(attacker: Attacker, key: str) -> None:
    table = f"lake.desk.moved_{key.replace('.', '_')}"
    connection = attacker.connection("ana")
    assert ask(connection, f"CREATE TABLE {table} (id INT)").code is None
    change = (
        "SET LOCATION '{location}'" if key == "location" else f"SET TBLPROPERTIES ('{key}' = '{{location}}')"
    )
    attacker.judge(_placed(attacker, refused(f"{key} moved", f"ALTER TABLE {table} {change}")))


def _placed(attacker: Attacker, attempt: Attempt) -> Attempt:
    """With the paths that an attacker who knows the machine would use."""
    places = _places(attacker)
    statements = []
    for statement in attempt.statements:
        for name, value in places.items():
            statement = statement.replace(f"{{{name}}}", value)
        statements.append(statement)
    return Attempt(
        attempt.what, tuple(statements), attempt.person, attempt.schema, attempt.refused, attempt.rows
    )


def _places(attacker: Attacker) -> dict[str, str]:
    data = attacker.house.gateway.data_dir
    (metadata, *_) = sorted((data / "warehouse").rglob("people-*/metadata/*.metadata.json"))
    return {
        "data": str(data),
        "warehouse": str(data / "warehouse"),
        "location": str(metadata.parents[1]),
        "metadata": str(metadata),
    }
