"""What only the gateway has, or has otherwise than plain Spark: who one is, system tables, settings."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import ours


@ours
def one_is_oneself(spark: Any) -> Any:
    by_sql = spark.sql("SELECT current_user() AS a, session_user() AS b, user() AS c").first()
    by_frame = spark.range(1).select(f.current_user(), f.session_user(), f.user()).first()
    return {*by_sql, *by_frame} == {"pia"}


@ours
def queries_are_a_table(spark: Any) -> Any:
    found = spark.table("system.runtime.queries").filter("user = 'pia'").limit(5).collect()
    return len(found) > 0


@ours
def queries_by_sql(spark: Any) -> Any:
    return spark.sql("SELECT count(*) AS n FROM system.runtime.queries").first().n > 0


@ours
def queries_joined_with_the_lake(spark: Any) -> Any:
    queries = spark.table("system.runtime.queries").agg(f.count("*").alias("n"))
    return queries.crossJoin(spark.table("people").agg(f.count("*").alias("m"))).first().m == 8


@ours
def settings_tell_no_secrets(spark: Any) -> Any:
    told = spark.conf.getAll
    told = told() if callable(told) else told
    words = ("token", "secret", "password", "bailiwick", "credential", "file:")
    return not [key for key, value in told.items() if any(word in f"{key}={value}".lower() for word in words)]


@ours
def the_gateways_settings_are_not_there(spark: Any) -> Any:
    keys = (
        "spark.connect.authenticate.token",
        "spark.bailiwick.catalog.uri",
        "spark.bailiwick.stamp-key-file",
    )
    return [spark.conf.get(key, "nothing") for key in keys] == ["nothing"] * len(keys)


@ours
def a_name_that_one_gives_oneself_is_ignored(spark: Any) -> Any:
    return spark.sql("SELECT current_user() AS u").first().u == "pia"


@ours
def a_plan_shows_nothing_of_the_house(spark: Any) -> Any:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as said:
        spark.table("people").explain("extended")
    found = [word for word in ("file:", "127.0.0.1") if word in said.getvalue().lower()]
    return found or True


@ours
def nothing_is_cached(spark: Any) -> Any:
    return spark.catalog.isCached("people") is False
