"""Session options: set one by one, each error under its own name, and shown as they are."""

from typing import Any

import pytest

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql.caller import Caller
from bailiwick.doors.flight_sql.session_options import OPTIONS_MAX, SessionOptions
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.names import Namespace
from bailiwick.queries.client_sessions import ClientSessions, SessionSettings
from bailiwick.queries.session_statements import parse

ANN = Principal("ann")
SCHEMAS = {("sales",), ("sales", "eu"), ("a.b",), ("größe",)}
Errors = flight.SetSessionOptionsResult


async def exists(who: Principal, catalog: str, namespace: Namespace) -> bool:
    return who == ANN and catalog == "lake" and namespace in SCHEMAS


class World:
    def __init__(self) -> None:
        sessions = ClientSessions()
        self.options = SessionOptions(sessions, exists)
        self.caller = Caller(ANN, sessions.offer(ANN, "flight_sql", "loopback"))

    @property
    def settings(self) -> SessionSettings:
        return self.caller.settings

    async def set(self, **values: Any) -> dict[str, int]:
        """Set these; the errors by name."""
        request = flight.SetSessionOptionsRequest()
        for name, value in values.items():
            request.session_options[name].CopyFrom(wire(value))
        answer = await self.options.set(self.caller, request.SerializeToString())
        return {name: each.value for name, each in Errors.FromString(answer).errors.items()}

    def shown(self) -> dict[str, Any]:
        answer = flight.GetSessionOptionsResult.FromString(self.options.get(self.caller, b""))
        return {
            name: getattr(value, value.WhichOneof("option_value") or "")
            for name, value in answer.session_options.items()
        }

    async def run(self, sql: str) -> None:
        statement = parse(sql)
        assert statement is not None
        await self.options.perform(self.caller, statement)


def wire(value: Any) -> flight.SessionOptionValue:
    match value:
        case None:
            return flight.SessionOptionValue()
        case bool():
            return flight.SessionOptionValue(bool_value=value)
        case int():
            return flight.SessionOptionValue(int64_value=value)
        case float():
            return flight.SessionOptionValue(double_value=value)
        case str():
            return flight.SessionOptionValue(string_value=value)
    return flight.SessionOptionValue(
        string_list_value=flight.SessionOptionValue.StringListValue(values=value)
    )


@pytest.fixture
def world() -> World:
    return World()


async def test_what_is_set_is_shown_and_holds(world: World) -> None:
    assert await world.set(schema="sales", time_zone="Europe/Berlin", timeout_s=2.5) == {}
    assert await world.set(double_quoted_identifiers=True) == {}
    assert world.settings == SessionSettings("lake", ("sales",), "Europe/Berlin", True, 2.5)
    assert world.shown() == {
        "catalog": "lake",
        "schema": "sales",
        "time_zone": "Europe/Berlin",
        "double_quoted_identifiers": True,
        "timeout_s": 2.5,
    }


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("sales", ("sales",)),
        ("sales.eu", ("sales", "eu")),
        ("`sales`.`eu`", ("sales", "eu")),
        ("a.b", ("a.b",)),
        ("`a.b`", ("a.b",)),
        ("größe", ("größe",)),
        ("", ()),
    ],
)
async def test_a_schema_is_found_however_it_is_written(
    world: World, text: str, namespace: tuple[str, ...]
) -> None:
    await world.set(schema="sales")
    assert await world.set(schema=text) == {}
    assert world.settings.namespace == namespace


async def test_an_option_without_a_value_is_as_by_default_again(world: World) -> None:
    await world.set(schema="sales", time_zone="+02:00", double_quoted_identifiers=True, timeout_s=1)
    names = ("catalog", "schema", "time_zone", "double_quoted_identifiers", "timeout_s")
    assert await world.set(**dict.fromkeys(names)) == {}
    assert world.settings == SessionSettings()


@pytest.mark.parametrize(
    ("value", "truth"), [("true", True), ("TRUE", True), ("false", False), (True, True), (False, False)]
)
async def test_truth_may_come_as_text(world: World, value: str | bool, truth: bool) -> None:
    assert await world.set(double_quoted_identifiers=value) == {}
    assert world.settings.double_quoted_identifiers is truth


