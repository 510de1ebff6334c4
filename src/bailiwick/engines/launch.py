"""How an engine is started: its Spark properties, its Java command, its environment.

Everything here is built, nothing is run. Secrets stand only in files of mode 0600, never in the command or
the environment, where every user of the machine could read them.
"""

import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bailiwick.engines.config import EngineConfig, size_bytes
from bailiwick.engines.jars import Jars
from bailiwick.engines.java import Java
from bailiwick.engines.surroundings import ALONE, LOOPBACK, Surroundings, network_safety

CATALOG = "lake"
OUT_OF_MEMORY_EXIT_CODE = 3
"""What Java exits with under `-XX:+ExitOnOutOfMemoryError`."""
QUICK_COMPILE = "-XX:TieredStopAtLevel=1"
"""For a Java that ends before thorough compiling would have paid."""

NO_PYTHON = "/dev/null"
"""What an engine starts for Python that should not have come as far as that."""

_SPARE_THREADS = 4
_HEAP_BYTES_DEFAULT = 8 << 30
_ROW_GROUP_BYTES = 16 << 20
_CODE_CACHE_ENTRIES = 1000
_COMPILED_CODE = "512m"
"""Java's 240 fill with what is generated for a hundred sessions, and then it forgets what it has compiled."""
_TASK_FAILURES_MAX = 8
_SHUFFLE_PARTITIONS_MIN = 32
_BESIDE = Path(__file__).parent
_EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.bailiwick.Constants",
    "io.bailiwick.Guard",
)
_OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
# Nothing else of the gateway's environment reaches the engine: it may hold passwords.
_ENVIRONMENT_KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "KUBECONFIG",
)


@dataclass(frozen=True, slots=True)
class Places:
    """Where an engine keeps its files, inside the gateway's data directory."""

    run: Path
    log: Path
    spill: Path

    @classmethod
    def under(cls, data_directory: Path, config: EngineConfig) -> "Places":
        spill = config.spill_dir or data_directory / "spill"
        return cls(run=data_directory / "run", log=data_directory / "log", spill=spill)

    def create(self) -> None:
        for directory in (self.run, self.log, self.spill):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def properties(self) -> Path:
        return self.run / "engine.properties"

    @property
    def credential(self) -> Path:
        return self.run / "engine.credential"

    @property
    def stamp_key(self) -> Path:
        return self.run / "engine.stamp-key"


def new_token() -> str:
    """A secret for one life of one engine."""
    return secrets.token_urlsafe(32)


def engine_properties(
    config: EngineConfig,
    places: Places,
    jars: Jars,
    *,
    token: str,
    catalog_uri: str,
    cores: int,
    surroundings: Surroundings = ALONE,
    runs_code: bool = False,
) -> dict[str, str]:
    """Spark's configuration. What a session could use to weaken another is static here.

    With `runs_code` the guard lets users' Python pass, in sessions that are theirs alone.
    """
    return {
        **surroundings.more,
        **_threads(config.master, cores),
        "spark.app.name": "bailiwick",
        **_connect(token),
        **_network(config, jars, surroundings.driver_host),
        **_catalog(places, catalog_uri),
        **_results(config, cores),
        **_safety(),
        **(_user_code(config.master) if runs_code else {}),
        **_memory(places),
        # Spark's 100 are for all sessions together, and each session has code of its own.
        "spark.sql.codegen.cache.maxEntries": str(_CODE_CACHE_ENTRIES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.autoBroadcastJoinThreshold": str(config.broadcast_threshold_bytes),
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (_BESIDE / "fair-scheduler.xml").as_uri(),
    }


def _threads(master: str, cores: int) -> dict[str, str]:
    """More threads for tasks than cores, where they are ours to count.

    Spark takes no thread away from a task, and where each of several queries has one task at most, the query
    whose stage has the lower number gets every thread that becomes free. With a thread more than there are
    long queries (`long_running_max`) a short one always finds its turn.
    """
    if not is_local(master) or "," in master:
        return {"spark.master": master}
    return {
        "spark.master": f"local[{cores + _SPARE_THREADS}]",
        "spark.default.parallelism": str(cores),
    }


def _connect(token: str) -> dict[str, str]:
    return {
        "spark.connect.authenticate.token": token,
        "spark.connect.grpc.binding.address": LOOPBACK,
        # Spark takes a free port and `io.bailiwick.Engine` tells which: no race for one that we picked.
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.extensions.relation.classes": (
            "io.bailiwick.Describe,io.bailiwick.TasksAnswer,io.bailiwick.Analyse"
        ),
        "spark.extraListeners": "io.bailiwick.StrayJobs,io.bailiwick.Leftovers,io.bailiwick.Tasks",
        "spark.connect.session.planCache.maxSize": "0",
        # The gateway closes its sessions; a pooled one may well be idle for an hour.
        "spark.connect.session.manager.defaultSessionTimeout": "24h",
        "spark.connect.progress.reportInterval": "500ms",
        "spark.sql.connect.serverStacktrace.enabled": "false",
    }


