"""USE, SET CATALOG and SET TIME ZONE are read by us; everything else is left to Spark."""

import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.session_statements import SessionStatement, SetTimeZone, Use, UseCatalog, parse
from bailiwick.queries.time_zones import checked_time_zone


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("USE sales", Use(("sales",))),
        ("use lake.sales.eu ;", Use(("lake", "sales", "eu"))),
        ("USE `a.b`.`c``d`", Use(("a.b", "c`d"))),
        ("/* why */ USE -- not\n sales", Use(("sales",))),
        ("USE SCHEMA sales", Use(("sales",), is_inside_catalog=True)),
        ("USE DATABASE `größe`", Use(("größe",), is_inside_catalog=True)),
        ("USE namespace a.b", Use(("a", "b"), is_inside_catalog=True)),
        ("USE schema", Use(("schema",))),
        ("SET CATALOG lake", UseCatalog("lake")),
        ("SET CATALOG 'lake'", UseCatalog("lake")),
        ("SET TIME ZONE 'Europe/Berlin'", SetTimeZone("Europe/Berlin")),
        ("set time zone '-05:30';", SetTimeZone("-05:30")),
        ("SET TIME ZONE LOCAL", SetTimeZone(None)),
    ],
)
def test_what_is_read(sql: str, statement: SessionStatement) -> None:
    assert parse(sql) == statement


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "SELECT 1",
        "USE",
        "USE a.",
        "USE .a",
        "USE a b",
        "USE a; SELECT 1",
        'USE "a"',
        "USE 'a'",
        "USE IDENTIFIER('a')",
        "USER a",
        "SET x = 1",
        "SET TIME ZONE",
        "SET TIME ZONE INTERVAL 2 HOURS",
        "SET spark.sql.session.timeZone = UTC",
        "USE `a",
        "USE /* a",
        "USE " + ".".join("a" * 1) + ".a" * 500,
        "'USE a'",
        "/**/" * 20_000 + "USE a",
    ],
)
def test_what_is_left_to_spark(sql: str) -> None:
    assert parse(sql) is None


@pytest.mark.parametrize("zone", ["UTC", "+00:00", "-18:00", "Europe/Berlin", "America/Argentina/Ushuaia"])
def test_a_time_zone_that_exists_is_taken(zone: str) -> None:
    assert checked_time_zone(zone) == zone


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "CET",
        "utc",
        "Europe/Nowhere",
        "posix/Europe/Berlin",
        "../etc/passwd",
        "/etc/localtime",
        "+2",
        "+18:30",
        "+10:60",
        "x" * 10_000,
        "UTC'; DROP TABLE t",
    ],
)
def test_any_other_is_refused(zone: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        checked_time_zone(zone)
    assert refused.value.code is Code.INVALID_ARGUMENTS
    assert len(refused.value.message) < 250
