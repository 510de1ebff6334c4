"""Sessions of real drivers on a real gateway: schema, time zone, quoting, timeout, polling, their end."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any

import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.asking import ENDLESS, rows, wait_until
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = "adbc.connection.db_schema"
OPTION = "adbc.flight.sql.session.option."
TRUTH = "adbc.flight.sql.session.optionbool."
ERASE = "adbc.flight.sql.session.optionerase."
PASSWORD = "a long password"
NAMES = ("select", "Mixed Case", "größe", "dotted.name", "with`tick", "emoji🦆", "group by")
"""Reserved, mixed, foreign, dotted, quoted."""


@pytest.fixture(scope="module", autouse=True)
def lake(gateway: RunningGateway) -> None:
    for name, value in (("north", 1), ("south", 2)):
        rows(gateway, f"CREATE NAMESPACE IF NOT EXISTS {name}")
        rows(gateway, f"CREATE TABLE IF NOT EXISTS {name}.place AS SELECT {value} AS id")
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS `odd.one`")
    rows(gateway, "CREATE TABLE IF NOT EXISTS `odd.one`.place AS SELECT 3 AS id")


@contextmanager
def connected(gateway: RunningGateway, **options: str) -> Iterator[Any]:
    with gateway.connect() as connection:
        set_options(connection, options)
        yield connection


def set_options(connection: Any, options: dict[str, str]) -> None:
    for name, value in options.items():
        connection.adbc_connection.set_options(**{name: value})


def value(connection: Any, sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def run(connection: Any, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_a_schema_is_the_connections_own(gateway: RunningGateway) -> None:
    with connected(gateway, **{SCHEMA: "north"}) as north, connected(gateway, **{SCHEMA: "south"}) as south:
        assert [value(each, "SELECT id FROM place") for each in (north, south, north)] == [1, 2, 1]
        assert (north.adbc_current_catalog, north.adbc_current_db_schema) == ("lake", "north")
        set_options(north, {SCHEMA: "odd.one"})
        assert value(north, "SELECT id FROM place") == 3
        assert value(north, "SELECT current_schema()") in ("odd.one", "`odd.one`")
        assert value(south, "SELECT id FROM place") == 2


def test_one_static_token_gives_each_connection_a_session(gateway: RunningGateway) -> None:
    [(token_id, secret, _expires_at)] = rows(gateway, "CREATE TOKEN FOR admin")
    with gateway.connect_with_token(secret) as north, gateway.connect_with_token(secret) as south:
        set_options(north, {SCHEMA: "north"})
        set_options(south, {SCHEMA: "south"})
        assert [value(each, "SELECT id FROM place") for each in (north, south)] == [1, 2]
        rows(gateway, f"REVOKE TOKEN '{token_id}'")
        for each in (north, south):
            with pytest.raises(AdbcError, match=r"SESSION_EXPIRED|AUTHENTICATION_FAILED"):
                value(each, "SELECT id FROM place")


def test_a_schema_that_is_not_there_cannot_be_set(gateway: RunningGateway) -> None:
    with connected(gateway) as connection:
        with pytest.raises(AdbcError, match="schema"):
            set_options(connection, {SCHEMA: "nowhere"})
        with pytest.raises(AdbcError, match="invalid name"):
            set_options(connection, {OPTION + "spark.sql.ansi.enabled": "false"})
        assert value(connection, "SELECT 1") == 1


def test_use_and_set_time_zone_change_the_session(gateway: RunningGateway) -> None:
    with connected(gateway) as connection, connected(gateway) as other:
        run(connection, "USE south")
        assert value(connection, "SELECT id FROM place") == 2
        run(connection, "USE lake.north;")
        assert value(connection, "SELECT id FROM place") == 1
        run(connection, "SET TIME ZONE 'Asia/Tokyo'")
        assert value(connection, "SELECT current_timezone()") == "Asia/Tokyo"
        assert value(other, "SELECT current_timezone()") == "UTC"
        with pytest.raises(AdbcError, match="SCHEMA_NOT_FOUND"):
            run(connection, "USE nowhere")
        with pytest.raises(AdbcError, match="session option"):
            run(connection, "SET spark.sql.session.timeZone = 'UTC'")


def test_a_time_zone_is_what_times_are_written_and_announced_in(gateway: RunningGateway) -> None:
    text = "SELECT CAST(TIMESTAMP '2026-07-01 12:00:00Z' AS STRING)"
    with connected(gateway, **{OPTION + "time_zone": "Europe/Berlin"}) as berlin, connected(gateway) as other:
        assert [value(each, text) for each in (berlin, other, berlin)] == [
            "2026-07-01 14:00:00",
            "2026-07-01 12:00:00",
            "2026-07-01 14:00:00",
        ]
        with berlin.cursor() as cursor:
            cursor.execute("SELECT TIMESTAMP '2026-07-01 14:00:00' AS at")
            table = cursor.fetch_arrow_table()
        assert str(table.schema.field("at").type) == "timestamp[us, tz=Europe/Berlin]"
        assert table.column("at")[0].as_py().astimezone(UTC).hour == 12
        set_options(berlin, {ERASE + "time_zone": ""})
        assert value(berlin, text) == "2026-07-01 12:00:00"


def test_double_quotes_are_names_where_one_wants_them_to_be(gateway: RunningGateway) -> None:
    text = 'SELECT "n" FROM (SELECT 1 AS n)'
    with connected(gateway, **{TRUTH + "double_quoted_identifiers": "true"}) as quoted:
        with connected(gateway) as plain:
            assert [value(each, text) for each in (quoted, plain, quoted)] == [1, "n", 1]


def test_a_view_means_the_same_to_everyone(gateway: RunningGateway) -> None:
    with connected(gateway, **{SCHEMA: "north", TRUTH + "double_quoted_identifiers": "true"}) as quoted:
        with pytest.raises(AdbcError, match="double_quoted_identifiers"):
            run(quoted, 'CREATE VIEW seen AS SELECT "id" FROM place')


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quote", ["`", '"'])
def test_any_name_can_be_had_by_quoting(gateway: RunningGateway, name: str, quote: str) -> None:
    quoted = quote + name.replace(quote, quote * 2) + quote
    options = {TRUTH + "double_quoted_identifiers": "true"} if quote == '"' else {}
    with connected(gateway, **{SCHEMA: "north"}, **options) as connection:
        run(connection, f"CREATE OR REPLACE TABLE {quoted} AS SELECT 7 AS {quoted}")
        assert value(connection, f"SELECT {quoted}.{quoted} FROM {quoted} WHERE {quoted} = 7") == 7
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {quoted} FROM lake.north.{quoted}")
            assert cursor.description[0][0] == name
        run(connection, f"DROP TABLE {quoted}")


def test_a_timeout_ends_a_statement(gateway: RunningGateway) -> None:
    with connected(gateway, **{OPTION + "timeout_s": "1.5"}) as connection:
        with pytest.raises(AdbcError, match="QUERY_TIMEOUT"):
            value(connection, ENDLESS)
        assert value(connection, "SELECT 1") == 1


def test_sessions_are_listed_for_their_owners_and_for_administrators(gateway: RunningGateway) -> None:
    rows(gateway, f"CREATE USER selma PASSWORD '{PASSWORD}' ROLES (reader)")
    listed = "SELECT principal, schema, time_zone, door FROM system.runtime.sessions"
    with gateway.connect("selma", PASSWORD) as selmas, connected(gateway, **{SCHEMA: "north"}) as own:
        set_options(selmas, {OPTION + "time_zone": "+02:00"})
        with selmas.cursor() as cursor:
            cursor.execute(listed)
            assert cursor.fetchall() == [("selma", None, "+02:00", "flight_sql")]
        with own.cursor() as cursor:
            cursor.execute(listed)
            seen = cursor.fetchall()
        assert ("selma", None, "+02:00", "flight_sql") in seen
        assert ("admin", "north", "UTC", "flight_sql") in seen
    ended = "SELECT count(*) FROM system.runtime.sessions WHERE principal = 'selma'"
    wait_until("ended", lambda: rows(gateway, ended) == [(0,)])


def test_a_connection_without_autocommit_is_usable_and_says_what_it_cannot(gateway: RunningGateway) -> None:
    credentials = {"username": "admin", "password": gateway.admin_password}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        connection = dbapi.connect(gateway.uri, db_kwargs=credentials)
    assert ["Cannot disable autocommit" in str(warning.message) for warning in told] == [True]
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE north.kept AS SELECT 1 AS id")
        connection.rollback()
        cursor.execute("SELECT id FROM north.kept")
        assert cursor.fetchall() == [(1,)]
        connection.commit()
        cursor.execute("DROP TABLE north.kept")


def test_a_driver_polls_and_fetches(gateway: RunningGateway) -> None:
    long = "SELECT sum(id) AS total FROM range(0, 300000000, 1, 200) WHERE hash(id) % 5 = 1"
    with connected(gateway) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.statement.exec.incremental": "true"})
        partitions, _schema = cursor.adbc_execute_partitions(long)
        assert len(partitions) == 1
        assert cursor.adbc_execute_partitions(long)[0] == []
        cursor.adbc_read_partition(partitions[0])
        assert cursor.fetchone()[0] > 0
