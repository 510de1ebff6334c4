"""A small, lifelike lake: the shop that the demo asks its questions about.

A plain PySpark pipeline, such as anyone would write: it takes a session and makes Iceberg tables in the
catalog `lake`. Every value is computed from row numbers, so each run makes the same rows. It holds no Python
functions that would run in Spark, and it works on a classic session and over Spark Connect alike.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

NAMESPACE = "lake.shop"
CUSTOMERS = 20_000
PRODUCTS = 2_000
ORDERS = 200_000
DAYS = 730
FIRST_DAY = "2024-01-01"

FIRST_NAMES = ("Ada", "Bela", "Carla", "Dov", "Edith", "Femi", "Grace", "Hedy", "Ines", "Jun", "Kurt", "Lise")
LAST_NAMES = (
    "Alba",
    "Brandt",
    "Costa",
    "Dahl",
    "Eriksen",
    "Fuchs",
    "Galan",
    "Horak",
    "Ito",
    "Jansen",
    "Kaya",
)
COUNTRIES = ("DE", "US", "FR", "JP", "ES", "CA", "IT", "PL")
REGIONS = ("EU", "NA", "EU", "APAC", "EU", "NA", "EU", "EU")
CALLING_CODES = ("49", "1", "33", "81", "34", "1", "39", "48")
"""Of each country in turn."""
SEGMENTS = ("private", "business", "public")
CATEGORIES = ("books", "garden", "kitchen", "music", "office", "outdoor", "toys")
MATERIALS = ("oak", "steel", "linen", "glass", "cork", "brass", "wool")
THINGS = ("lamp", "chair", "kettle", "notebook", "basket", "clock", "shelf", "mug")
CHANNELS = ("web", "app", "shop")

Report = Callable[[str, int], None]
"""Told after each table: its name and how many rows it has."""


def build(spark: SparkSession, report: Report) -> None:
    """Make the whole lake. Running it again replaces every table by an equal one."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
    for name, rows, partitioning in (
        ("customers", customers(spark), ()),
        ("products", products(spark), ()),
        ("orders", orders(spark), (F.partitioning.months("ordered_at"),)),
        ("order_lines", order_lines(spark), ()),
        ("daily_revenue", daily_revenue(spark), ()),
    ):
        table = f"{NAMESPACE}.{name}"
        _write(rows, table, partitioning)
        report(table, spark.table(table).count())
    spark.sql(REVENUE_BY_COUNTRY)
    report(f"{NAMESPACE}.revenue_by_country", spark.table(f"{NAMESPACE}.revenue_by_country").count())


def customers(spark: SparkSession) -> DataFrame:
    first, last = _pick(FIRST_NAMES, "id", 1), _pick(LAST_NAMES, "id", 2)
    email = F.concat(F.lower(first), F.lit("."), F.col("id").cast("string"), F.lit("@example.org"))
    number = F.lpad(_below(10_000_000, "id", 6).cast("string"), 7, "0")
    phone = F.concat(F.lit("+"), _by_country(CALLING_CODES), F.lit(" 555 "), number)
    return spark.range(CUSTOMERS).select(
        F.col("id").alias("customer_id"),
        F.concat_ws(" ", first, last).alias("name"),
        email.alias("email"),
        phone.alias("phone"),
        _pick(SEGMENTS, "id", 3, skew=2.0).alias("segment"),
        _by_country(COUNTRIES).alias("country"),
        _by_country(REGIONS).alias("region"),
        F.date_sub(F.lit(FIRST_DAY).cast("date"), _below(1500, "id", 5).cast("int")).alias("customer_since"),
    )


def products(spark: SparkSession) -> DataFrame:
    return spark.range(PRODUCTS).select(
        F.col("id").alias("product_id"),
        F.concat_ws(" ", _pick(MATERIALS, "id", 11), _pick(THINGS, "id", 12)).alias("name"),
        _pick(CATEGORIES, "id", 13).alias("category"),
        _price("id").alias("price"),
    )


