"""Deadlines and placements by role: what people write, whom it holds for, and that queries end by it."""

import asyncio
from pathlib import Path

import pytest
from query_house import ANN, ONE, RITA, Script, batch, house

from bailiwick.config import ConfigError, load
from bailiwick.engines.engine import Completed
from bailiwick.errors import Code
from bailiwick.fleet.placement import Placement
from bailiwick.identity.principal import Principal
from bailiwick.queries.allowance import Allowance, allowance, placement
from bailiwick.queries.config import LimitsConfig
from bailiwick.queries.statement import Statement

TABLE = """
[limits]
timeout_s = 300
timeout_max_s = 3600

[limits.roles.analyst]
timeout_s = 60
timeout_max_s = 600
placement = "prefer"

[limits.roles.etl]
timeout_s = 1800
timeout_max_s = 14400
placement = "require"

[limits.roles."night shift"]
timeout_max_s = 7200
"""


def written(directory: Path, text: str) -> Path:
    file = directory / "bailiwick.toml"
    file.write_text(text)
    return file


@pytest.fixture
def limits(tmp_path: Path) -> LimitsConfig:
    return load(written(tmp_path, TABLE), {}).limits


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ((), Allowance(300.0, 3600.0)),
        (("reader", "writer"), Allowance(300.0, 3600.0)),
        (("analyst",), Allowance(60.0, 600.0)),
        (("reader", "analyst"), Allowance(60.0, 600.0)),
        (("analyst", "etl"), Allowance(1800.0, 14400.0)),
        (("analyst", "night shift"), Allowance(60.0, 7200.0)),
        (("night shift",), Allowance(300.0, 7200.0)),
    ],
)
def test_the_most_generous_of_the_roles_that_say_something_holds(
    limits: LimitsConfig, roles: tuple[str, ...], expected: Allowance
) -> None:
    assert allowance(limits, roles) == expected


@pytest.mark.parametrize(
    ("wanted_s", "deadline_s"), [(None, 60.0), (10.0, 10.0), (600.0, 600.0), (601.0, 600.0)]
)
def test_a_longer_deadline_than_the_cap_is_cut(
    limits: LimitsConfig, wanted_s: float | None, deadline_s: float
) -> None:
    assert allowance(limits, {"analyst"}).deadline_s(wanted_s) == deadline_s


@pytest.mark.parametrize(
    ("roles", "asked", "server", "expected"),
    [
        ((), None, None, Placement.REQUIRE),
        ((), None, Placement.LOCAL, Placement.LOCAL),
        (("analyst",), None, Placement.LOCAL, Placement.PREFER),
        (("analyst", "etl"), None, Placement.LOCAL, Placement.REQUIRE),
        (("night shift",), None, Placement.LOCAL, Placement.LOCAL),
        (("analyst", "etl"), Placement.LOCAL, None, Placement.LOCAL),
    ],
)
def test_a_querys_own_word_comes_before_its_roles_and_theirs_before_the_servers(
    limits: LimitsConfig,
    roles: tuple[str, ...],
    asked: Placement | None,
    server: Placement | None,
    expected: Placement,
) -> None:
    statement = Statement("SELECT 1", Principal("ann", frozenset(roles)), "flight_sql", placement=asked)
    assert placement(limits, statement, server=server, has_remote_configured=True) is expected


def test_the_environment_gives_the_table_as_json(tmp_path: Path) -> None:
    variable = {"BAILIWICK__LIMITS__ROLES": '{"analyst": {"timeout_s": 5}}'}
    limits = load(written(tmp_path, TABLE), variable).limits
    assert allowance(limits, {"analyst"}) == Allowance(5.0, 3600.0)
    assert allowance(limits, {"etl"}) == Allowance(300.0, 3600.0)
    assert load(written(tmp_path, TABLE), {"BAILIWICK__LIMITS__ROLES": ""}).limits.roles == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[limits.roles.analyst]\ntimeout = 5\n", "[limits] roles.analyst.timeout: extra inputs"),
        (
            "[limits.roles.analyst]\ntimeout_s = 0\n",
            "[limits] roles.analyst.timeout_s: input should be",
        ),
        ('[limits.roles.analyst]\nplacement = "anywhere"\n', "'require', 'prefer' or 'local'"),
        ("[limits.roles]\nanalyst = 60\n", "limits"),
        ("[limits.roles.a]\ntimeout_s = 9\ntimeout_max_s = 8\n", "limits.roles.a.timeout_s"),
        ("[limits.roles.a]\ntimeout_s = 3601\n", "limits.roles.a.timeout_s"),
        ("[limits.roles.a]\ntimeout_max_s = 90000\n", "limits.idempotency_s"),
        ("[limits]\nidempotency_s = 60\n", "limits.idempotency_s"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text), {})
    (problem,) = caught.value.problems
    assert told in problem


def test_what_is_no_json_in_the_environment_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is given as JSON"):
        load(None, {"BAILIWICK__LIMITS__ROLES": "analyst=60"})


async def test_a_query_ends_by_its_roles_deadline(tmp_path: Path) -> None:
    limits = LimitsConfig.model_validate({"roles": {"reader": {"timeout_s": 0.05, "timeout_max_s": 0.1}}})
    async with house(tmp_path, limits) as home:
        home.engine.scripts["slow"] = Script([batch(ONE), asyncio.Event(), Completed()])
        error = await home.refusal("slow", RITA)
        assert (error.code, error.message) == (Code.QUERY_TIMEOUT, "The query timed out after 0.05s.")
        error = await home.refusal("slow", RITA, timeout_s=50.0)
        assert error.message == "The query timed out after 0.1s."
        assert (await home.refusal("slow", ANN, timeout_s=0.2)).message == "The query timed out after 0.2s."
