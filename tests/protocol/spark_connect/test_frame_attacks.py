"""What only DataFrames can say shows nothing hidden either."""

import json

import pytest
from attacks.attempt import IMPROPER

from bailiwick.errors import Code
from bailiwick.testing.leaks import Secrets, ask
from bailiwick.testing.policy_house import House
from spark_connect.frame_attacks import ATTACKS, DENIED, LATER, VIEW_WHOSE_RULE_READS
from spark_connect.governed import Answers, Asking, Count, code_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def frame_answers(asking: Asking) -> Answers:
    return asking([{"id": name, "person": "ana", "schema": "house", "attack": name} for name in ATTACKS])


@pytest.mark.parametrize("name", ATTACKS, ids=lambda name: name.replace(" ", "-"))
def test_an_attack_by_a_frame_shows_nothing_hidden(
    frame_answers: Answers, secrets: Secrets, name: str, count: Count
) -> None:
    answer = frame_answers[name]
    assert not secrets.found_in(json.dumps(answer)), answer
    assert code_of(answer) not in IMPROPER, answer
    if name in DENIED:
        assert code_of(answer) in {Code.ACCESS_DENIED, Code.NOT_SUPPORTED}, answer
    code = code_of(answer)
    count("attacks by frames only", f"refused with {code}" if code else "gave permitted answers only")


def test_a_view_of_a_version_whose_rule_reads_a_table_is_refused_or_right(
    house: House, frame_answers: Answers
) -> None:
    """docs/decisions/0030: such a rule cannot be applied to what was loaded under another lease."""
    answer = frame_answers[VIEW_WHOSE_RULE_READS]
    with house.connected("ana") as connection:
        over_flight = ask(connection, f"SELECT id FROM orders TIMESTAMP AS OF '{LATER}'")
    assert over_flight.rows
    if "error" in answer:
        assert code_of(answer) is Code.ACCESS_DENIED, answer
        assert not any(word in json.dumps(answer) for word in ("vault", "entitled")), answer
    else:
        assert sorted(answer["value"]["list"]) == sorted(number for (number,) in over_flight.rows)
