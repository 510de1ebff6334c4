# ruff: noqa: E501 - one case a line
"""Columns: operators, casts, conditions, texts, dates, and the functions that people use most."""

from typing import Any

from pyspark.sql import functions as f

from spark_connect.case import several


def _of(table: str, *columns: Any) -> Any:
    """Columns are made when the case runs: without a session PySpark would look for a local Spark."""
    return lambda spark: spark.table(table).select("id", *(column() for column in columns))


several(
    "columns",
    {
        "arithmetic": _of("orders", lambda: f.col("amount") * 2 + 1 - f.col("id") / 4 % 3, lambda: -f.col("id")),
        "power": _of("people", lambda: f.col("id") ** 2, lambda: 2 ** f.col("id")),
        "comparison": _of("people", lambda: f.col("age") >= 36, lambda: f.col("age") != 36, lambda: f.col("age") < 20),
        "null safe equality": _of("people", lambda: f.col("age").eqNullSafe(None), lambda: f.col("city").eqNullSafe("Oslo")),
        "logic": _of("people", lambda: (f.col("age") > 30) & (f.col("city") == "Oslo") | ~(f.col("id") > 2)),
        "bits": _of("people", lambda: f.col("id").bitwiseAND(3), lambda: f.col("id").bitwiseOR(8), lambda: f.col("id").bitwiseXOR(5)),
        "between": _of("people", lambda: f.col("age").between(28, 40)),
        "is in": _of("people", lambda: f.col("city").isin("Oslo", "Lima"), lambda: f.col("id").isin([1, 2])),
        "nulls": _of("people", lambda: f.col("age").isNull(), lambda: f.col("age").isNotNull()),
        "nan": _of("orders", lambda: f.isnan(f.col("amount")), lambda: f.nanvl("amount", f.lit(0.0))),
        "like": _of("people", lambda: f.col("name").like("%a%"), lambda: f.col("name").ilike("A%"), lambda: f.col("name").rlike("[ab]")),
        "beginning and end": _of("people", lambda: f.col("name").startswith("a"), lambda: f.col("name").endswith("e"), lambda: f.col("name").contains("a")),
        "parts of texts": _of("people", lambda: f.col("name").substr(1, 2), lambda: f.substring("name", 2, 2), lambda: f.col("name")[0:2]),
        "casts": _of("people", lambda: f.col("id").cast("string"), lambda: f.col("salary").cast("double"), lambda: f.col("born").astype("timestamp")),
        "tried casts": _of("people", lambda: f.col("name").try_cast("int")),
        "when": _of("people", lambda: f.when(f.col("age") < 30, "young").when(f.col("age") < 50, "grown").otherwise("old")),
        "when without otherwise": _of("people", lambda: f.when(f.col("id") == 1, f.col("name"))),
        "coalesce": _of("people", lambda: f.coalesce("age", f.lit(-1)), lambda: f.nvl("city", f.lit("?")), lambda: f.ifnull("age", "id")),
        "literals": _of("people", lambda: f.lit(1), lambda: f.lit("a"), lambda: f.lit(1.5), lambda: f.lit(None), lambda: f.lit(True)),
        "literal lists": _of("people", lambda: f.lit([1, 2, 3])),
        "text functions": _of("people", lambda: f.upper("name"), lambda: f.length("name"), lambda: f.concat_ws("-", "name", "city"), lambda: f.lpad("name", 5, "*")),
        "more text functions": _of("people", lambda: f.split("name", ""), lambda: f.initcap("name"), lambda: f.translate("name", "ab", "xy"), lambda: f.reverse("name")),
        "regular expressions": _of("people", lambda: f.regexp_replace("name", "[aeiou]", "_"), lambda: f.regexp_extract("name", "([a-z])([a-z])", 2)),
        "formats": _of("orders", lambda: f.format_number("amount", 2), lambda: f.format_string("%d-%s", "id", "status")),
        "numbers": _of("orders", lambda: f.round("amount", 1), lambda: f.floor("amount"), lambda: f.ceil("amount"), lambda: f.sqrt("amount")),
        "greatest and least": _of("people", lambda: f.greatest("id", "age"), lambda: f.least("id", "age")),
        "hashes": _of("people", lambda: f.md5(f.col("name").cast("binary")), lambda: f.sha2("name", 256), lambda: f.xxhash64("name"), lambda: f.hash("id")),
        "dates": _of("people", lambda: f.year("born"), lambda: f.dayofweek("born"), lambda: f.date_add("born", 30), lambda: f.last_day("born")),
        "more dates": _of("people", lambda: f.months_between("joined", "born"), lambda: f.trunc("born", "year"), lambda: f.date_format("born", "dd/MM/yyyy")),
        "timestamps": _of("people", lambda: f.hour("joined"), lambda: f.date_trunc("day", "joined"), lambda: f.unix_timestamp("joined"), lambda: f.to_timestamp(f.lit("2020-01-01"))),
        "time zones": _of("people", lambda: f.from_utc_timestamp("joined", "Asia/Tokyo"), lambda: f.to_utc_timestamp("joined", "+03:00")),
        "tried arithmetic": _of("people", lambda: f.try_divide("id", f.lit(0)), lambda: f.try_add("id", "age")),
        "an expression": _of("people", lambda: f.expr("id * 10 + length(coalesce(name, ''))")),
        "a function by name": _of("people", lambda: f.call_function("abs", f.lit(-1))),
        "names": _of("people", lambda: f.col("age").alias("years"), lambda: f.col("age").name("n")),
        "names with dots": lambda s: s.sql("SELECT 1 AS `a.b`").select("`a.b`"),
        "metadata of an alias": lambda s: s.table("people").select(f.col("id").alias("i", metadata={"k": "v"})).schema,
        "type of": _of("people", lambda: f.typeof("salary"), lambda: f.typeof("tags")),
        "collations": _of("people", lambda: f.collate("name", "UTF8_LCASE") == "ADA", lambda: f.collation("name")),
        "monotonic ids": lambda s: s.range(0, 4, 1, 1).select(f.monotonically_increasing_id()),
        "seeded randomness": lambda s: s.range(0, 5, 1, 1).select(f.round(f.rand(3), 6), f.round(f.randn(3), 6)),
        "url functions": _of("people", lambda: f.parse_url(f.lit("http://a.b/c?d=e"), f.lit("QUERY")), lambda: f.url_encode(f.lit("a b"))),
        "encodings": _of("people", lambda: f.base64(f.encode("name", "utf-8")), lambda: f.hex("id"), lambda: f.conv("id", 10, 2)),
        "encryption": _of("people", lambda: f.aes_decrypt(f.aes_encrypt(f.lit("x"), f.lit("0123456789abcdef")), f.lit("0123456789abcdef")).cast("string")),
        "struct fields added and dropped": lambda s: s.table("nested").select(f.col("home").withField("n", f.lit(1)).dropFields("zip")),
        "items and fields": lambda s: s.table("nested").select(f.col("home").getField("street"), f.col("items").getItem(0), f.col("scores")["a"]),
    },
)  # fmt: skip

several(
    "columns",
    {"transform of a column": _of("people", lambda: f.col("id").transform(lambda c: c + 1))},
    (4, 1),
)
