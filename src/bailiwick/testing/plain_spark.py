"""Spark as it comes: no gateway, no catalog of ours, no guard, in a process of its own.

For asking the same statements of it and of a gateway. Tables are Parquet files, seen as temporary views. It
runs with the settings that decide what SQL means (ANSI, UTC) as an engine of ours has them, and no others.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bailiwick.engines.java import find_java

ANSWER_S = 540.0
_PROGRAM = r"""
import base64, io, json, sys
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

asked = json.load(sys.stdin)
spark = (
    SparkSession.builder.master("local[2]").appName("plain").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.ansi.enabled", "true").config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "4").config("spark.sql.warehouse.dir", asked["directory"])
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
for name, path in asked["tables"].items():
    spark.read.parquet(path).createOrReplaceTempView(name)
if asked["examples"]:
    for (name,) in spark.sql("SHOW FUNCTIONS").collect():
        if name.isidentifier():
            told = spark.sql(f"DESCRIBE FUNCTION EXTENDED {name}").collect()
            print(json.dumps({"function": name, "text": "\n".join(row[0] for row in told)}))
for statement in asked["statements"]:
    try:
        table = spark.sql(statement).toArrow()
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        print(json.dumps({"table": base64.b64encode(sink.getvalue()).decode()}))
    except PySparkException as error:
        print(json.dumps({"error": error.getCondition() or type(error).__name__}))
    except Exception as error:
        print(json.dumps({"error": type(error).__name__}))
"""


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """A table, or the class of an error."""

    table: pa.Table | None
    error: str | None


def plain_answers(
    statements: Sequence[str], directory: Path, tables: Mapping[str, Path] | None = None
) -> list[PlainAnswer]:
    """What Spark says to each statement, in order."""
    lines = _run(statements, directory, tables or {}, examples=False)
    return [_answer(line) for line in lines]


def function_examples(directory: Path) -> dict[str, list[str]]:
    """The statements by which Spark's own documentation shows its functions, by function."""
    lines = _run((), directory, {}, examples=True)
    return {line["function"]: _examples(line["text"]) for line in lines if "function" in line}


def _run(
    statements: Sequence[str], directory: Path, tables: Mapping[str, Path], *, examples: bool
) -> list[dict[str, Any]]:
    asked = {
        "statements": list(statements),
        "tables": {name: str(path) for name, path in tables.items()},
        "directory": str(directory / "plain-warehouse"),
        "examples": examples,
    }
    java = find_java()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "BAILIWICK"))},
        "JAVA_HOME": str(java.executable.parent.parent),
        "PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(asked),
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"plain Spark ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


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
