"""`SHOW COMMIT` is known before Spark sees it, and tells what the catalog knows."""

from pathlib import Path

import pytest
from catalog_desk import ADMIN, ANN, BOB, Desk

from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.commit_answers import SCHEMA, CommitAnswers, parse
from bailiwick.queries.statement import Statement
from bailiwick.testing.iceberg import set_properties

KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


async def describe(_statement: Statement) -> Description:
    raise AssertionError("nobody asks Spark")


@pytest.mark.parametrize("sql", ["SELECT 1", "SHOW COMMITS", "SHOW TABLES", "", "COMMIT", "SHOW"])
def test_other_statements_are_for_others(sql: str) -> None:
    assert parse(sql) is None


@pytest.mark.parametrize("sql", ["show commit 'k'", "/* x */ SHOW -- y\n COMMIT 'k';"])
def test_it_is_written_like_the_other_statements_of_ours(sql: str) -> None:
    assert parse(sql) == "k"


@pytest.mark.parametrize(
    "sql", ["SHOW COMMIT", "SHOW COMMIT k", "SHOW COMMIT 'a' 'b'", f"SHOW COMMIT '{'x' * 2000}'"]
)
def test_mistakes_are_told(sql: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        parse(sql)
    assert refused.value.code is Code.SYNTAX_ERROR


async def test_it_tells_the_maker_and_not_others(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "warehouse")
    desk.commit(ADMIN, set_properties(a="b"), idempotency_key=KEY)
    answers = CommitAnswers(desk.service.idempotency)
    shown = []
    for who in (ADMIN, ANN, BOB):
        own = answers.answer(Statement(f"SHOW COMMIT '{KEY}'", who, "test"), describe)
        assert own is not None
        assert (own.kind, own.schema) == (Kind.SHOWS, SCHEMA)
        table = await own.perform()
        assert table.schema == SCHEMA
        shown.append((table["state"][0].as_py(), table["tables"][0].as_py()))
    assert shown == [("committed", ["db.t"]), ("unknown", None), ("unknown", None)]


async def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    answers = CommitAnswers(Desk(tmp_path / "warehouse").service.idempotency)
    own = answers.answer(Statement("SHOW COMMIT 'x'", ADMIN, "test"), describe)
    assert own is not None
    with pytest.raises(BailiwickError, match="UUID"):
        await own.perform()
