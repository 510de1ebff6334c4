"""Java's own memory of the classes it loaded (AppCDS), so that an engine starts in about half the time.

It is made once for each Java and set of jars, by a training run: an engine of its own that does the usual
things and writes the archive as it ends. Java checks an archive against its jars and passes over one that
does not fit, so a wrong one costs time, never correctness. No engine ever waits for an archive.
"""

import asyncio
import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bailiwick.engines import launch
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.engine import EngineLost, EngineSession
from bailiwick.engines.jars import Jars
from bailiwick.engines.java import Java
from bailiwick.engines.process import EngineProcess
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.engines.warmup import USUAL_STATEMENTS
from bailiwick.errors import BailiwickError
from bailiwick.ids import new_lease_id, new_operation_id
from bailiwick.policy.stamp import StampKey

_START_TIMEOUT_S = 120.0
_WRITE_TIMEOUT_S = 120.0
_STATEMENT_TIMEOUT_S = 60.0
_HEAP_BYTES = 512 << 20
_ARCHIVES_MAX = 2

_STATEMENTS = (
    *USUAL_STATEMENTS,
    "CREATE NAMESPACE lake.training",
    "CREATE TABLE lake.training.t AS SELECT id, id % 7 AS k, cast(id AS STRING) AS s FROM range(1000)",
    "INSERT INTO lake.training.t SELECT id, id % 7, 'x' FROM range(10)",
    "SELECT k, count(*), sum(id), max(s) FROM lake.training.t WHERE id > 5 GROUP BY k ORDER BY k LIMIT 5",
    "SELECT a.k, b.s, rank() OVER (PARTITION BY a.k ORDER BY b.id) FROM lake.training.t a"
    " JOIN lake.training.t b ON a.id = b.id WHERE a.s LIKE '1%'",
    "SHOW TABLES IN lake.training",
    "DROP TABLE lake.training.t",
)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive that fits this Java and these jars, whether it has been made or not."""

    java: Java
    jars: Jars
    path: Path

    @classmethod
    def fitting(cls, java: Java, jars: Jars, cache: Path) -> "ClassArchive":
        return cls(java, jars, cache / "archives" / f"{_fingerprint(java, jars)}.jsa")

    @property
    def is_supported(self) -> bool:
        """Ours is built upon the one that came with Java, which some builds lack."""
        return self.java.archive.is_file()

    @property
    def is_made(self) -> bool:
        return self.path.is_file()

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto") if self.is_made else ()

    async def make(self, catalog_uri: str, credential: str, stamp_key: StampKey) -> bool:
        """Run the training against that catalog, which knows no tables yet and lets any lease in.

        True if there is an archive now; a failure only means that there is none.
        """
        if self.is_made or not self.is_supported:
            return self.is_made
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self.path.parent))
        try:
            await self._train(scratch, catalog_uri, credential, stamp_key)
            with suppress(FileNotFoundError):
                (scratch / self.path.name).replace(self.path)
            self._forget_old_ones()
        except (OSError, EngineLost, BailiwickError, TimeoutError):
            return False
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        return self.is_made

    def _forget_old_ones(self) -> None:
        """They are large, and each change of a jar leaves one behind."""
        newest_first = sorted(
            self.path.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True
        )
        for old in newest_first[_ARCHIVES_MAX:]:
            old.unlink(missing_ok=True)

    async def _train(self, scratch: Path, catalog_uri: str, credential: str, stamp_key: StampKey) -> None:
        places = launch.Places.under(scratch, EngineConfig())
        places.create()
        token = launch.new_token()
        properties = launch.engine_properties(
            EngineConfig(), places, self.jars, token=token, catalog_uri=catalog_uri, cores=2
        )
        launch.write_private(places.properties, launch.properties_text(properties))
        launch.write_private(places.credential, credential)
        launch.write_private(places.stamp_key, stamp_key.text)
        flags = (f"-XX:ArchiveClassesAtExit={scratch / self.path.name}",)
        command = launch.java_command(
            self.java, self.jars, places, heap_bytes=_HEAP_BYTES, archive_flags=flags
        )
        process = await EngineProcess.start(
            ["nice", "-n", "10", *command],
            environment=launch.engine_environment(os.environ, self.jars),
            directory=places.run,
            log=places.log / "engine.log",
        )
        try:
            port = await asyncio.wait_for(asyncio.shield(process.port), _START_TIMEOUT_S)
            await _exercise(f"127.0.0.1:{port}", token)
        except BaseException:
            await process.end(0)
            raise
        await process.end(_WRITE_TIMEOUT_S)


async def _exercise(address: str, token: str) -> None:
    channel = SparkConnectChannel(address, token)
    try:
        session = await channel.open_session("training", {})
        await session.use(launch.CATALOG, (), lease=new_lease_id())
        for statement in _STATEMENTS:
            async with asyncio.timeout(_STATEMENT_TIMEOUT_S):
                await _run(session, statement)
    finally:
        await channel.close()


async def _run(session: EngineSession, sql: str) -> None:
    await session.describe(sql, lease=new_lease_id(), timeout_s=_STATEMENT_TIMEOUT_S)
    async for _ in session.execute(sql, operation=new_operation_id(), lease=new_lease_id()):
        pass


def _fingerprint(java: Java, jars: Jars) -> str:
    """Changes with anything that Java would refuse the archive for."""
    files = [jars.guard, jars.iceberg, *sorted(jars.pyspark.glob("*.jar"))]
    parts = [str(java.executable), java.release]
    for file in files:
        status = file.stat()
        parts.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
