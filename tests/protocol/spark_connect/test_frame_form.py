"""What a text of the corpora means as a DataFrame. No engine is asked."""

import re
from collections import Counter

import pytest
from oracle.queries import queries

from spark_connect.frame_form import NoFrameError, frame_of
from spark_connect.statement_form import statement_frame

SEED = 20261116
PEOPLE = ["table", "people", {}]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("TABLE people", [PEOPLE]),
        ("SELECT * FROM people WHERE id < 5", [PEOPLE, ["where", "id < 5"], ["select", ["*"]]]),
        (
            "SELECT DISTINCT a, right(b, 2) AS c FROM people p WHERE a IS DISTINCT FROM b",
            [
                *(PEOPLE, ["alias", "p"], ["where", "a IS DISTINCT FROM b"]),
                *(["select", ["a", "right(b, 2) AS c"]], ["distinct"]),
            ],
        ),
        (
            "SELECT 1 FROM people VERSION AS OF 12 a LEFT JOIN people b ON a.id = b.id",
            [
                *(["table", "people", {"versionAsOf": "12"}], ["alias", "a"]),
                *(["join", [PEOPLE, ["alias", "b"]], "a.id = b.id", "left"], ["select", ["1"]]),
            ],
        ),
        (
            "SELECT a AS c0, count(*) AS c1 FROM people GROUP BY ROLLUP (1) HAVING count(*) > 1",
            [PEOPLE, ["group", "rollup", [0], None, ["a", "count(*)"], "count(*) > 1"]],
        ),
        (
            "WITH w AS (TABLE people) (TABLE w) UNION (TABLE people) ORDER BY 1 DESC LIMIT 2 OFFSET 1",
            [
                *(["with", "w", [PEOPLE]], ["table", "w", {}], ["set", "union", [PEOPLE]], ["distinct"]),
                *(["order", [["1", "desc"]]], ["offset", 1], ["limit", 2]),
            ],
        ),
        (
            "FROM people |> WHERE a > 1 |> AGGREGATE max(b) AS c1 GROUP BY a AS c0 |> DROP c1",
            [
                *(PEOPLE, ["where", "a > 1"]),
                *(["group", "groupBy", [0], None, ["a", "max(b)"], None], ["drop", ["c1"]]),
            ],
        ),
    ],
)
def test_a_text_means_these_calls(text: str, steps: object) -> None:
    assert frame_of(text) == steps


def test_a_merge_means_these_calls() -> None:
    text = "MERGE INTO t USING people s ON t.id = s.id WHEN MATCHED AND s.a THEN UPDATE SET t.b = s.b"
    change = ["whenMatched", "s.a", "update", {"b": " s.b"}]
    assert statement_frame(text) == [PEOPLE, ["alias", "s"], ["merge", "t", "t", "t.id = s.id", [change]]]


@pytest.mark.parametrize(
    "text",
    ["SHOW TABLES", "SELECT * FROM explode(TABLE(people))", "SELECT 1 LIMIT (SELECT 1)", "DELETE FROM t"],
)
def test_what_no_frame_can_say_is_told(text: str) -> None:
    with pytest.raises(NoFrameError, match="SQL only"):
        statement_frame(text)


def test_nearly_every_query_of_the_oracle_has_a_frame() -> None:
    reasons: Counter[str] = Counter()
    made = queries(SEED, 400)
    for query in made:
        try:
            for text in query.statements:
                statement_frame(re.sub(r"\{\w+\}", "1", text).replace("1.", "own."))
        except NoFrameError as error:
            reasons[str(error)] += 1
    assert reasons.keys() <= {"UPDATE is said by SQL only", "DELETE is said by SQL only"}
    assert reasons.total() < 0.05 * len(made)
