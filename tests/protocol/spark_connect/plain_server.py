"""A plain Spark Connect server of the same version: no gateway, no guard, Iceberg with a catalog in memory.

What it answers is what is right. It runs with the settings that decide what a query means as an engine of
ours has them: ANSI, UTC, `lake` as the catalog.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bailiwick.engines.launch import QUICK_COMPILE
from bailiwick.testing.plain_connect import plain_connect

_JAVA_OPTIONS = (
    "-Xmx1g",
    QUICK_COMPILE,
    "-Xss4m",
    "-Djava.net.preferIPv6Addresses=false",
    "-XX:+IgnoreUnrecognizedVMOptions",
)


def _properties(directory: Path) -> dict[str, str]:
    return {
        "spark.master": "local[4]",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory),
        "spark.sql.connect.serverStacktrace.enabled": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.variable.substitute": "false",
        "spark.sql.warehouse.dir": str(directory / "plain-warehouse"),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": "lake",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
        "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "spark.sql.catalog.lake.warehouse": str(directory / "lake"),
        "spark.sql.catalog.lake.cache-enabled": "false",
    }


@contextmanager
def plain_server(directory: Path) -> Iterator[str]:
    """Its address, until the block ends."""
    with plain_connect(directory, _JAVA_OPTIONS, _properties(directory), with_iceberg=True) as port:
        yield f"127.0.0.1:{port}"
