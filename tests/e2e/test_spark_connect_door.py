"""Stock PySpark, in a process of its own, against a real gateway: SQL, frames, views, writes, errors."""

import os
import subprocess
import sys
import uuid

import grpc
import pyarrow as pa
import pytest
from guide_pages import blocks
from pyspark.sql.connect import proto
from stock_pyspark import RUN_S, address, ask, start, told

from bailiwick.results.batches import FrameKind, frames
from bailiwick.testing.asking import ENDLESS, rows, value, wait_until
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def lake(gateway: RunningGateway) -> RunningGateway:
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS connect")
    rows(
        gateway,
        "CREATE TABLE IF NOT EXISTS connect.orders AS "
        "SELECT id, id % 3 AS region, concat('person ', id) AS person FROM range(30)",
    )
    return gateway


def test_sql_and_frames_give_the_same_rows(lake: RunningGateway) -> None:
    answers = ask(
        lake,
        """
        tell(spark.sql("SELECT 1 AS one").collect())
        late = "SELECT id FROM connect.orders WHERE id > 27 ORDER BY id"
        tell([row.id for row in spark.sql(late).collect()])
        orders = spark.table("connect.orders")
        tell([row.id for row in orders.filter(col("id") > 27).orderBy("id").collect()])
        tell(orders.groupBy("region").count().orderBy("region").toPandas()["count"].tolist())
        tell([orders.toArrow().num_rows, orders.schema.simpleString()])
        few = "SELECT count(*) AS n FROM connect.orders WHERE id < :most"
        tell(spark.sql(few, args={"most": 5}).collect())
        tell(spark.sql("SELECT count(*) AS n FROM {orders} WHERE id < 7", orders=orders).collect())
        """,
    )
    schema = "struct<id:bigint,region:bigint,person:string>"
    assert answers == [[[1]], [28, 29], [28, 29], [10, 10, 10], [30, schema], [[5]], [[7]]]


def test_the_person_is_who_the_token_says(lake: RunningGateway) -> None:
    ((me,),) = ask(lake, "tell([spark.sql('SELECT current_user()').first()[0]])")
    assert me == "admin"
    recorded = "SELECT count(*) FROM system.runtime.queries WHERE door = 'spark_connect'"
    assert value(lake, f"{recorded} AND principal = 'admin'") > 0


def test_rows_come_from_the_client_and_go_into_tables(lake: RunningGateway) -> None:
    (counts,) = ask(
        lake,
        """
        frame = spark.createDataFrame([(1, "a"), (2, "b")], ["n", "s"])
        frame.write.mode("overwrite").saveAsTable("connect.brought")
        frame.writeTo("connect.brought").append()
        frame.write.insertInto("connect.brought")
        spark.sql("INSERT INTO connect.brought VALUES (3, 'c')")
        spark.sql("DELETE FROM connect.brought WHERE n = 1")
        tell([spark.table("connect.brought").count(), spark.catalog.tableExists("connect.brought")])
        """,
    )
    assert counts == [4, True]
    assert value(lake, "SELECT count(*) FROM connect.brought") == 4


def test_views_settings_and_places_stay_in_their_session(lake: RunningGateway) -> None:
    answers = ask(
        lake,
        """
        spark.table("connect.orders").filter("region = 1").createOrReplaceTempView("ones")
        spark.sql("CREATE TEMP VIEW twos AS SELECT * FROM connect.orders WHERE region = 2")
        tell([spark.table("ones").count(), spark.sql("SELECT count(*) FROM twos").first()[0]])
        spark.catalog.setCurrentDatabase("connect")
        tell([spark.table("orders").count(), spark.catalog.currentDatabase()])
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        zone = spark.conf.get("spark.sql.session.timeZone")
        tell([spark.sql("SELECT current_timezone()").first()[0], zone])
        spark.catalog.dropTempView("ones")
        tell(raised(lambda: spark.table("ones").count())[:2])
        other = SparkSession.builder.remote(sys.argv[1]).create()
        tell(raised(lambda: other.table("twos").count())[:2])
        other.stop()
        """,
    )
    missing = ["AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"]
    assert answers == [[10, 10], [30, "connect"], ["Europe/Berlin", "Europe/Berlin"], missing, missing]


