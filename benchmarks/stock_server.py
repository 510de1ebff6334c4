"""Spark Connect as the package ships it: no gateway, no guard, its own defaults. What people have today.

The engine of a gateway is tuned, and skips the job for a row of constants; a stock client straight on it has
those gains, too. A figure that says what somebody wins who comes from Spark is held against this.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bailiwick.testing.plain_connect import plain_connect

HEAP = "4g"
# Where it listens is no matter of speed.
_PROPERTIES = {"spark.master": "local[*]", "spark.ui.port": "0"}
_CATALOG = "spark.sql.catalog.lake"


@contextmanager
def stock_server() -> Iterator[int]:
    """The port of a server that lives until the block ends. Its Iceberg tables, if any, are in `lake`."""
    with tempfile.TemporaryDirectory(prefix="bailiwick-stock-", ignore_cleanup_errors=True) as scratch:
        lake = {
            _CATALOG: "org.apache.iceberg.spark.SparkCatalog",
            f"{_CATALOG}.type": "hadoop",
            f"{_CATALOG}.warehouse": str(Path(scratch) / "lake"),
        }
        java_options, properties = (f"-Xmx{HEAP}",), {**_PROPERTIES, **lake}
        with plain_connect(Path(scratch), java_options, properties, with_iceberg=True) as port:
            yield port
