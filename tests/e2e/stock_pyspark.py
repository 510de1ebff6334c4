"""Stock PySpark in a process of its own: runs a script against a gateway, and hands over what that tells."""

import json
import subprocess
import sys
import textwrap
from typing import Any

from bailiwick.testing.asking import rows
from bailiwick.testing.gateway import RunningGateway

RUN_S = 200.0
PREAMBLE = """
import json, sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.functions import col

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()

def raised(act):
    try:
        act()
    except PySparkException as error:
        return [type(error).__name__, error.getCondition(), error.getSqlState()]
    return "nothing was raised"

def tell(answer):
    print(json.dumps(answer, default=str), flush=True)
"""


def address(gateway: RunningGateway, user: str = "admin") -> str:
    """With a token of that user's."""
    token = next(
        str(cell)
        for cell in rows(gateway, f"CREATE TOKEN FOR {user}")[0]
        if isinstance(cell, str) and cell.startswith("bw_")
    )
    port = gateway.grpc_address.rsplit(":", 1)[1]
    return f"sc://localhost:{port}/;token={token}"


def start(gateway: RunningGateway, script: str, user: str = "admin") -> "subprocess.Popen[str]":
    code = PREAMBLE + textwrap.dedent(script) + "\nspark.stop()\n"
    return subprocess.Popen(
        [sys.executable, "-c", code, address(gateway, user)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(client: "subprocess.Popen[str]") -> list[Any]:
    """What it tells until it ends."""
    try:
        printed, errors = client.communicate(timeout=RUN_S)
    finally:
        client.kill()
    assert client.returncode == 0, errors[-4000:]
    return [json.loads(line) for line in printed.splitlines()]


def ask(gateway: RunningGateway, script: str, user: str = "admin") -> list[Any]:
    """What a client of that user tells."""
    return told(start(gateway, script, user))
