"""Runs the examples in PySpark's own documentation, call by call, and prints one line of JSON for each call.

What an example prints is kept as a digest and compared with what plain Spark makes it print. Those that end
or replace the session are left out. Runs inside the client's environment.
"""

import argparse
import builtins
import contextlib
import doctest
import hashlib
import io
import json
import re
import sys
from typing import Any

from spark_connect import lake_data
from spark_connect.connecting import connect
from spark_connect.run_cases import SCHEMA
from spark_connect.surface import Call, calls

LEFT_OUT = re.compile(
    r"SparkSession\.(builder|stop|active|getActiveSession|newSession|profile|client|sparkContext)\b"
    r"|DataFrame\.(plot|pandas_api|rdd|toJSON)$|SQLContext|HiveContext"
    r"|Catalog\.|DataFrameWriter\.(sortBy|clusterBy)$|GroupedData\.transformWith"
    r"|(DataStream|Streaming|Stateful|avro|protobuf|DataSource)"
)
"""Cases show these: their examples end the session or change what is current in it, need files or another
package, or run on for ever."""
_CHANGING = re.compile(r"0x[0-9a-f]+|#\d+L?|plan_id=\d+")
_TEXT_CHARS_MAX = 400
_ZONE = "spark.sql.session.timeZone"
"""What examples set that would change those of other calls."""
_SHOWN_ENOUGH = 2
"""After so many examples that call it and print something, the others of a call are left out."""


def examples(call: Call) -> list[str]:
    """The source of each example that is not marked as one to skip."""
    if LEFT_OUT.match(call.name):
        return []
    try:
        found = doctest.DocTestParser().get_examples(call.documentation)
    except ValueError:
        return []
    return [each.source for each in found if not each.options.get(doctest.SKIP)]


def tried(source: str, names: dict[str, Any]) -> dict[str, Any]:
    """What one example prints, as a digest and as a text that is cut short, or how it fails."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(source, "<example>", "single"), names)  # noqa: S102 - PySpark's own documentation
    except BaseException as error:
        condition = error.getCondition() if hasattr(error, "getCondition") else None
        return {
            "class": type(error).__name__,
            "condition": condition,
            "message": str(error)[:_TEXT_CHARS_MAX],
        }
    text = _CHANGING.sub("?", said.getvalue())
    return {"printed": digest(text), "text": text[:_TEXT_CHARS_MAX]}


def digest(text: str) -> str:
    """Of the lines in any order: where an example sorts nothing, the order of rows is nobody's promise."""
    lines = "\n".join(sorted(text.splitlines()))
    return hashlib.sha256(lines.encode()).hexdigest()[:8] if text else ""


def names(call: Call, source: str) -> bool:
    """Whether the example makes the call."""
    return re.search(rf"\b{call.name.rpartition('.')[2]}\b", source) is not None


def run(call: Call, spark: Any) -> list[dict[str, Any]]:
    """What its first examples do, as many of them as are enough."""
    known = {**call.names, "spark": spark, "__builtins__": builtins}
    told: list[dict[str, Any]] = []
    shown = 0
    for source in examples(call):
        if shown == _SHOWN_ENOUGH:
            break
        told.append(tried(source, known))
        shown += bool(told[-1].get("printed")) and names(call, source)
    if _ZONE in call.documentation:
        spark.conf.unset(_ZONE)
    return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--only", default="", help="a regular expression on the names of calls")
    asked = parser.parse_args()
    spark = connect(asked.address)
    lake_data.make(spark, SCHEMA)
    for call in calls():
        if re.search(asked.only, call.name) and examples(call):
            sys.stdout.write(json.dumps({"call": call.name, "examples": run(call, spark)}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