def orders(spark: SparkSession) -> DataFrame:
    """Later days have more orders than earlier ones, and a few customers order most."""
    day = F.floor(F.pow(_unit("id", 21), F.lit(0.8)) * DAYS).cast("int")
    second = _below(86_400, "id", 22).cast("int")
    ordered_at = F.lit(f"{FIRST_DAY} 00:00:00").cast("timestamp") + F.make_dt_interval(
        days=day, hours=F.lit(0), mins=F.lit(0), secs=second.cast("decimal(18,6)")
    )
    status = F.when(_unit("id", 24) < 0.04, "returned").when(day > DAYS - 4, "open").otherwise("paid")
    return spark.range(ORDERS).select(
        F.col("id").alias("order_id"),
        F.floor(F.pow(_unit("id", 23), F.lit(2.5)) * CUSTOMERS).cast("bigint").alias("customer_id"),
        ordered_at.alias("ordered_at"),
        status.alias("status"),
        _pick(CHANNELS, "id", 25, skew=1.5).alias("channel"),
    )


def order_lines(spark: SparkSession) -> DataFrame:
    """One to four lines an order: 2.5 on average."""
    lines = spark.range(ORDERS).select(
        F.col("id").alias("order_id"),
        F.explode(F.sequence(F.lit(1), (F.col("id") % 4 + 1).cast("int"))).alias("line"),
    )
    chosen = lines.withColumn(
        "product_id", F.floor(F.pow(_unit("order_id", 31, "line"), F.lit(1.7)) * PRODUCTS).cast("bigint")
    )
    return chosen.select(
        "order_id",
        "line",
        "product_id",
        (_below(5, "order_id", 32, "line") + 1).cast("int").alias("quantity"),
        _price("product_id").alias("unit_price"),
    )


def daily_revenue(spark: SparkSession) -> DataFrame:
    """Read back from the tables just made, as the next job of a pipeline would."""
    joined = spark.table(f"{NAMESPACE}.orders").join(spark.table(f"{NAMESPACE}.order_lines"), "order_id")
    return (
        joined.where(F.col("status") != "returned")
        .groupBy(F.to_date("ordered_at").alias("day"), F.col("channel"))
        .agg(
            F.count_distinct("order_id").alias("orders"),
            F.sum(F.col("quantity") * F.col("unit_price")).cast("decimal(18,2)").alias("revenue"),
        )
        .orderBy("day", "channel")
    )


REVENUE_BY_COUNTRY = f"""
CREATE OR REPLACE VIEW {NAMESPACE}.revenue_by_country AS
SELECT c.country, count(DISTINCT o.order_id) AS orders, sum(l.quantity * l.unit_price) AS revenue
FROM {NAMESPACE}.orders o
JOIN {NAMESPACE}.order_lines l ON l.order_id = o.order_id
JOIN {NAMESPACE}.customers c ON c.customer_id = o.customer_id
WHERE o.status <> 'returned'
GROUP BY c.country
"""  # noqa: S608 - no name in it comes from outside


def _write(rows: DataFrame, table: str, partitioning: Sequence[Column]) -> None:
    writer = rows.writeTo(table).using("iceberg").tableProperty("format-version", "2")
    if partitioning:
        writer = writer.partitionedBy(*partitioning)
    writer.createOrReplace()


def _unit(column: str, seed: int, *more: str) -> Column:
    """A number from 0 up to, not including, 1 that looks random and depends only on the columns."""
    return F.pmod(F.xxhash64(F.lit(seed), F.col(column), *more), F.lit(1_000_000)) / 1_000_000


def _below(bound: int, column: str, seed: int, *more: str) -> Column:
    return F.floor(_unit(column, seed, *more) * bound)


def _pick(values: Sequence[str], column: str, seed: int, *, skew: float = 1.0) -> Column:
    """One of `values`; the first ones more often the larger `skew` is."""
    position = F.floor(F.pow(_unit(column, seed), F.lit(skew)) * len(values)) + 1
    return F.element_at(F.array(*(F.lit(value) for value in values)), position.cast("int"))


def _by_country(values: Sequence[str]) -> Column:
    """What `values` has for the customer's country: it is picked alike from all lists of this length."""
    return _pick(values, "id", 4, skew=1.6)


def _price(product: str) -> Column:
    """What a product costs: from 2 to about 200, most of them cheap."""
    return (F.pow(_unit(product, 41), F.lit(3.0)) * 198 + 2).cast("decimal(10,2)")
