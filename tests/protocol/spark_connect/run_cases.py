"""Runs cases in a stock client and prints one line of JSON for each.

Told by its arguments: where to connect, and what names must contain; by `TOKEN`, who it is. Runs inside the
client's environment, with nothing but PySpark and what stands beside this file.
"""

import argparse
import importlib
import json
import re
import sys
import time
import traceback
from typing import Any

from spark_connect import lake_data
from spark_connect.case import CASES, Case
from spark_connect.connecting import connect
from spark_connect.encoding import encoded, failure

MODULES = (
    "sql", "frames", "columns", "grouping", "reshaping", "nested", "functions", "catalog", "writing", "types",
    "errors", "sessions", "views", "client", "refused", "streams", "ours", "brought",
)  # fmt: skip
SCHEMA = "lake.clients"


def load() -> dict[str, Case]:
    for name in MODULES:
        importlib.import_module(f"spark_connect.cases_{name}")
    return CASES


def outcome(spark: Any, case: Case) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        told: dict[str, Any] = {"value": encoded(case.body(spark))}
    except Exception as error:
        told = {"error": failure(error)}
        if not hasattr(error, "getCondition"):
            told["trace"] = traceback.format_exc()[-2000:]
    return {"case": case.name, **told, "seconds": round(time.perf_counter() - started, 3)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--only", default="", help="a regular expression on the names of cases")
    parser.add_argument(
        "--as-plain", action="store_true", help="leave out what plain Spark has not or lets pass"
    )
    asked = parser.parse_args()
    spark = connect(asked.address)
    version = tuple(int(part) for part in importlib.import_module("pyspark").__version__.split(".")[:2])
    lake_data.make(spark, SCHEMA)
    for case in load().values():
        if not re.search(asked.only, case.name) or case.since > version:
            continue
        if asked.as_plain and (case.is_ours or case.refused):
            continue
        sys.stdout.write(json.dumps(outcome(spark, case)) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
