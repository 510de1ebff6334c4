"""A Spark standalone cluster on this machine: a master and workers, from the classes of the pip package.

For tests that break them and for the demonstration. Executors belong to the process group of their worker;
all of them are ended by its id when the block ends, whatever happened. The master keeps what it knows in a
directory, so that one that was killed goes on where it stopped.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bailiwick.engines.jars import pyspark_jars
from bailiwick.engines.java import find_java
from bailiwick.testing.daemon import Daemon

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_MASTER_UP = r"Starting Spark master at (spark://\S+)"
_WORKER_UP = r"Successfully registered with master"
_REGISTERED = "Successfully registered with driver"
_LOOPBACK = ("--host", "127.0.0.1", "--webui-port", "0")
_JAVA_OPTIONS = (
    "-Xmx256m",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


@dataclass(slots=True)
class Cluster:
    """Use `standalone_cluster` to have one."""

    directory: Path
    worker_cores: int
    worker_memory: str
    url: str = ""
    master: Daemon | None = None
    workers: list[Daemon] = field(default_factory=list)

    @property
    def blocks(self) -> Path:
        """Where executors keep what they shuffle and spill."""
        return self.directory / "blocks"

    @property
    def executor_pids(self) -> list[int]:
        """The executors that run now, those of workers that died included as long as they live."""
        return [pid for worker in self.workers for pid in _executors_of_group(worker.pid)]

    @property
    def registered_executor_pids(self) -> list[int]:
        """Those of them that have come up far enough to be given tasks."""
        return [pid for pid in self.executor_pids if _is_registered(pid)]

    def start_master(self) -> None:
        """Also again: at the same address as before, with what the one before knew."""
        port = self.url.rpartition(":")[2] or "0"
        kept = self.directory / "master-state"
        kept.mkdir(exist_ok=True)
        recovery = (
            "-Dspark.deploy.recoveryMode=FILESYSTEM",
            f"-Dspark.deploy.recoveryDirectory={kept}",
        )
        self.master = self._start("master", recovery, _MASTER, *_LOOPBACK, "--port", port)
        self.url = self.master.wait_for(_MASTER_UP).group(1)

    def start_worker(self) -> Daemon:
        name = f"worker-{len(self.workers)}"
        size = ("--cores", str(self.worker_cores), "--memory", self.worker_memory)
        place = ("--work-dir", str(self.directory / "work" / name))
        worker = self._start(name, (), _WORKER, *_LOOPBACK, "--port", "0", *size, *place, self.url)
        self.workers.append(worker)
        worker.wait_for(_WORKER_UP)
        return worker

    def mend(self) -> None:
        """Start again what died: the master, and as many workers."""
        if self.master is not None and not self.master.is_alive:
            self.master.end()
            self.start_master()
        dead = [worker for worker in self.workers if not worker.is_alive]
        for worker in dead:
            worker.end()
            self.workers.remove(worker)
        for _ in dead:
            self.start_worker()

    def end(self) -> None:
        for worker in self.workers:
            worker.end()
        if self.master is not None:
            self.master.end()

    def _start(self, name: str, options: Sequence[str], main: str, *arguments: str) -> Daemon:
        jars = pyspark_jars()
        java = [str(find_java().executable), *_JAVA_OPTIONS, *options, "-cp", f"{jars}/*", main]
        environment = {
            "PATH": "/usr/bin:/bin",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_HOME": str(jars.parent),
            "SPARK_LOCAL_DIRS": str(self.blocks),
        }
        return Daemon.start(self.directory, name, [*java, *arguments], environment)


@contextmanager
def standalone_cluster(
    directory: Path, *, workers: int = 1, cores: int = 1, memory: str = "1g"
) -> Iterator[Cluster]:
    """A cluster with that many workers of that size, on loopback, until the block ends."""
    directory.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(directory, cores, memory)
    try:
        cluster.start_master()
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        cluster.end()


def _is_registered(executor: int) -> bool:
    """An executor says so in the file beside which it runs."""
    try:
        said = Path(psutil.Process(executor).cwd()) / "stderr"
        return _REGISTERED in said.read_text(errors="replace")
    except (psutil.Error, OSError):
        return False


def _executors_of_group(group: int) -> list[int]:
    return [process.pid for process in psutil.process_iter() if _is_executor_of(process, group)]


def _is_executor_of(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and _EXECUTOR in process.cmdline()
    except (psutil.Error, ProcessLookupError, PermissionError):
        return False
