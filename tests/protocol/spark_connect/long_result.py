"""Reads a long result, and tells its test by lines how far it is. A client's program.

`rows`: reads one row, waits to be told to go on, and reads the others. `endless`: waits for a result that
does not come; told to go on, it interrupts it.
"""

import json
import sys
import threading
from typing import Any

from spark_connect.connecting import connect

ROWS = 200_000
TEXT = "sha2(CAST(id AS STRING), 512)"
"""Rows travel compressed, and this hardly shrinks."""
PARTS = 64
TAG = "endless"
ENDLESS = "SELECT sum(a.id * b.id % 7) FROM range(0, 4000000000, 1, 40000) a CROSS JOIN range(0, 400) b"


def tell(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def watch_streams(spark: Any) -> list[int]:
    """How often the client has taken a stream up again; it does not notice that it is counted."""
    counted = [0]
    stub = spark.client._stub
    taken_up = stub.ReattachExecute

    def again(*arguments: Any, **named: Any) -> Any:
        counted[0] += 1
        tell(streams=counted[0])
        return taken_up(*arguments, **named)

    stub.ReattachExecute = again
    return counted


def read_rows(spark: Any) -> None:
    counted = watch_streams(spark)
    frame = spark.range(0, ROWS, 1, PARTS).selectExpr("id", f"{TEXT} AS t")
    rows = frame.toLocalIterator()
    ids = [next(rows).id]
    tell(began=True)
    sys.stdin.readline()
    ids += [row.id for row in rows]
    tell(rows=len(ids), is_whole=sorted(ids) == list(range(ROWS)), taken_up=counted[0])


def wait_for_ever(spark: Any) -> None:
    watch_streams(spark)

    def stop() -> None:
        sys.stdin.readline()
        tell(interrupted=len(spark.interruptTag(TAG)))

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    spark.addTag(TAG)
    tell(began=True)
    try:
        spark.sql(ENDLESS).collect()
    except Exception as error:
        stopping.join()
        tell(ended=str(getattr(error, "getCondition", lambda: None)() or error))


def main() -> None:
    spark = connect(sys.argv[2])
    {"rows": read_rows, "endless": wait_for_ever}[sys.argv[1]](spark)
    spark.stop()


if __name__ == "__main__":
    main()
