"""A Spark Connect server with nothing of ours in it, to hold ourselves against Spark itself."""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bailiwick.engines import jars
from bailiwick.engines.java import find_java

START_S: Final = 120.0
POLL_S: Final = 0.1

_STARTED = re.compile(r"Spark Connect server started at: \S*?:(\d+)")
_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_OPENED: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
"""What Spark's own start script opens to it."""
_LISTENING: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}


@contextmanager
def plain_connect(
    directory: Path, java_options: Sequence[str], properties: Mapping[str, str], *, with_iceberg: bool
) -> Iterator[int]:
    """The port of a server that listens on loopback and lives until the block ends; its log is in there."""
    log = directory / "plain-connect.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(java_options, {**_LISTENING, **properties}, with_iceberg=with_iceberg),
            env=_environment(),
            cwd=directory,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield _port(process, log)
    finally:
        process.terminate()
        process.wait(30)


def _command(java_options: Sequence[str], properties: Mapping[str, str], *, with_iceberg: bool) -> list[str]:
    java = find_java()
    found = jars.ensure_jars(java)
    classes = f"{found.pyspark}/*{os.pathsep}{found.iceberg}" if with_iceberg else f"{found.pyspark}/*"
    settings = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    return [
        str(java.executable), *java_options,
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
        "-cp", classes, "org.apache.spark.deploy.SparkSubmit",
        "--class", _SERVER, *settings, "spark-internal",
    ]  # fmt: skip


def _environment() -> dict[str, str]:
    """Settings of the shell's are not the package's."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "BAILIWICK"))}


def _port(process: "subprocess.Popen[bytes]", log: Path) -> int:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        started = _STARTED.search(log.read_text(errors="replace"))
        if started is not None:
            return int(started[1])
        time.sleep(POLL_S)
    raise RuntimeError(f"plain Spark did not start:\n{log.read_text(errors='replace')[-3000:]}")
