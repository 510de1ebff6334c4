"""The attempts of Flight SQL over Spark Connect: as DataFrames where there is such a form."""

import importlib
import random
from collections.abc import Sequence
from typing import Any

import pytest
from attacks.attempt import Attempt

from bailiwick.testing.leaks import Secrets, ask
from bailiwick.testing.policy_house import House
from spark_connect.frame_form import NoFrameError
from spark_connect.governed import Answers, Asking, Count, difference, misjudged
from spark_connect.statement_form import statement_frame

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

SEED = 20261116
SELECTED = 50
COMPARED = frozenset(
    {"subqueries", "leaky_predicates", "time_travel", "metadata_tables", "functions", "names", "errors"}
)
"""Families that leave nothing behind, so that they can be asked over both doors."""
JUDGED = frozenset({"explain", "writes", "definitions", "commands", "user_code", "parameters", "views"})
"""Those of which what comes over Spark Connect is judged alone."""
OF_OTHER_TESTS = ("loophole", "half", "raw_people", ".who", " who", "desk.mine", "desk.explained", "desk.own")
"""What only the families' own tests have made."""
OTHERWISE = {
    "a temporary view": "a session of one's own has views",
    "a temporary view named like a table": "a session of one's own has views",
    "state: CREATE TEMPORARY VIEW people AS SELECT 1": "a session of one's own has views",
    "setting: SET spark.sql.catalog.lake.token": "a setting that may not be known is told as missing",
    "hidden table in an unused CTE": "a frame that nothing mentions is no part of a plan",
}
"""What Flight SQL refuses and Spark Connect ends otherwise, and why; tested as attacks by frames."""
VARYING = (
    "approx_", "histogram_numeric", "sketch", "collect_", "array_agg", "listagg", "string_agg",
    "first", "last", "any_value", "mode(", "max_by", "min_by", "rand", "uuid", "shuffle", "current_",
    "tablesample",
)  # fmt: skip
"""Whose answers depend on the order of rows, or on the moment: judged over each door, not compared."""
Asked = tuple[str, Attempt]


def corpus() -> list[Asked]:
    found = []
    for family in sorted(COMPARED | JUDGED):
        module = importlib.import_module(f"attacks.test_attack_{family}")
        listed = [value for value in vars(module).values() if isinstance(value, tuple)]
        found += [(family, each) for values in listed for each in values if isinstance(each, Attempt)]
    return [asked for asked in dict.fromkeys(found) if not _is_of_another(asked[1])]


def _is_of_another(attempt: Attempt) -> bool:
    text = " ".join(attempt.statements)
    return attempt.what in OTHERWISE or any(name in text for name in OF_OTHER_TESTS)


def test_attempts_over_flight_sql_end_as_frames_as_they_should(
    house: House, asking: Asking, secrets: Secrets, count: Count
) -> None:
    _attempted(house, asking, secrets, count, random.Random(SEED).sample(corpus(), SELECTED))


@pytest.mark.full
def test_all_attempts_over_flight_sql_end_as_frames_as_they_should(
    house: House, asking: Asking, secrets: Secrets, count: Count
) -> None:
    _attempted(house, asking, secrets, count, corpus())


def _attempted(
    house: House, asking: Asking, secrets: Secrets, count: Count, attempts: Sequence[Asked]
) -> None:
    questions = [_question(house, place, *asked, count) for place, asked in enumerate(attempts)]
    answers = asking(questions)
    wrong = []
    for place, (family, attempt) in enumerate(attempts):
        because = misjudged(attempt, answers[place], secrets)
        if because is None and family in COMPARED and not _varies(attempt):
            because = _compared(house, attempt, answers, place, secrets)
        if because:
            told = questions[place].get("frames") or questions[place].get("statements")
            wrong.append(f"{family}, {attempt.what}: {because}\n  {attempt.statements}\n  {told}")
    assert not wrong, f"{len(wrong)} of {len(attempts)}\n" + "\n".join(wrong[:40])


def _varies(attempt: Attempt) -> bool:
    return any(name in text.lower() for text in attempt.statements for name in VARYING)


def _compared(house: House, attempt: Attempt, answers: Answers, place: int, secrets: Secrets) -> str | None:
    if attempt.rows is not None:
        return None  # It gave exactly these, as it does over Flight SQL.
    with house.connected(attempt.person, attempt.schema) as connection:
        for text in attempt.statements:
            over_flight = ask(connection, house.filled_in(text, "house"))
    if over_flight.is_refused and "error" in answers[place]:
        return None  # Each says why in its own words: what is no column here is no relation there.
    return difference(over_flight, answers[place], secrets)


def _question(house: House, place: int, family: str, attempt: Attempt, count: Count) -> dict[str, Any]:
    # Tables of one's own have a name for each door.
    statements = [
        house.filled_in(text, "house").replace("lake.desk.", "lake.desk.by_frames_")
        for text in attempt.statements
    ]
    asked: dict[str, Any] = {
        "id": place,
        "person": attempt.person,
        "schema": None if attempt.person == "nils" else attempt.schema,
    }
    if attempt.parameters is not None:
        count("attempts of Flight SQL", "made as SQL: parameters")
        return {**asked, "statements": statements, "parameters": attempt.parameters}
    try:
        frames = [statement_frame(text) for text in statements]
    except NoFrameError as error:
        count("attempts of Flight SQL", f"made as SQL: {error}")
        return {**asked, "statements": statements}
    count("attempts of Flight SQL", "made as frames")
    return {**asked, "frames": frames}
