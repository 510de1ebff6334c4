"""Python of people's own: on engines of the class for it, for the roles that are named, and nowhere else."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from guide_pages import blocks

from bailiwick.testing.asking import rows, wait_until
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.keepers import KeptEngine, new_token_file
from bailiwick.testing.processes import is_running

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

RUN_S = 200.0
PREAMBLE = """
import json, os, sys, time
import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.functions import col, pandas_udf, udf, udtf

ENDLESS_S = 600
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()

def raised(act):
    try:
        act()
    except PySparkException as error:
        return [type(error).__name__, error.getCondition(), str(error)]
    return "nothing was raised"

def tell(answer):
    print(json.dumps(answer, default=str), flush=True)
"""


class House:
    """A gateway whose own engine serves everybody, and one engine besides for code of scientists."""

    def __init__(self, gateway: RunningGateway, lab: KeptEngine) -> None:
        self.gateway, self.lab = gateway, lab

    def token(self, person: str) -> str:
        return str(rows(self.gateway, f"CREATE TOKEN FOR {person} TTL '1h'")[0][1])

    @property
    def address(self) -> str:
        return f"sc://localhost:{self.gateway.grpc_address.rsplit(':', 1)[1]}"

    def start(self, person: str, script: str) -> "subprocess.Popen[str]":
        code = PREAMBLE + textwrap.dedent(script) + "\nspark.stop()\n"
        return subprocess.Popen(
            [sys.executable, "-c", code, f"{self.address}/;token={self.token(person)}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, person: str, script: str) -> list[Any]:
        """What a stock client of that person tells."""
        client = self.start(person, script)
        printed, errors = client.communicate(timeout=RUN_S)
        assert client.returncode == 0, errors[-4000:]
        return [json.loads(line) for line in printed.splitlines()]

    def workers(self) -> list[int]:
        """Processes that run code now."""
        engine = psutil.Process(self.lab.engine_pid)
        # A child of Java's only starts the others.
        starting = {child.pid for child in engine.children()}
        below = {child.pid for child in engine.children(recursive=True)}
        return [pid for pid in below - starting if is_running(pid)]

    def lose_lab(self) -> None:
        """Its engine ends; the keeper starts another."""
        lost = self.lab.engine_pid
        os.kill(lost, signal.SIGKILL)
        health = "SELECT health FROM system.runtime.nodes WHERE node_id = 'lab'"
        wait_until(
            "the next engine is used",
            lambda: self.lab.engine_pid != lost and rows(self.gateway, health) == [("healthy",)],
            120,
        )


@pytest.fixture(scope="module")
def unequipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The engine for code has not been started yet."""
    directory = tmp_path_factory.mktemp("user-code")
    token_file = new_token_file(directory / "trusted-token")
    settings = {
        "BAILIWICK__FLEET__TRUSTED_TOKEN_FILE": str(token_file),
        "BAILIWICK__SPARK_CONNECT__USER_CODE_ROLES": "scientist",
        "BAILIWICK__POOL__REACHABLE_WAIT_S": "1",
    }
    with running_gateway(directory / "data", settings=settings) as gateway:
        _furnish(gateway)
        lab = KeptEngine(
            "lab",
            directory / "lab",
            f"http://{gateway.http_address}",
            token_file,
            arguments=("--class", "trusted", "--memory", "1g", "--cores", "2"),
        )
        try:
            yield House(gateway, lab)
        finally:
            lab.end()


@pytest.fixture(scope="module")
def house(unequipped: House) -> House:
    unequipped.lab.start()
    unequipped.lab.wait_joined()
    return unequipped


def _furnish(gateway: RunningGateway) -> None:
    for statement in (
        "CREATE NAMESPACE lab",
        "CREATE TABLE lab.people AS SELECT id, id % 2 = 0 AS is_ours, concat('person ', id) AS name "
        "FROM range(20)",
        "CREATE ROLE scientist",
        "CREATE USER sue PASSWORD 'a stock client' ROLES (reader)",
        "CREATE USER tom PASSWORD 'a stock client' ROLES (reader)",
        "GRANT ROLE scientist TO USER sue",
        "GRANT ROLE scientist TO USER tom",
        "CREATE USER ron PASSWORD 'a stock client' ROLES (reader)",
        "GRANT SELECT ON TABLE lake.lab.people TO ROLE reader",
        "CREATE ROW FILTER ours ON TABLE lake.lab.people FOR ROLE reader USING (is_ours)",
        "CREATE MASK name ON TABLE lake.lab.people COLUMN name FOR ROLE reader USING (sha2(name, 256))",
    ):
        rows(gateway, statement)


