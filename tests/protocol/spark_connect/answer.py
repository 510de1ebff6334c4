"""Answers what it is asked by lines of JSON, as a stock client: SQL, steps of DataFrames, a prepared attack.

One process serves many people: each line names a token and a schema, and each pair has a session. Runs inside
the client's environment.
"""

import importlib
import json
import sys
from typing import Any

from spark_connect.connecting import connect
from spark_connect.encoding import encoded, failure
from spark_connect.frame_steps import built

SESSIONS: dict[tuple[str, str | None], Any] = {}


def session(address: str, token: str, schema: str | None) -> Any:
    if (token, schema) not in SESSIONS:
        made = connect(address, token)
        if schema:
            made.sql(f"USE lake.{schema}")
        SESSIONS[token, schema] = made
    return SESSIONS[token, schema]


def answered(spark: Any, asked: dict[str, Any]) -> Any:
    if "frames" in asked:
        made = [built(spark, steps) for steps in asked["frames"]][-1]
        return _table(made.toArrow()) if hasattr(made, "toArrow") else {"value": encoded(made)}
    if "attack" in asked:
        module = importlib.import_module("spark_connect.frame_attacks")
        return {"value": encoded(module.ATTACKS[asked["attack"]](spark))}
    for statement in asked["statements"][:-1]:
        spark.sql(statement).collect()
    return _table(spark.sql(asked["statements"][-1], asked.get("parameters")).toArrow())


def _table(table: Any) -> dict[str, Any]:
    columns = [[field.name, str(field.type).replace(" not null", "")] for field in table.schema]
    return {"columns": columns, "rows": [repr(tuple(row.values())) for row in table.to_pylist()]}


def main() -> None:
    address = sys.argv[1]
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            told = answered(session(address, asked["token"], asked.get("schema")), asked)
        except Exception as error:
            told = {"error": failure(error)}
        sys.stdout.write(json.dumps({"id": asked["id"], **told}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