@pytest.mark.parametrize("value", ["30", 30, 30.0])
async def test_seconds_may_come_as_text(world: World, value: object) -> None:
    assert await world.set(timeout_s=value) == {}
    assert world.settings.timeout_s == 30.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("catalog", "other"),
        ("catalog", True),
        ("schema", "nowhere"),
        ("schema", "sales.nowhere"),
        ("schema", "x" * 10_000),
        ("schema", "\x00"),
        ("schema", ["sales"]),
        ("schema", "sales; DROP SCHEMA sales"),
        ("time_zone", "Mars/Olympus"),
        ("time_zone", 3),
        ("double_quoted_identifiers", "yes"),
        ("double_quoted_identifiers", 1),
        ("timeout_s", 0),
        ("timeout_s", -1.0),
        ("timeout_s", float("nan")),
        ("timeout_s", float("inf")),
        ("timeout_s", "soon"),
        ("timeout_s", True),
        ("timeout_s", 1e12),
    ],
)
async def test_a_bad_value_is_told_under_its_name_and_changes_nothing(
    world: World, name: str, value: object
) -> None:
    assert await world.set(**{name: value}) == {name: Errors.INVALID_VALUE}
    assert world.settings == SessionSettings()


@pytest.mark.parametrize("name", ["", "Schema", "spark.sql.ansi.enabled", "x" * 5_000])
async def test_an_unknown_name_is_told_so(world: World, name: str) -> None:
    assert list((await world.set(**{name: "x"})).values()) == [Errors.INVALID_NAME]


async def test_what_can_be_set_is_set_beside_what_cannot(world: World) -> None:
    assert await world.set(schema="sales", colour="red", timeout_s="soon") == {
        "colour": Errors.INVALID_NAME,
        "timeout_s": Errors.INVALID_VALUE,
    }
    assert world.settings.namespace == ("sales",)


async def test_too_many_options_at_once_are_refused(world: World) -> None:
    with pytest.raises(BailiwickError) as refused:
        await world.set(**{f"o{number}": "x" for number in range(OPTIONS_MAX + 1)})
    assert refused.value.code is Code.INVALID_ARGUMENTS


async def test_a_malformed_request_is_a_parse_error(world: World) -> None:
    for call in (world.options.get, world.options.close):
        with pytest.raises(BailiwickError) as refused:
            call(world.caller, b"\xff\xff")
        assert refused.value.code is Code.PARSE_ERROR


@pytest.mark.parametrize(
    ("sql", "namespace"),
    [
        ("USE sales", ("sales",)),
        ("USE lake.sales.eu", ("sales", "eu")),
        ("USE SCHEMA `a.b`", ("a.b",)),
        ("USE lake", ()),
    ],
)
async def test_use_changes_the_schema(world: World, sql: str, namespace: tuple[str, ...]) -> None:
    await world.set(schema="sales")
    await world.run(sql)
    assert world.settings.namespace == namespace


async def test_set_time_zone_changes_the_time_zone(world: World) -> None:
    await world.run("SET TIME ZONE 'Asia/Tokyo'")
    assert world.settings.time_zone == "Asia/Tokyo"
    await world.run("SET TIME ZONE LOCAL")
    assert world.settings.time_zone == "UTC"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("USE nowhere", Code.SCHEMA_NOT_FOUND),
        ("USE lake.nowhere", Code.SCHEMA_NOT_FOUND),
        ("USE SCHEMA lake", Code.SCHEMA_NOT_FOUND),
        ("SET CATALOG spark_catalog", Code.CATALOG_NOT_FOUND),
    ],
)
async def test_what_is_not_there_cannot_be_used(world: World, sql: str, code: Code) -> None:
    await world.set(schema="sales")
    with pytest.raises(BailiwickError) as refused:
        await world.run(sql)
    assert refused.value.code is code
    assert world.settings.namespace == ("sales",)