def test_without_an_engine_for_it_code_is_a_configuration_error_that_says_so(unequipped: House) -> None:
    ((_, condition, text),) = unequipped.ask(
        "sue", 'tell(raised(lambda: spark.range(3).select(udf(lambda n: n, "long")("id")).collect()))'
    )
    assert condition == "BAILIWICK_CIRCUIT_BREAKER_OPEN"
    assert "no engine of the class `trusted` can be reached" in text


def test_every_kind_of_python_runs_for_whoever_may(house: House) -> None:
    answers = house.ask(
        "sue",
        """
        few = spark.range(6).withColumn("k", col("id") % 2)
        plus_one = udf(lambda n: n + 1, "long")
        tell([row[0] for row in few.select(plus_one("id")).collect()])
        tell(few.select(plus_one("id").alias("n")).schema.simpleString())

        @pandas_udf("long")
        def total(ids: pd.Series) -> int:
            return ids.sum()
        tell([list(row) for row in few.groupBy("k").agg(total("id")).orderBy("k").collect()])

        def halves(frames):
            for frame in frames:
                yield frame[frame.id < 3][["id"]]
        tell([row.id for row in few.mapInPandas(halves, "id long").orderBy("id").collect()])

        def passed(batches):
            yield from batches
        tell(few.mapInArrow(passed, few.schema).count())

        def first(frame):
            return frame.sort_values("id").head(1)
        tell([row.id for row in few.groupBy("k").applyInPandas(first, few.schema).orderBy("id").collect()])

        def both(left, right):
            return pd.DataFrame({"n": [len(left) + len(right)]})
        one, two = few.groupBy("k"), few.groupBy("k")
        tell([row.n for row in one.cogroup(two).applyInPandas(both, "n long").collect()])

        @udtf(returnType="n int, square int")
        class Squares:
            def eval(self, end: int):
                for n in range(end):
                    yield n, n * n
        tell([list(row) for row in Squares(F.lit(3)).collect()])

        spark.udf.register("plus_two", lambda n: n + 2, "long")
        spark.udtf.register("squares", Squares)
        tell([row[0] for row in spark.sql("SELECT plus_two(id) FROM range(3)").collect()])
        tell(spark.sql("SELECT sum(square) FROM squares(4)").first()[0])
        tell(few.selectExpr("max(plus_two(id))").first()[0])
        """,
    )
    assert answers == [
        [1, 2, 3, 4, 5, 6],
        "struct<n:bigint>",
        [[0, 6], [1, 9]],
        [0, 1, 2],
        6,
        [0, 1],
        [6, 6],
        [[0, 0], [1, 1], [2, 4]],
        [2, 3, 4],
        14,
        7,
    ]


def test_the_guide_prints_what_it_shows(house: House) -> None:
    (_, code), (_, shown) = blocks("pyspark", "python"), blocks("pyspark", "text")
    done = subprocess.run(
        [sys.executable, "-c", code.replace("sc://localhost:50051", house.address)],
        env={**os.environ, "BAILIWICK_TOKEN": house.token("sue")},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, shown), done.stderr[-4000:]


def test_code_is_given_what_a_policy_leaves_and_changes_no_rule(house: House) -> None:
    answers = house.ask(
        "sue",
        """
        seen = udf(lambda name: "raw" if name.startswith("person") else "masked", "string")
        people = spark.table("lab.people")
        tell([list(row) for row in people.groupBy(seen("name")).count().collect()])
        # A rule means what it meant: its functions are Spark's own.
        spark.udf.register("sha2", lambda text, bits: text, "string")
        tell(spark.sql("SELECT sha2('x', 256)").first()[0])
        tell([list(row) for row in spark.table("lab.people").groupBy(seen("name")).count().collect()])
        tell(sorted(row.id for row in people.filter(udf(lambda n: True, "boolean")("id")).collect()))
        """,
    )
    ours = list(range(0, 20, 2))
    assert answers == [[["masked", 10]], "x", [["masked", 10]], ours]


