"""Clients of stock PySpark, each with a session and a thread of its own, at work while something breaks.

Runs in a process that has nothing of ours: `ADDRESS` says where to connect, arguments say which clients. Each
line of JSON says how far a client is, or how it ended. A line on stdin lets one go on that waits for it.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

SLOW = "SELECT id, sha2(repeat(cast(id AS STRING), 20000), 512) AS digest FROM range(0, 9600, 1, 24)"
"""Gives the rows of each of its tasks as soon as that is done, and takes some seconds for all."""
LONG = "SELECT id, sha2(repeat(cast(id AS STRING), 20000), 512) AS digest FROM range(0, 800000, 1, 2000)"
"""The same, for minutes."""
WIDE_COUNT = 200_000
WIDE = f"SELECT id, sha2(cast(id AS STRING), 512) AS text FROM range(0, {WIDE_COUNT}, 1, 16)"
"""Is done soon, and more than lies between a gateway and a client that does not read, also compressed."""
RECONNECTS = [("grpc.max_reconnect_backoff_ms", 500)]
"""A gateway that is back is found at once."""
PATIENT = DefaultPolicy(max_retries=200, max_backoff=500)
IMPATIENT = DefaultPolicy(max_retries=3, max_backoff=500)
MAY_GO_ON: dict[str, threading.Event] = {}


def tell(who: str, **facts: Any) -> None:
    sys.stdout.write(json.dumps({"who": who, **facts}, default=str) + "\n")
    sys.stdout.flush()


def wait_for_word(who: str) -> None:
    tell(who, waits=True)
    MAY_GO_ON[who].wait()


def connected() -> Any:
    """A session of its own. Who asks again more often than PySpark does by itself learns sooner."""
    builder = DefaultChannelBuilder(os.environ["ADDRESS"], RECONNECTS)
    spark: Any = ConnectSession.builder.channelBuilder(builder).create()
    spark.client.set_retry_policies([PATIENT])
    return spark


def raised(act: Callable[[], Any]) -> dict[str, Any]:
    """What PySpark makes of the error in which this ends."""
    try:
        return {"given": act()}
    except PySparkException as error:
        return {
            "kinds": [kind.__name__ for kind in type(error).__mro__],
            "condition": error.getCondition(),
            "sqlstate": error.getSqlState(),
            "parameters": error.getMessageParameters(),
            "message": str(error),
        }


def settled(spark: Any) -> None:
    """Give the session settings, a schema, and views of both kinds."""
    spark.catalog.setCurrentDatabase("faults")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    spark.table("numbers").filter("n % 2 = 0").createOrReplaceTempView("even")
    spark.sql("CREATE TEMPORARY VIEW few AS SELECT n FROM numbers WHERE n < 20")


def frame(spark: Any) -> dict[str, Any]:
    """Held while its frame is planned. Its rows say how the engine sees the session."""
    settled(spark)
    held = spark.table("planned").join(spark.table("even"), "n").join(spark.table("few"), "n")
    shown = held.selectExpr("n", "current_schema()", "current_timezone()").orderBy("n")
    return raised(lambda: [list(row) for row in shown.collect()])


def text(spark: Any) -> dict[str, Any]:
    """Held while its text is looked at, before anything runs."""
    settled(spark)
    held = "SELECT sum(n), current_schema(), current_timezone() FROM described JOIN even USING (n)"
    return raised(lambda: list(spark.sql(held).first()))


def followed(who: str, spark: Any, text: str, between: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Reads row by row: says so at the first, does what comes `between`, and reads on."""
    seen: list[int] = []

    def read() -> None:
        for row in spark.sql(text).toLocalIterator():
            seen.append(row.id)
            if len(seen) == 1:
                tell(who, has_row=True)
                between()

    end = raised(read)
    return {**end, "rows": len(seen), "distinct": len(set(seen))}


def begun(spark: Any) -> dict[str, Any]:
    """Has a row, and reads on."""
    wait_for_word("begun")
    return {**followed("begun", spark, SLOW), "afterwards": connected().range(3).count()}


def committed(spark: Any) -> dict[str, Any]:
    """Held when its rows are committed and nobody has been told."""
    return raised(lambda: spark.table("faults.numbers").writeTo("faults.kept").append())


def committing(spark: Any) -> dict[str, Any]:
    """Held when Spark has asked for the commit."""
    return raised(lambda: spark.sql("INSERT INTO faults.kept_too SELECT n FROM faults.numbers"))


def bereft(spark: Any) -> dict[str, Any]:
    """Has a view of a table that is gone when the view has to be made again."""
    spark.table("faults.doomed").createOrReplaceTempView("of_doomed")
    wait_for_word("bereft")
    end = raised(lambda: spark.range(3).collect())
    return {**end, "afterwards": connected().range(3).count()}


def impatient(spark: Any) -> dict[str, Any]:
    """Reads on for long, and asks a gateway that does not answer only some times more."""
    spark.client.set_retry_policies([IMPATIENT])
    return followed("impatient", spark, LONG)


def patient(spark: Any) -> dict[str, Any]:
    """Reads on for long; afterwards its program makes another session."""
    return {**followed("patient", spark, LONG), "afterwards": connected().range(3).count()}


def saving(spark: Any) -> dict[str, Any]:
    """Held when Spark has asked for the commit. The session has never had an answer."""
    return raised(lambda: spark.range(10).withColumnRenamed("id", "n").write.saveAsTable("faults.saved"))


def unread(spark: Any) -> dict[str, Any]:
    """Has a row, and reads on only when it is told to."""
    return followed("unread", spark, WIDE, lambda: wait_for_word("unread"))


def endless(spark: Any) -> dict[str, Any]:
    """Has a row, and reads on for longer than any gateway waits that is asked to end."""
    return followed("endless", spark, LONG)


def filling(spark: Any) -> dict[str, Any]:
    """Writes for longer than that."""
    return raised(lambda: spark.sql(f"INSERT INTO faults.kept_too SELECT length(digest) FROM ({LONG})"))


def late(spark: Any) -> dict[str, Any]:
    """Held while its frame is planned."""
    return raised(lambda: spark.table("faults.planned").count())


CLIENTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        *(frame, text, begun, committed, committing, bereft),
        *(impatient, patient, saving),
        *(unread, endless, filling, late),
    )
}


def live(who: str) -> None:
    spark = connected()
    tell(who, ended=CLIENTS[who](spark))


def main(names: list[str]) -> None:
    MAY_GO_ON.update({who: threading.Event() for who in names})
    threads = [threading.Thread(target=live, args=(who,), daemon=True) for who in names]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        MAY_GO_ON[line.strip()].set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