def _network(config: EngineConfig, jars: Jars, driver_host: str) -> dict[str, str]:
    if is_local(config.master):
        # Spark's own RPC port believes any process of the machine unless a secret is needed (Spark makes it).
        return {**_driver(LOOPBACK), "spark.authenticate": "true"}
    safety = {} if driver_host == LOOPBACK else network_safety()
    return {
        **_driver(driver_host),
        **safety,
        "spark.jars": f"{jars.iceberg.as_uri()},{jars.guard.as_uri()}",
        # An executor that is killed counts as a failure of the tasks that it had.
        "spark.task.maxFailures": str(_TASK_FAILURES_MAX),
    }


def _driver(host: str) -> dict[str, str]:
    return {"spark.driver.host": host, "spark.driver.bindAddress": host, "spark.ui.enabled": "false"}


def _catalog(places: Places, uri: str) -> dict[str, str]:
    return {
        # The guard comes last: what Iceberg's extension makes of a statement is seen by it too.
        "spark.sql.extensions": ",".join(_EXTENSIONS),
        "spark.bailiwick.catalogs": CATALOG,
        "spark.sql.defaultCatalog": CATALOG,
        f"spark.sql.catalog.{CATALOG}": "io.bailiwick.SharedRestCatalog",
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
        "spark.bailiwick.catalog.uri": uri,
        "spark.bailiwick.catalog.credential-file": str(places.credential),
        "spark.bailiwick.stamp-key-file": str(places.stamp_key),
        "spark.bailiwick.catalog.rest.client.connection-timeout-ms": "5000",
        "spark.bailiwick.catalog.rest.client.socket-timeout-ms": "60000",
        # A row group is the least that a task can read, so the least that a partition of a result can be.
        "spark.bailiwick.catalog.table-default.write.parquet.row-group-size-bytes": str(_ROW_GROUP_BYTES),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (places.run / "no-warehouse").as_uri(),
    }


def _results(config: EngineConfig, cores: int) -> dict[str, str]:
    """The driver holds a task's whole result at once: partitions are small, so that any total may pass."""
    size = str(config.output_partition_bytes)
    return {
        # Many, of which Spark joins the small ones again (below): as few as there are cores would be a little
        # quicker, but then a sorted result comes in as few partitions, each of them huge.
        "spark.sql.shuffle.partitions": str(max(_SHUFFLE_PARTITIONS_MIN, 16 * cores)),
        # Spark's shortcut for few partitions opens a file for each of them.
        "spark.shuffle.sort.bypassMergeThreshold": "1",
        # Else what a query shuffled stays on disk until Java collects what stood for it, often much later.
        # `classic` is for what one statement runs inside another: the query of a CREATE TABLE AS.
        "spark.sql.connect.shuffleDependency.fileCleanup.enabled": "true",
        "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
        # By default it grows with the heap, and every sort and every grouping of a few rows then has Java
        # clear tens of megabytes; large ones take as many small pages as they need, and no longer for it.
        "spark.buffer.pageSize": "1m",
        "spark.driver.maxResultSize": "0",
        "spark.connect.grpc.arrow.maxBatchSize": "3m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # For the clients that read it (`EngineSession.compress`). More thorough levels cost more than they
        # save, above all of rows that nothing can shrink.
        "spark.sql.execution.arrow.compression.zstd.level": "1",
        "spark.sql.iceberg.read.split-size": size,
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": size,
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }


