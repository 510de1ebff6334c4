"""DataFrames are governed as SQL is: the oracle's queries give the rows that Flight SQL gives."""

import json
from collections.abc import Sequence

import pytest
from oracle.queries import Generated, queries

from bailiwick.testing.leaks import Outcome, Secrets, ask
from bailiwick.testing.policy_house import House
from spark_connect.frame_form import NoFrameError, Steps
from spark_connect.governed import Asking, Count, difference
from spark_connect.statement_form import statement_frame

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

SEED = 20261116
SELECTED = 25
MANY = 300
WITH_ROWS_SHARE_MIN = 0.5
EXPRESSED_SHARE_MIN = 0.95


def test_the_oracles_queries_as_frames_give_the_rows_that_flight_sql_gives(
    house: House, asking: Asking, secrets: Secrets, count: Count
) -> None:
    _compared(house, asking, secrets, count, queries(SEED, SELECTED))


@pytest.mark.full
def test_many_more_of_the_oracles_queries_as_frames_give_the_rows_that_flight_sql_gives(
    house: House, asking: Asking, secrets: Secrets, count: Count
) -> None:
    _compared(house, asking, secrets, count, queries(SEED + 1, MANY))


def _compared(
    house: House, asking: Asking, secrets: Secrets, count: Count, made: Sequence[Generated]
) -> None:
    frames: dict[int, list[Steps]] = {}
    for query in made:
        try:
            frames[query.number] = [statement_frame(text) for text in _filled(house, query, "framed_")]
        except NoFrameError as error:
            count("the oracle as frames", f"have no frame: {error}")
    answers = asking(
        [
            {"id": number, "person": "ana", "schema": "house", "frames": steps}
            for number, steps in frames.items()
        ]
    )
    differing, with_rows = [], 0
    with house.connected("ana") as connection:
        for query in (query for query in made if query.number in frames):
            over_flight = _asked(connection, _filled(house, query, "made_"))
            because = difference(over_flight, answers[query.number], secrets)
            if because:
                told = "\n  ".join((*query.statements, json.dumps(frames[query.number])))
                differing.append(f"query {query.number} ({query.shape}): {because}\n  {told}")
            with_rows += bool(over_flight.rows)
            count("the oracle as frames", "differ" if because else _how(over_flight))
    assert not differing, f"{len(differing)} differ\n" + "\n".join(differing[:30])
    assert with_rows >= WITH_ROWS_SHARE_MIN * len(frames)
    assert len(frames) >= EXPRESSED_SHARE_MIN * len(made)


def _filled(house: House, query: Generated, own: str) -> list[str]:
    """Its statements, with tables of one's own under a name for each door."""
    return [house.filled_in(text, "house").replace(".made_", f".{own}") for text in query.statements]


def _asked(connection: object, statements: Sequence[str]) -> Outcome:
    for statement in statements:
        outcome = ask(connection, statement)
        if outcome.is_refused:
            break
    return outcome


def _how(over_flight: Outcome) -> str:
    if over_flight.is_refused:
        return "failed with the code of Flight SQL"
    return "gave the rows of Flight SQL" if over_flight.rows else "gave no rows, as over Flight SQL"
