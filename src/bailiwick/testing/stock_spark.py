"""The stock PySpark client, straight on a gateway's embedded engine and past all doors.

For work that no client may do: the demo makes its lake so, and benchmarks measure themselves against it. It
takes the right to read the engine's private files, and a lease from the gateway's own pool, under which the
catalog knows who acts.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LISTENING = re.compile(r"^bailiwick-engine listening on (\d+)\s*$", re.MULTILINE)
_TOKEN = re.compile(r"^spark\.connect\.authenticate\.token=(\S+)$", re.MULTILINE)
_CATALOG_TOKEN = "spark.sql.catalog.lake.token"  # noqa: S105 - the name of a setting


@dataclass(frozen=True, slots=True)
class EngineDoor:
    """Where an engine listens, and the secret that it asks for."""

    port: int
    token: str = field(repr=False)

    @classmethod
    def of(cls, data_dir: Path) -> "EngineDoor":
        """The engine that serves `data_dir` now. Raises LookupError if none has started there."""
        ports = _LISTENING.findall((data_dir / "log" / "engine.log").read_text(errors="replace"))
        token = _TOKEN.search((data_dir / "run" / "engine.properties").read_text())
        if not ports or token is None:
            raise LookupError(f"no engine has started in {data_dir}")
        return cls(port=int(ports[-1]), token=token.group(1))

    def connect(self, *, session_handle: str, lease_id: str) -> "SparkSession":
        """A new Spark session whose table calls pass for those of the lease.

        The lease travels as a tag, which analysis calls do not carry: tables can be read and written by it,
        but not looked at with `columns`, `schema` or `printSchema`. The client keeps tags by thread: another
        one must `addTag` again. Blocks; stop the session when done.
        """
        from pyspark.sql import SparkSession

        # The client sends a token over plaintext only to a host that is spelled `localhost`.
        url = f"sc://localhost:{self.port}/;token={self.token}"
        spark = SparkSession.builder.remote(url).config(_CATALOG_TOKEN, session_handle).create()
        spark.addTag(lease_id)
        return spark