def _safety() -> dict[str, str]:
    return {
        "spark.sql.variable.substitute": "false",
        "spark.sql.runSQLOnFiles": "false",
        # A type that is written as JSON could name a class, to be loaded and made.
        "spark.sql.udt.allowCreatingUDTFromString": "false",
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|authorization|credential|bailiwick",
    }


def _user_code(master: str) -> dict[str, str]:
    # On other machines nobody knows whether their Python has our package.
    daemon = {"spark.python.daemon.module": "bailiwick.engines.python_daemon"} if is_local(master) else {}
    return {
        **daemon,
        "spark.bailiwick.user-code": "true",
        # What one's code leaves behind in its process would meet that of the next one.
        "spark.python.worker.reuse": "false",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    }


def _memory(places: Places) -> dict[str, str]:
    """Nobody looks at Spark's own history: the gateway keeps one."""
    return {
        "spark.local.dir": str(places.spill),
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.sql.connect.ui.retainedSessions": "10",
        "spark.sql.connect.ui.retainedStatements": "10",
    }


def java_command(
    java: Java,
    jars: Jars,
    places: Places,
    *,
    heap_bytes: int,
    archive_flags: Sequence[str] = (),
    trust_store: Path | None = None,
    quick_compile: bool = False,
) -> list[str]:
    """The command that runs an engine. It holds no secret."""
    trust = () if trust_store is None else (f"-Djavax.net.ssl.trustStore={trust_store}",)
    return [
        str(java.executable),
        f"-Xmx{heap_bytes >> 20}m",
        "-Xss4m",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ReservedCodeCacheSize={_COMPILED_CODE}",
        *((QUICK_COMPILE,) if quick_compile else ()),
        *archive_flags,
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djava.net.preferIPv4Stack=true",
        "-Duser.timezone=UTC",
        *trust,
        f"-Djava.io.tmpdir={places.spill}",
        f"-Dlog4j2.configurationFile={_BESIDE / 'log4j2.xml'}",
        "-cp",
        class_path(jars),
        "io.bailiwick.Engine",
        "--properties-file",
        str(places.properties),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]


def class_path(jars: Jars) -> str:
    return os.pathsep.join((str(jars.guard), str(jars.iceberg), f"{jars.pyspark}/*"))


def engine_environment(
    environment: Mapping[str, str], jars: Jars, *, driver_host: str = LOOPBACK, runs_code: bool = False
) -> dict[str, str]:
    python = environment.get("PYSPARK_PYTHON", sys.executable)
    kept = {name: environment[name] for name in _ENVIRONMENT_KEPT if name in environment}
    return {
        **kept,
        "SPARK_HOME": str(jars.pyspark.parent),
        "SPARK_LOCAL_IP": driver_host,
        # What `current_user()` answers: never the account that the machine runs it under.
        "SPARK_USER": "bailiwick",
        # Which Python code of users is run by, on the executors' machines too.
        "PYSPARK_PYTHON": python if runs_code else NO_PYTHON,
    }


def heap_bytes(config: EngineConfig, memory_bytes: int) -> int:
    """What was asked for, or the default; the default takes at most half of the machine's memory."""
    if config.memory is not None:
        return size_bytes(config.memory)
    return min(_HEAP_BYTES_DEFAULT, memory_bytes // 2)


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def local_cores(master: str, available: int) -> int:
    """The cores of a local master: `local` is one, `local[*]` all."""
    match = re.fullmatch(r"local\[(\d+)(?:\s*,.*)?\]", master)
    if match:
        return int(match.group(1))
    return 1 if master == "local" else available


def properties_text(properties: Mapping[str, str]) -> str:
    """In the format of `java.util.Properties`."""
    return "".join(
        f"{_escaped(key, key=True)}={_escaped(value)}\n" for key, value in sorted(properties.items())
    )


def _escaped(text: str, *, key: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if key:
        return re.sub(r"([\s:=#!])", r"\\\1", text)
    return re.sub(r"^(\s)", r"\\\1", text)


def write_private(path: Path, text: str) -> None:
    """A file that only we can read, also while it is being written."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