def test_errors_are_the_ones_that_spark_raises(lake: RunningGateway) -> None:
    answers = ask(
        lake,
        """
        tell(raised(lambda: spark.table("connect.nothing").collect()))
        tell(raised(lambda: spark.table("connect.orders").select("nothing").collect())[:2])
        tell(raised(lambda: spark.sql("SELEC 1")))
        tell(raised(lambda: spark.sql("SELECT 1 / 0").collect())[:2])
        """,
    )
    assert answers == [
        ["AnalysisException", "TABLE_OR_VIEW_NOT_FOUND", "42P01"],
        ["AnalysisException", "UNRESOLVED_COLUMN.WITH_SUGGESTION"],
        ["ParseException", "PARSE_SYNTAX_ERROR", "42601"],
        ["ArithmeticException", "DIVIDE_BY_ZERO"],
    ]


def test_what_is_not_allowed_is_refused_with_a_reason(lake: RunningGateway) -> None:
    answers = ask(
        lake,
        """
        orders = spark.table("connect.orders")
        tell(raised(lambda: orders.select(F.udf(lambda value: value)("id")).collect()))
        tell(raised(lambda: spark.read.parquet("/etc/passwd").collect()))
        tell(raised(lambda: spark.conf.set("spark.sql.extensions", "evil.Extension")))
        tell(raised(lambda: spark.conf.get("spark.sql.catalog.lake")))
        tell([key for key in spark.conf.getAll if "bailiwick" in key or ".catalog." in key or "token" in key])
        """,
    )
    refused = ["UnsupportedOperationException", "BAILIWICK_NOT_SUPPORTED", "0A000"]
    assert answers[0] == answers[1] == refused
    assert answers[2][1] == "CANNOT_MODIFY_CONFIG"
    assert answers[3][1] == "SQL_CONF_NOT_FOUND"
    assert answers[4] == []


def test_rules_hold_for_frames_and_views(lake: RunningGateway) -> None:
    for sql in (
        "CREATE USER connie WITH PASSWORD 'a long password' ROLES (reader)",
        "GRANT SELECT ON TABLE lake.connect.orders TO USER connie",
        "CREATE ROW FILTER one_region ON TABLE lake.connect.orders FOR USER connie USING (region = 1)",
    ):
        rows(lake, sql)
    answers = ask(
        lake,
        """
        tell([spark.sql("SELECT current_user()").first()[0]])
        orders = spark.table("connect.orders")
        tell([orders.count(), orders.select("region").distinct().collect()[0][0]])
        orders.createOrReplaceTempView("mine")
        tell([spark.table("mine").count(), spark.sql("SELECT count(*) FROM mine").first()[0]])
        sampled = orders.sampleBy("region", {0: 1.0, 1: 1.0}, 1)
        tell([orders.freqItems(["region"]).first()[0], sampled.count()])
        turned = orders.select("person", "region").transpose()
        tell([len(turned.columns), sorted({*turned.first()[1:]}), turned.count()])
        tell(raised(lambda: turned.createTempView("turned"))[1])
        tell(raised(lambda: spark.table("connect.brought").collect())[:2])
        tell(raised(lambda: orders.writeTo("connect.orders").append())[0])
        """,
        user="connie",
    )
    assert answers[:3] == [["connie"], [10, 1], [10, 10]]
    assert answers[3:6] == [[[1], 10], [11, [1], 1], "BAILIWICK_ACCESS_DENIED"]
    assert answers[6] == ["AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"]


def test_the_gateways_own_tables_can_be_read_and_joined(lake: RunningGateway) -> None:
    (count, joined, users) = ask(
        lake,
        """
        queries = spark.table("system.runtime.queries")
        tell([queries.filter("door = 'spark_connect'").count() > 0])
        tell([queries.limit(1).crossJoin(spark.table("connect.orders")).count()])
        tell([row.name for row in spark.sql("SHOW USERS").collect()])
        """,
    )
    assert (count, joined) == ([True], [30])
    assert "admin" in users


