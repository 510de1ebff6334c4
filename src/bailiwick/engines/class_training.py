"""The run that teaches Java an engine's classes: an engine of its own does the usual things.

It writes the archive as it ends. A failure only means that there is none.
"""

import asyncio
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from bailiwick.engines import launch
from bailiwick.engines.canary import check_guard
from bailiwick.engines.class_archive import ClassArchive
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.engine import EngineLost, EngineSession
from bailiwick.engines.process import EngineProcess
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.engines.warmup import USUAL_STATEMENTS
from bailiwick.errors import BailiwickError
from bailiwick.ids import new_lease_id, new_operation_id
from bailiwick.policy.stamp import StampKey

CANARY_HANDLE: Final = "training-canary"
"""The session in which the catalog is to see the canary."""

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


async def make_archive(archive: ClassArchive, catalog_uri: str, credential: str, stamp_key: StampKey) -> bool:
    """Run the training against that catalog, which knows no tables yet and lets any lease in.

    True if there is an archive now; a failure only means that there is none.
    """
    if archive.is_made or not archive.is_supported:
        return archive.is_made
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=archive.path.parent))
    try:
        await _train(archive, scratch, catalog_uri, credential, stamp_key)
        with suppress(FileNotFoundError):
            (scratch / archive.path.name).replace(archive.path)
        _forget_old_ones(archive.path.parent)
    except (OSError, EngineLost, BailiwickError, TimeoutError):
        return False
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
    return archive.is_made


async def _train(
    archive: ClassArchive, scratch: Path, catalog_uri: str, credential: str, stamp_key: StampKey
) -> None:
    places = launch.Places.under(scratch, EngineConfig())
    places.create()
    token = launch.new_token()
    properties = launch.engine_properties(
        EngineConfig(), places, archive.jars, token=token, catalog_uri=catalog_uri, cores=2
    )
    launch.write_private(places.properties, launch.properties_text(properties))
    launch.write_private(places.credential, credential)
    launch.write_private(places.stamp_key, stamp_key.text)
    flags = (f"-XX:ArchiveClassesAtExit={scratch / archive.path.name}",)
    command = launch.java_command(
        archive.java, archive.jars, places, heap_bytes=_HEAP_BYTES, archive_flags=flags
    )
    process = await EngineProcess.start(
        ["nice", "-n", "10", *command],
        environment=launch.engine_environment(os.environ, archive.jars),
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
        await _refuse(await _opened(channel, CANARY_HANDLE))
        session = await _opened(channel, "training")
        await session.use(launch.CATALOG, (), lease=new_lease_id())
        for statement in _STATEMENTS:
            async with asyncio.timeout(_STATEMENT_TIMEOUT_S):
                await _run(session, statement)
    finally:
        await channel.close()


async def _opened(channel: SparkConnectChannel, handle: str) -> EngineSession:
    return await channel.open_session(handle, {f"spark.sql.catalog.{launch.CATALOG}.token": handle})


async def _refuse(session: EngineSession) -> None:
    """As every new session does first."""
    with suppress(BailiwickError):
        await check_guard(session, new_lease_id())


async def _run(session: EngineSession, sql: str) -> None:
    await session.describe(sql, lease=new_lease_id(), timeout_s=_STATEMENT_TIMEOUT_S)
    async for _ in session.execute(sql, operation=new_operation_id(), lease=new_lease_id()):
        pass


def _forget_old_ones(directory: Path) -> None:
    """They are large, and each change of a jar leaves one behind."""
    newest_first = sorted(directory.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in newest_first[_ARCHIVES_MAX:]:
        old.unlink(missing_ok=True)
