"""Spark as it comes: no gateway, no catalog of ours, no guard, in a process of its own.

For asking the same statements of it and of a gateway. Tables are Parquet files, seen as temporary views. It
runs with the settings that decide what SQL means (ANSI, UTC) as an engine of ours has them, and no others.
"""

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bailiwick.engines.java import find_java
from bailiwick.engines.launch import QUICK_COMPILE

ANSWER_S = 540.0
_JAVA_OPTIONS = (
    QUICK_COMPILE,
    # So much is generated for some hundred statements.
    "-XX:ReservedCodeCacheSize=240m",
    # What Java has to say must not come between the answers.
    "-Xlog:disable",
    "-Xlog:all=warning:stderr",
)
_PROGRAM = r"""
import base64, io, json, sys
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]").appName("plain").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.ansi.enabled", "true").config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "4").config("spark.sql.warehouse.dir", sys.argv[1])
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")

def examples():
    for (name,) in spark.sql("SHOW FUNCTIONS").collect():
        if name.isidentifier():
            told = spark.sql(f"DESCRIBE FUNCTION EXTENDED {name}").collect()
            yield {"function": name, "text": "\n".join(row[0] for row in told)}

def answer(session, statement):
    try:
        table = session.sql(statement).toArrow()
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return {"table": base64.b64encode(sink.getvalue()).decode()}
    except PySparkException as error:
        return {"error": error.getCondition() or type(error).__name__}
    except Exception as error:
        return {"error": type(error).__name__}

for line in sys.stdin:
    asked = json.loads(line)
    session = spark.newSession()
    for name, path in asked["tables"].items():
        session.read.parquet(path).createOrReplaceTempView(name)
    told = [*examples()] if asked["examples"] else [answer(session, each) for each in asked["statements"]]
    print(json.dumps(told), flush=True)
"""


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """A table, or the class of an error."""

    table: pa.Table | None
    error: str | None


@dataclass(frozen=True, slots=True)
class PlainSpark:
    """One that runs. What is asked at once is asked in a session of its own."""

    process: "subprocess.Popen[str]"
    errors: Path

    def answers(
        self, statements: Sequence[str], tables: Mapping[str, Path] | None = None
    ) -> list[PlainAnswer]:
        """What Spark says to each statement, in order."""
        return [_answer(told) for told in self._ask(statements, tables or {}, examples=False)]

    def function_examples(self) -> dict[str, list[str]]:
        """The statements by which Spark's own documentation shows its functions, by function."""
        told = self._ask((), {}, examples=True)
        return {each["function"]: _examples(each["text"]) for each in told}

    def _ask(
        self, statements: Sequence[str], tables: Mapping[str, Path], *, examples: bool
    ) -> list[dict[str, Any]]:
        asked = {
            "statements": list(statements),
            "tables": {name: str(path) for name, path in tables.items()},
            "examples": examples,
        }
        assert self.process.stdin is not None  # noqa: S101 - both are pipes
        assert self.process.stdout is not None  # noqa: S101
        # Whoever is killed answers with the end of the file.
        overdue = threading.Timer(ANSWER_S, self.process.kill)
        overdue.start()
        try:
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                if line.startswith("["):
                    told: list[dict[str, Any]] = json.loads(line)
                    return told
        finally:
            overdue.cancel()
        raise RuntimeError(f"plain Spark did not answer: {self.errors.read_text(errors='replace')[-2000:]}")


@contextmanager
def plain_spark(directory: Path) -> Iterator[PlainSpark]:
    java = find_java()
    java_options = " ".join(_JAVA_OPTIONS)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "BAILIWICK"))},
        "JAVA_HOME": str(java.executable.parent.parent),
        "PYSPARK_SUBMIT_ARGS": f"--driver-memory 1g --driver-java-options '{java_options}' pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    errors = directory / "plain-spark.errors"
    with (
        errors.open("w") as sink,
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(directory / "plain-warehouse")],
            env=environment,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
        ) as process,
    ):
        try:
            yield PlainSpark(process, errors)
        finally:
            # Its Java ends with it: it reads the other end of a pipe that is gone then.
            process.kill()


def _answer(line: Mapping[str, str]) -> PlainAnswer:
    if "error" in line:
        return PlainAnswer(None, line["error"])
    with pa.ipc.open_stream(base64.b64decode(line["table"])) as reader:
        return PlainAnswer(reader.read_all(), None)


def _examples(text: str) -> list[str]:
    """Each begins with `>` and ends with `;`, in one line or more."""
    found: list[str] = []
    for part in text.split("\n"):
        line = part.strip()
        if line.startswith("> SELECT"):
            found.append(line[2:])
        elif found and not found[-1].endswith(";"):
            found[-1] = f"{found[-1]} {line}"
    return [statement.removesuffix(";") for statement in found if statement.endswith(";")]
