"""What tables are thought to hold, for those who choose engines."""

from pathlib import Path

from bailiwick.catalog import wire
from bailiwick.catalog.commits import Commit
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.sizes import TableSizes
from bailiwick.names import TableName
from bailiwick.testing.iceberg import add_snapshot, create_request, set_ref, snapshot

T = TableName(("db",), "t")


def grow(service: CatalogService, snapshot_id: int, size_bytes: int) -> None:
    made = snapshot(wire.parsed_object(service.load(T).data), snapshot_id)
    made["summary"]["total-files-size"] = str(size_bytes)
    service.commits.commit_tables([Commit(T, [], [add_snapshot(made), set_ref(snapshot_id)])])


async def test_a_table_counts_as_large_as_it_was_until_its_new_metadata_is_read(tmp_path: Path) -> None:
    service = CatalogService(MemoryBackend(), tmp_path)
    service.create_namespace(("db",))
    sizes = TableSizes(service)
    assert sizes.size_bytes(T) == 0, "there is no such table"
    service.commits.create_table(T, create_request())
    for snapshot_id, (before, now) in enumerate([(0, 4_000), (4_000, 7_000)], start=1):
        grow(service, snapshot_id, now)
        assert sizes.size_bytes(T) == sizes.size_bytes(T) == before
        await sizes.wait_read()
        assert sizes.size_bytes(T) == now
