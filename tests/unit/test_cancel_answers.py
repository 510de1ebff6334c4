"""CANCEL QUERY: what it is, and that it ends what one may end and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from query_house import ADMIN, ANN, ONE, RITA, House, Script, batch, eventually, house

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries.cancel_answers import parse
from bailiwick.queries.query import State
from bailiwick.queries.statement import Statement


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as home:
        yield home


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("CANCEL QUERY 'q1'", "q1"),
        (" cancel /* please */ query 'q''1' ; -- now", "q'1"),
        ("CANCEL", None),
        ("CANCEL THE QUERY", None),
        ("SELECT 'CANCEL QUERY'", None),
        ("", None),
    ],
)
def test_what_is_ours_is_told_from_what_is_not(sql: str, named: str | None) -> None:
    assert parse(sql) == named


@pytest.mark.parametrize("rest", ["", "q1", "'a' 'b'", "'a", "'a';;"])
def test_what_goes_wrong_is_a_syntax_error_of_ours(rest: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        parse(f"CANCEL QUERY {rest}")
    assert refused.value.code is Code.SYNTAX_ERROR


@pytest.mark.parametrize("who", [ANN, ADMIN, Principal("olga", frozenset({"operator"}))])
async def test_one_ends_what_one_may_end(home: House, who: Principal) -> None:
    home.engine.scripts["endless"] = Script([batch(ONE), asyncio.Event()])
    async with home.service.run(Statement("endless", ANN, "flight_sql")) as result:
        frames = result.frames()
        await anext(frames)
        assert (await home.ask(f"CANCEL QUERY '{result.query_id}'", who)).num_rows == 0
        with pytest.raises(BailiwickError, match=f"cancelled by {who.name}"):
            await anext(frames)
    await eventually(lambda: home.pool.leased == 0)
    assert (await home.ask(f"CANCEL QUERY '{result.query_id}'", who)).num_rows == 0


async def test_what_one_may_not_end_does_not_exist(home: House) -> None:
    home.engine.scripts["endless"] = Script([batch(ONE), asyncio.Event()])
    async with home.service.run(Statement("endless", ANN, "flight_sql")) as result:
        for who in (RITA, Principal("aude", frozenset({"auditor"}))):
            refused = await home.refusal(f"CANCEL QUERY '{result.query_id}'", who)
            missing = await home.refusal("CANCEL QUERY 'q1'", who)
            assert refused.message.replace(result.query_id, "q1") == missing.message
            assert refused.details == missing.details
        ended = [query.state for query in await home.service.visible() if query.id == result.query_id]
        assert ended == [State.RUNNING]
