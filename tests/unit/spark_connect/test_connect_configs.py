"""Which settings a Spark Connect client reads and sets."""

import pytest

from bailiwick.doors.spark_connect import configs
from bailiwick.errors import BailiwickError, Code

WHAT_PYSPARK_READS = (
    "spark.sql.session.timeZone",
    "spark.sql.timestampType",
    "spark.sql.session.localRelationCacheThreshold",
    "spark.sql.session.localRelationChunkSizeRows",
    "spark.sql.session.localRelationChunkSizeBytes",
    "spark.sql.session.localRelationBatchOfChunksSizeBytes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pandas.inferPandasDictAsMap",
    "spark.sql.execution.pandas.structHandlingMode",
    "spark.sql.execution.arrow.pyspark.selfDestruct.enabled",
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.pyspark.inferNestedDictAsStruct.enabled",
    "spark.sql.repl.eagerEval.enabled",
    "spark.sql.connect.serverStacktrace.enabled",
    "spark.sql.ansi.enabled",
    "spark.connect.session.planCompression.threshold",
    "spark.connect.session.planCompression.defaultAlgorithm",
)
HIDDEN = (
    "spark.bailiwick.catalog.uri",
    "spark.bailiwick.stamp-key-file",
    "spark.sql.catalog.lake",
    "spark.sql.catalog.lake.token",
    "spark.sql.extensions",
    "spark.sql.warehouse.dir",
    "spark.connect.authenticate.token",
    "spark.driver.host",
    "spark.local.dir",
    "spark.redaction.regex",
    "spark.sql.redaction.string.regex",
    "spark.hadoop.fs.s3a.secret.key",
    "SPARK.SQL.CATALOG.LAKE",
    "spark.app.name",
)
NOT_SETTABLE = (
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.extensions",
    "spark.sql.catalog.lake",
    "spark.sql.catalog.mine",
    "spark.sql.variable.substitute",
    "spark.sql.runSQLOnFiles",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.timestampType",
    "spark.sql.execution.arrow.compression.codec",
    "spark.redaction.regex",
    "spark.bailiwick.catalogs",
    "Spark.sql.shuffle.partitions",
    " spark.sql.shuffle.partitions",
    "spark.sql.defaultCatalog",
)


@pytest.mark.parametrize("key", WHAT_PYSPARK_READS)
def test_what_the_stock_client_asks_for_can_be_read(key: str) -> None:
    assert configs.is_readable(key)


@pytest.mark.parametrize("key", HIDDEN)
def test_what_tells_of_the_house_does_not_exist(key: str) -> None:
    assert not configs.is_readable(key)


@pytest.mark.parametrize("key", NOT_SETTABLE)
def test_what_is_not_on_the_list_cannot_be_set(key: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        configs.checked(key, "true")
    assert refused.value.code is Code.NOT_SUPPORTED


@pytest.mark.parametrize(
    "value",
    ["file:///tmp/a", "/var/lib/x", "s3://bucket/x", "jdbc:postgresql://h/d", "bw_0123456789ab_secret"],
)
def test_values_that_are_places_or_secrets_are_not_shown(value: str) -> None:
    assert not configs.is_showable("spark.sql.harmless", value)


@pytest.mark.parametrize(
    ("key", "value", "becomes"),
    [
        ("spark.sql.shuffle.partitions", "7", "7"),
        ("spark.sql.session.timeZone", "Europe/Berlin", "Europe/Berlin"),
        ("spark.sql.execution.arrow.pyspark.enabled", "TRUE", "true"),
        ("spark.sql.sources.partitionOverwriteMode", "DYNAMIC", "dynamic"),
        ("spark.sql.connect.serverStacktrace.enabled", "false", "false"),
    ],
)
def test_settings_on_the_list_are_set(key: str, value: str, becomes: str) -> None:
    assert configs.checked(key, value) == becomes


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.shuffle.partitions", "0"),
        ("spark.sql.shuffle.partitions", "1000000"),
        ("spark.sql.shuffle.partitions", "many"),
        ("spark.sql.session.timeZone", "Moon/Dark Side"),
        ("spark.sql.execution.arrow.maxRecordsPerBatch", "10000000"),
        ("spark.sql.connect.serverStacktrace.enabled", "true"),
        ("spark.sql.shuffle.partitions", "1" * 5_000),
    ],
)
def test_values_out_of_bounds_are_refused(key: str, value: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        configs.checked(key, value)
    assert refused.value.code is Code.INVALID_ARGUMENTS


def test_of_all_settings_only_the_harmless_are_shown() -> None:
    shown = configs.readable(
        [
            ("spark.sql.shuffle.partitions", "32"),
            ("spark.sql.catalog.lake.uri", "http://127.0.0.1:1/"),
            ("spark.sql.pyspark.jvmStacktrace.enabled", "true"),
            ("spark.sql.something", "file:///secret/place"),
        ]
    )
    assert shown == {"spark.sql.shuffle.partitions": "32", "spark.sql.pyspark.jvmStacktrace.enabled": "false"}


def test_a_hidden_key_is_missing_as_spark_says_it() -> None:
    assert configs.not_found("spark.x").details["condition"] == "SQL_CONF_NOT_FOUND"
