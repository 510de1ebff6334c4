"""Metadata tables: files, partitions and snapshots tell of rows, so they are for those who see all rows."""

import pytest

from attacks.attempt import Attacker, Attempt, denied, harmless, refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SIDE_BY_SIDE = True

TABLES = (
    *("history", "snapshots", "files", "manifests", "partitions", "entries", "refs", "metadata_log_entries"),
    *("data_files", "delete_files", "position_deletes"),
    *("all_files", "all_data_files", "all_delete_files", "all_entries", "all_manifests"),
)

ATTEMPTS: tuple[Attempt, ...] = (
    *(denied(f"{name} of a restricted table", f"SELECT * FROM lake.house.people.{name}") for name in TABLES),
    refused("changes of a restricted table", "SELECT * FROM lake.house.people.changes"),
    refused("files in other letters", "SELECT * FROM lake.house.people.FILES"),
    denied("files in backticks", "SELECT * FROM lake.house.`people`.`files`"),
    denied(
        "bounds of hidden values",
        "SELECT lower_bounds, upper_bounds, readable_metrics FROM lake.house.people.files",
    ),
    denied("count of hidden rows", "SELECT sum(record_count) FROM lake.house.counted.files"),
    denied("hidden partitions", "SELECT partition FROM lake.house.people.partitions"),
    denied(
        "files in a subquery", "SELECT 1 WHERE 5 < (SELECT sum(record_count) FROM lake.house.people.files)"
    ),
    denied(
        "files in a join", "SELECT p.id FROM people p JOIN lake.house.people.files f ON f.record_count > 0"
    ),
    denied(
        "files of an older version", "SELECT * FROM lake.house.people.files VERSION AS OF {snapshot_people_0}"
    ),
    refused("files of a branch", "SELECT * FROM lake.house.events.branch_side.files"),
    denied("files of a subquery's filter", "SELECT * FROM lake.house.orders.files"),
    denied("files of a masked table without a filter", "SELECT * FROM lake.house.products.files"),
    denied("files into a table", "CREATE TABLE lake.desk.files AS SELECT * FROM lake.house.people.files"),
    refused("files as an option", "SELECT * FROM people WITH (`metadata-table` = 'files')"),
    refused("files of a hidden table", "SELECT * FROM lake.vault.secrets.files"),
    refused("files of a view", "SELECT * FROM lake.house.open_orders.files"),
    denied("files are described", "DESCRIBE TABLE lake.house.people.files"),
    harmless("files of an unrestricted table", "SELECT count(*) FROM lake.house.regions.files"),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_metadata_of_a_restricted_table_is_not_shown(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)
