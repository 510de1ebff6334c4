# ruff: noqa: E501 - one case a line
"""Functions whose own examples show nothing: they change with time, fail by design, or have none."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import several, since


def _one(*made: Any) -> Any:
    """Columns over a single row, made when the case runs."""
    return lambda spark: spark.range(1).select(*(each() for each in made)).collect()


def _conditions(spark: Any, made: dict[str, Any]) -> dict[str, Any]:
    """How each of these columns fails."""
    told = {}
    for name, column in made.items():
        try:
            told[name] = str(spark.range(1).select(column()).collect())
        except Exception as error:
            told[name] = error.getCondition()  # type: ignore[attr-defined]
    return told


several(
    "functions",
    {
        "the day": _one(lambda: f.current_date() == f.curdate(), lambda: f.datediff(f.current_date(), f.curdate())),
        "the moment": _one(lambda: f.current_timestamp() == f.now(), lambda: f.localtimestamp().cast("date") == f.current_date()),
        "the version": _one(f.version),
        "powers and signs": _one(lambda: f.power(f.lit(2), 10), lambda: f.negate(f.lit(3)), lambda: f.pow(f.lit(3), 2)),
        "binaries of texts": _one(lambda: f.to_binary(f.lit("abc"), f.lit("utf-8")), lambda: f.to_binary(f.lit("414243"), f.lit("hex"))),
        "zones": _one(lambda: f.convert_timezone(f.lit("Europe/Oslo"), f.lit("Asia/Tokyo"), f.lit("2026-01-02 03:04:05").cast("timestamp_ntz"))),
        "what is tried": _one(lambda: f.try_mod(f.lit(7), f.lit(0)), lambda: f.try_mod(f.lit(7), f.lit(4)), lambda: f.try_to_number(f.lit("$78.12"), f.lit("$99.99")), lambda: f.try_to_number(f.lit("x"), f.lit("99"))),
        "collations of the engine": lambda s: s.tvf.collations().filter("NAME LIKE 'UTF8%'").select("NAME"),
        "functions by name": _one(lambda: f.call_udf("upper", f.lit("a")), lambda: f.call_function("lower", f.lit("B"))),
        "a small side": lambda s: s.table("orders").join(f.broadcast(s.table("people").withColumnRenamed("id", "person_id")), "person_id").count(),
    },
    (4, 1),
)  # fmt: skip


@since(4, 1)
def an_error_that_is_raised(spark: Any) -> Any:
    return _conditions(spark, {"raise_error": lambda: f.raise_error(f.lit("no"))})


several(
    "functions",
    {
        "times of day": lambda s: _conditions(
            s,
            {
                "current_time": f.current_time,
                "make_time": lambda: f.make_time(f.lit(6), f.lit(30), f.lit(1.5)),
                "time_diff": lambda: f.time_diff(f.lit("HOUR"), f.to_time(f.lit("10:30:00")), f.to_time(f.lit("12:30:00"))),
                "time_trunc": lambda: f.time_trunc(f.lit("HOUR"), f.to_time(f.lit("10:30:00"))),
                "to_time": lambda: f.to_time(f.lit("10:30:00")),
                "try_to_time": lambda: f.try_to_time(f.lit("10:30:00")),
            },
        ),
        "shapes": lambda s: _conditions(
            s,
            {
                "st_asbinary": lambda: f.st_asbinary(f.st_geogfromwkb(f.lit(b"\x01"))),
                "st_geogfromwkb": lambda: f.st_geogfromwkb(f.lit(b"\x01")),
                "st_geomfromwkb": lambda: f.st_geomfromwkb(f.lit(b"\x01")),
                "st_setsrid": lambda: f.st_setsrid(f.st_geomfromwkb(f.lit(b"\x01")), f.lit(4326)),
                "st_srid": lambda: f.st_srid(f.st_geogfromwkb(f.lit(b"\x01"))),
            },
        ),
    },
    (4, 1),
)  # fmt: skip