def test_nobody_else_runs_code_and_the_engine_for_it_does_nothing_else(house: House) -> None:
    for person in ("ron", "admin"):
        (plan, function) = house.ask(
            person,
            """
            tell(raised(lambda: spark.range(3).select(udf(lambda n: n, "long")("id")).collect()))
            tell(raised(lambda: spark.udf.register("f", lambda n: n, "long")))
            """,
        )
        for kind, condition, text in (plan, function):
            assert (kind, condition) == ("UnsupportedOperationException", "BAILIWICK_NOT_SUPPORTED")
            assert "only roles named in spark_connect.user_code_roles" in text
    house.ask("sue", "spark.sql('SELECT 1').collect()\nspark.range(2).createTempView('v')")
    node_sql = "SELECT DISTINCT node_id, principal FROM system.runtime.queries WHERE node_id IS NOT NULL"
    ran = set(rows(house.gateway, node_sql))
    assert {principal for node, principal in ran if node == "lab"} == {"sue"}
    assert ("embedded", "sue") in ran
    told = "SELECT class, health FROM system.runtime.nodes WHERE node_id = 'lab'"
    assert rows(house.gateway, told) == [("trusted", "healthy")]


def test_what_code_raises_is_told_with_its_frames_and_nothing_of_the_machine(house: House) -> None:
    raised, ended, after = house.ask(
        "sue",
        """
        def broken(n):
            raise ValueError(f"the number was {n}")
        tell(raised(lambda: spark.range(1).select(udf(broken, "long")("id")).collect()))
        tell(raised(lambda: spark.range(1).select(udf(lambda n: os._exit(3), "long")("id")).collect()))
        tell(spark.range(1).select(udf(lambda n: n, "long")("id")).first()[0])
        """,
    )
    # PySpark itself leaves the condition out of this kind.
    assert raised[:2] == ["PythonException", None]
    assert "in broken\nValueError: the number was 0" in raised[2]
    assert ended[:2] == ["SparkException", "BAILIWICK_EXECUTION_FAILED"]
    assert "ended by itself" in ended[2]
    for _, _, text in (raised, ended):
        assert "/" not in text.replace("<string>", "")
        assert "\tat " not in text
    assert after == 0


def test_code_that_is_interrupted_stops(house: House) -> None:
    wait_until("no code runs", lambda: not house.workers(), 10)
    client = house.start(
        "sue",
        """
        import threading
        def sleepy(n):
            time.sleep(ENDLESS_S)
            return n
        answers = []
        def work():
            spark.addTag("sleepy")
            answers.append(raised(lambda: spark.range(1).select(udf(sleepy, "long")("id")).collect()))
        thread = threading.Thread(target=work)
        thread.start()
        sys.stdin.readline()
        spark.interruptTag("sleepy")
        thread.join()
        tell(answers[0][1])
        """,
    )
    wait_until("its code runs", house.workers)
    told, errors = client.communicate("go\n", timeout=RUN_S)
    assert told == '"OPERATION_CANCELED"\n', errors[-4000:]
    wait_until("no code runs any more", lambda: not house.workers(), 10)


def test_a_session_moves_to_its_code_and_outlives_the_engine_with_it(house: House) -> None:
    client = house.start(
        "sue",
        """
        spark.sql("USE lake.lab")
        spark.conf.set("spark.sql.shuffle.partitions", "5")
        spark.range(4).createTempView("before")
        spark.udf.register("twice", lambda n: n * 2, "long")
        spark.sql("SELECT twice(id) AS n FROM before").createTempView("doubled")
        print(spark.table("doubled").agg(F.sum("n")).first()[0], flush=True)
        sys.stdin.readline()
        print(spark.table("doubled").agg(F.sum("n")).first()[0], flush=True)
        print(spark.conf.get("spark.sql.shuffle.partitions"), spark.catalog.currentDatabase(), flush=True)
        """,
    )
    assert client.stdin is not None
    assert client.stdout is not None
    assert client.stdout.readline() == "12\n"
    house.lose_lab()
    printed, errors = client.communicate("go\n", timeout=RUN_S)
    assert client.returncode == 0, errors[-4000:]
    assert printed == "12\n5 lab\n"


def test_who_loses_the_role_loses_the_session(house: House) -> None:
    client = house.start(
        "tom",
        """
        spark.udf.register("f", lambda n: n, "long")
        print(spark.sql("SELECT f(3)").first()[0], flush=True)
        sys.stdin.readline()
        print(raised(lambda: spark.sql("SELECT f(3)").collect())[1], flush=True)
        """,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "3\n"
    rows(house.gateway, "REVOKE ROLE scientist FROM USER tom")
    printed, errors = client.communicate("go\n", timeout=RUN_S)
    assert printed == "BAILIWICK_ACCESS_DENIED\n", errors[-4000:]
