"""The gateway serves tables without ever opening a file that rows stand in.

With files on a local disk the operating system would let it: this shows that it does not, not that it could
not. The shared gateway is watched from its start to its end, whichever test asks it; when all have asked,
`tests/conftest.py` looks once more.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bailiwick.testing.asking import rows, value
from bailiwick.testing.gateway import RunningGateway, clean_environment
from bailiwick.testing.ingesting import SCHEMA, batches, bring
from bailiwick.testing.opened_files import OpenedFiles

pytestmark = [pytest.mark.timeout(300)]

TABLE = "lake.unopened.t"
STATEMENTS = (
    "CREATE NAMESPACE lake.unopened",
    f"CREATE TABLE {TABLE} USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read') AS "
    "SELECT id, concat('word ', id) AS word FROM range(0, 1000, 1, 4)",
    f"INSERT INTO {TABLE} VALUES (1000, 'one more')",
    f"UPDATE {TABLE} SET word = 'other' WHERE id = 7",
    f"DELETE FROM {TABLE} WHERE id < 5",
    f"MERGE INTO {TABLE} t USING (SELECT 8L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    f"ALTER TABLE {TABLE} ADD COLUMN more STRING",
    f"CREATE VIEW lake.unopened.v AS SELECT word FROM {TABLE} WHERE id > 10",
)
READS = (
    f"SELECT max(word) FROM {TABLE}",
    "SELECT count(*) FROM lake.unopened.v",
    f"SELECT count(*) FROM {TABLE}.files",
    f"SELECT count(*) FROM {TABLE}.snapshots",
    f"EXPLAIN SELECT * FROM {TABLE}",
    "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'unopened'",
)


@pytest.mark.spark
def test_whatever_is_done_to_a_table_the_gateway_opens_only_its_metadata(
    gateway: RunningGateway, opened_files: OpenedFiles
) -> None:
    for statement in STATEMENTS:
        rows(gateway, statement)
    for read in READS:
        assert rows(gateway, read)
    assert value(gateway, f"SELECT count(*) FROM {TABLE}") == 995
    # Of more than one piece, so that it is gathered in a table of its own first.
    assert bring(gateway, "brought", _reader(8), schema="unopened") == 8 * 20_000
    on_disk = {path.name for path in (gateway.data_dir / "warehouse").rglob("*.parquet")}
    assert len(on_disk) > 5
    # It was watched: commits are judged by manifests, and these it reads.
    names = [path.name for path in opened_files.opened()]
    assert any(name.endswith(".metadata.json") for name in names)
    assert any(name.endswith(".avro") for name in names)
    assert opened_files.data_files() == []
    assert opened_files.readers() == []


def test_a_process_that_opens_a_data_file_is_found_out(tmp_path: Path) -> None:
    metadata, data = (tmp_path / "data" / "warehouse" / "t" / name for name in ("metadata", "data"))
    for directory in (metadata, data):
        directory.mkdir(parents=True)
    files = [metadata / "00001-x.metadata.json", metadata / "m0.avro", data / "0.parquet", data / "m.avro"]
    for file in files:
        file.write_text("content")
    watched = OpenedFiles(tmp_path / "watch", tmp_path / "data")
    script = (
        "import os, sys\nfor file in sys.argv[1:3]: open(file).read()\n"
        "os.close(os.open(sys.argv[3], os.O_RDONLY))\nos.chdir(os.path.dirname(sys.argv[4]))\n"
        "open('m.avro', 'rb').read()\nimport pyarrow.parquet\n"
    )
    subprocess.run(
        [sys.executable, "-c", script, *map(str, files)],
        env=clean_environment({**os.environ, **watched.settings}),
        check=True,
    )
    assert watched.opened() == files
    assert watched.data_files() == files[2:]
    assert "pyarrow.parquet" in watched.readers()


def _reader(count: int) -> object:
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(SCHEMA, batches(count))