def test_an_interrupt_ends_what_runs_and_the_session_goes_on(lake: RunningGateway) -> None:
    client = start(
        lake,
        f"""
        import threading
        spark.addTag("slow")
        def interrupt():
            while not spark.interruptTag("slow"):
                threading.Event().wait(0.2)
        thread = threading.Thread(target=interrupt)
        thread.start()
        tell(raised(lambda: spark.sql({ENDLESS!r}).collect())[1:])
        thread.join()
        spark.clearTags()
        tell(spark.sql("SELECT 1").collect())
        """,
    )
    assert told(client) == [["OPERATION_CANCELED", "HY008"], [[1]]]


def test_a_query_that_somebody_cancels_ends_as_spark_says_it(lake: RunningGateway) -> None:
    client = start(lake, f"tell(raised(lambda: spark.sql({ENDLESS!r}).collect())[1:])")

    def running() -> list[str]:
        sql = "SELECT query_id FROM system.runtime.queries WHERE state = 'running' AND door = 'spark_connect'"
        return [str(query_id) for (query_id,) in rows(lake, sql)]

    (query_id, *_) = wait_until("running", running, 60.0)
    rows(lake, f"CANCEL QUERY '{query_id}'")
    assert told(client) == [["OPERATION_CANCELED", "HY008"]]


def test_the_guide_prints_what_it_shows(lake: RunningGateway) -> None:
    # The other example is for those whose code may run: tests/protocol/spark_connect/test_user_code.py.
    (code, _), (shown, _) = blocks("pyspark", "python"), blocks("pyspark", "text")
    place, _, token = address(lake).partition("/;token=")
    done = subprocess.run(
        [sys.executable, "-c", code.replace("sc://localhost:50051", place)],
        env={**os.environ, "BAILIWICK_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, shown), done.stderr[-4000:]


def test_an_operation_is_taken_up_again_over_another_stream(lake: RunningGateway) -> None:
    (counts,) = ask(
        lake,
        """
        from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Stream
        seen, kept = [], Stream._call_iter
        def broken(self, take):
            response = kept(self, take)
            if response is not None and response.HasField("arrow_batch") and len(seen) < 3:
                seen.append(response.response_id)
                self._iterator.cancel()
                self._iterator = None
            return response
        Stream._call_iter = broken
        numbers = spark.range(0, 500000, 1, 8).toPandas()["id"]
        tell([len(numbers), int(numbers.sum()), len(seen)])
        """,
    )
    assert counts == [500000, 124999750000, 3]


def test_rows_travel_compressed_to_clients_that_read_that(lake: RunningGateway) -> None:
    place, _, token = address(lake).removeprefix("sc://").partition("/;token=")
    plan = proto.Plan()
    plan.root.sql.query = "SELECT id, 'the same text' AS label FROM range(0, 20000, 1, 1)"
    answers: dict[str, list[bytes]] = {}
    with grpc.insecure_channel(place) as channel:
        for client_type in ("_SPARK_CONNECT_PYTHON spark/4.1.4 os/linux python/3.11.7", "some/1.0", ""):
            request = proto.ExecutePlanRequest(
                session_id=str(uuid.uuid4()), client_type=client_type, plan=plan
            )
            stream = proto.SparkConnectServiceStub(channel).ExecutePlan(
                request, metadata=(("authorization", f"Bearer {token}"),), timeout=RUN_S
            )
            answers[client_type] = [each.arrow_batch.data for each in stream if each.HasField("arrow_batch")]
    python, *others = answers.values()
    assert [_are_compressed(each) for each in (python, *others)] == [{True}, {False}, {False}]
    tables = [
        pa.concat_tables(pa.ipc.open_stream(part).read_all() for part in each) for each in answers.values()
    ]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    assert sum(map(len, python)) * 5 < sum(map(len, others[0]))


def _are_compressed(batches: list[bytes]) -> set[bool]:
    found = (frame for batch in batches for frame in frames(batch))
    return {frame.is_compressed for frame in found if frame.kind is FrameKind.BATCH}
