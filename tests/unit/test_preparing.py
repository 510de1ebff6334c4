"""Preparing changes nothing: so an engine may be asked again, and an answer holds for the same values."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from query_house import ANN, LAKE, House, house

from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import EngineLost
from bailiwick.engines.parameters import ParameterValue, Row
from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.descriptions import PARAMETER_BYTES_MAX, Descriptions, Key
from bailiwick.queries.statement import Statement

READ = Description(Kind.READ, "Project", catalogs=LAKE)


@pytest_asyncio.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as made:
        yield made


def statement(sql: str = "SELECT ?", parameters: Row = ()) -> Statement:
    return Statement(sql, ANN, "flight_sql", parameters)


def row(*values: object) -> Row:
    return tuple(ParameterValue.of(value) for value in values)


async def test_a_question_that_met_a_dying_engine_is_put_once_more(home: House) -> None:
    home.engine.dying = 1
    assert (await home.service.prepare(statement())).kind is Kind.READ
    assert home.engine.described == ["SELECT ?", "SELECT ?"]
    assert [lease.spoiled for lease in home.pool.leases] == ["engine lost", None]


async def test_an_engine_that_dies_twice_is_told_of(home: House) -> None:
    home.engine.dying = 5
    with pytest.raises(BailiwickError):
        await home.service.prepare(statement())
    assert home.engine.described == ["SELECT ?", "SELECT ?"]


async def test_a_statement_that_makes_no_sense_is_not_asked_again(home: House) -> None:
    home.engine.script("nonsense").description = BailiwickError(Code.SYNTAX_ERROR, "What?")
    with pytest.raises(BailiwickError):
        await home.service.prepare(statement("nonsense"))
    assert home.engine.described == ["nonsense"]


async def test_a_run_that_met_a_dying_engine_is_not_repeated(home: House) -> None:
    home.engine.script("insert").events = [EngineLost("gone")]
    with pytest.raises(BailiwickError):
        await home.ask("insert")
    assert len(home.engine.executed) == 1


def test_what_was_said_holds_for_the_same_values_only() -> None:
    kept = Descriptions()
    kept.keep(Key.of(statement(parameters=row(5)), 1, 1), READ)
    assert kept.find(Key.of(statement(parameters=row(5)), 1, 1)) is READ
    for other in ((), row(6), row("5"), row(5.0), row(None), row(5, 5)):
        assert kept.find(Key.of(statement(parameters=other), 1, 1)) is None


def test_what_was_said_for_large_values_is_not_kept() -> None:
    kept = Descriptions()
    kept.keep(Key.of(statement(parameters=row("x" * PARAMETER_BYTES_MAX)), 1, 1), READ)
    assert len(kept) == 0


def test_what_was_said_holds_in_the_same_locale_only() -> None:
    kept = Descriptions()
    kept.keep(Key.of(statement(), 1, 1), READ)
    tokyo = Statement("SELECT ?", ANN, "flight_sql", time_zone="Asia/Tokyo")
    quoting = Statement("SELECT ?", ANN, "flight_sql", double_quoted_identifiers=True)
    assert kept.find(Key.of(tokyo, 1, 1)) is None
    assert kept.find(Key.of(quoting, 1, 1)) is None
