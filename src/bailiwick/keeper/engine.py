"""Starting an engine for a gateway elsewhere: the same launcher as the embedded one, with secrets a life.

It starts a process and hands it over. Whether to start another one is decided by `keeper.py`.
"""

import asyncio
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from bailiwick.engines import launch
from bailiwick.engines.class_archive import ClassArchive
from bailiwick.engines.jars import Jars, cache_directory, ensure_jars
from bailiwick.engines.java import Java, find_java
from bailiwick.engines.process import EngineProcess
from bailiwick.keeper.config import KeeperConfig
from bailiwick.keeper.trust import write_trust_store
from bailiwick.policy.stamp import StampKey
from bailiwick.secrets import Secret, new_secret

_LIFE_BYTES: Final = 16
_LEFTOVERS: Final = ("spark-*", "blockmgr-*")


@dataclass(frozen=True, slots=True)
class Life:
    """One start of the engine. Its secrets are drawn here and are worth nothing when it is over."""

    name: str = field(default_factory=lambda: secrets.token_hex(_LIFE_BYTES))
    engine_token: Secret = field(default_factory=new_secret)
    catalog_credential: Secret = field(default_factory=new_secret)
    stamp_key: Secret = field(default_factory=lambda: Secret(StampKey.new().text))


class EngineStarter:
    """Finds Java and jars once, then starts as many lives as are wanted, one after the other."""

    def __init__(self, config: KeeperConfig) -> None:
        self._config = config
        self._places = launch.Places.under(config.data_directory, config.engine)
        self.heap_bytes = launch.heap_bytes(config.engine, psutil.virtual_memory().total)
        available = len(os.sched_getaffinity(0))
        self._local_cores = launch.local_cores(config.engine.master, available)
        self.cores = config.cores or self._local_cores
        self._java: Java | None = None
        self._jars: Jars | None = None

    @property
    def log(self) -> Path:
        return self._places.log / "engine.log"

    async def prepare(self) -> None:
        """Everything that can go wrong before a process is started, and that no second try would mend."""
        await asyncio.to_thread(self._prepare)

    async def start(self, life: Life, catalog_uri: str) -> EngineProcess:
        """Its Java runs; it is ready when it tells its port. Raises OSError if there is no way to run one."""
        command = await asyncio.to_thread(self._written, life, catalog_uri)
        return await EngineProcess.start(
            command,
            environment=launch.engine_environment(
                os.environ,
                self._found()[1],
                driver_host=self._config.surroundings(None).driver_host,
                runs_code=self._config.runs_code,
            ),
            directory=self._places.run,
            log=self.log,
        )

    def _prepare(self) -> None:
        self._java = find_java(self._config.engine.java_home)
        self._jars = ensure_jars(self._java)
        self._places.create()

    def _found(self) -> tuple[Java, Jars]:
        assert self._java is not None and self._jars is not None  # noqa: S101, PT018 - `prepare` comes first
        return self._java, self._jars

    def _written(self, life: Life, catalog_uri: str) -> list[str]:
        """The command, with all that it reads in place, in files that only we can read."""
        java, jars = self._found()
        places, engine = self._places, self._config.engine
        self._sweep()
        launch.write_private(places.credential, life.catalog_credential.reveal())
        launch.write_private(places.stamp_key, life.stamp_key.reveal())
        trust_store = self._trust_store()
        properties = launch.engine_properties(
            engine,
            places,
            jars,
            token=life.engine_token.reveal(),
            catalog_uri=catalog_uri,
            cores=self._local_cores,
            surroundings=self._config.surroundings(trust_store),
            runs_code=self._config.runs_code,
        )
        launch.write_private(places.properties, launch.properties_text(properties))
        archive = ClassArchive.fitting(java, jars, cache_directory())
        return launch.java_command(
            java,
            jars,
            places,
            heap_bytes=self.heap_bytes,
            archive_flags=archive.flags if engine.class_data_sharing else (),
            quick_compile=engine.quick_compile,
            trust_store=trust_store,
        )

    def _trust_store(self) -> Path | None:
        if self._config.files is None:
            return None
        return write_trust_store(self._config.files.authority, self._places.run / "engine.truststore")

    def _sweep(self) -> None:
        """What a life of before left in the way of spilled rows: nobody reads it any more."""
        for pattern in _LEFTOVERS:
            for left_behind in self._places.spill.glob(pattern):
                shutil.rmtree(left_behind, ignore_errors=True)
