"""EXPLAIN POLICY puts together what Spark says of a statement and what policy says of its tables."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from policy_desk import ADMIN, ANN, AUDITOR, BOB, Desk, opened_desk

from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries.own import Own
from bailiwick.queries.policy_answers import PolicyAnswers
from bailiwick.queries.statement import Statement

ORDERS, PEOPLE, TOTALS = "lake.sales.orders", "lake.crm.people", "lake.sales.totals"


@dataclass
class Asking:
    """The desk, with a Spark that says of each statement what the test says."""

    desk: Desk
    description: Description = field(default_factory=lambda: Description(Kind.READ, "Project"))
    asked: list[Statement] = field(default_factory=list)

    def answer(self, sql: str, principal: Principal) -> Own | None:
        people = {each.name: each for each in (ADMIN, ANN, AUDITOR, BOB)}
        answers = PolicyAnswers(self.desk.administration, self.desk.catalog, people.get)
        return answers.answer(Statement(sql, principal, "test", namespace=("sales",)), self._describe)

    async def explain(
        self,
        principal: Principal,
        *,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        command: str = "Project",
        as_user: str | None = None,
    ) -> list[tuple[object, ...]]:
        self.description = Description(Kind.READ, command, tuple(reads), tuple(writes))
        own = self.answer("EXPLAIN POLICY SELECT 1" + (f" AS USER {as_user}" if as_user else ""), principal)
        assert own is not None
        rows = (await own.perform()).to_pylist()
        return [(row["object"], row["action"], row["kind"], row["rule"]) for row in rows]

    async def _describe(self, statement: Statement) -> Description:
        self.asked.append(statement)
        return self.description


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[Asking]:
    async with opened_desk(tmp_path) as desk:
        await desk.run("CREATE ROLE analyst")
        await desk.run("GRANT SELECT, INSERT, DELETE ON TABLE orders TO ROLE analyst")
        await desk.run("GRANT SELECT ON VIEW totals TO ROLE analyst")
        await desk.run("CREATE ROW FILTER eu_only ON TABLE orders FOR ROLE analyst USING (region = 'EU')")
        yield Asking(desk)


async def test_each_table_that_is_read_is_explained(asking: Asking) -> None:
    assert await asking.explain(ANN, reads=[ORDERS, TOTALS]) == [
        (ORDERS, "select", "grant", None),
        (ORDERS, "select", "row_filter", "eu_only"),
        (TOTALS, "select", "grant", None),
    ]


@pytest.mark.parametrize(
    ("command", "writes", "expected"),
    [
        (
            "InsertIntoStatement",
            [ORDERS],
            [(ORDERS, "insert", "grant", None), (ORDERS, "insert", "row_filter", "eu_only")],
        ),
        ("DeleteFromTable", [ORDERS], [(ORDERS, "delete", "refusal", None)]),
        ("UpdateTable", [ORDERS], [(ORDERS, "update", "refusal", None)]),
        ("AddColumns", [ORDERS], [(ORDERS, "alter", "refusal", None)]),
        ("CreateTable", ["lake.sales.x"], [("lake.sales", "create", "refusal", None)]),
        (
            "RenameTable",
            [ORDERS, "lake.sales.x"],
            [(ORDERS, "drop", "refusal", None), ("lake.sales", "create", "refusal", None)],
        ),
    ],
)
async def test_what_a_change_needs_is_explained(
    asking: Asking, command: str, writes: list[str], expected: list[tuple[object, ...]]
) -> None:
    assert await asking.explain(ANN, command=command, writes=writes) == expected


async def test_an_admin_is_refused_nothing(asking: Asking) -> None:
    for command in ("DeleteFromTable", "MergeIntoTable", "DropTable", "TruncateTable"):
        told = await asking.explain(ADMIN, command=command, writes=[ORDERS])
        assert [line[2] for line in told] == ["grant"]


async def test_metadata_of_a_restricted_table_is_refused_and_of_others_goes_by_the_table(
    asking: Asking,
) -> None:
    snapshots = f"{ORDERS}.snapshots"
    assert await asking.explain(ANN, reads=[snapshots]) == [(snapshots, "select", "refusal", None)]
    assert await asking.explain(ADMIN, reads=[snapshots]) == [(snapshots, "select", "grant", None)]


async def test_hidden_and_missing_tables_are_told_of_alike(asking: Asking) -> None:
    for name in (PEOPLE, "lake.crm.nobody"):
        assert await asking.explain(BOB, reads=[name]) == [(name, "select", "refusal", None)]


async def test_who_may_read_policy_asks_for_others_with_eyes_that_see_all_tables(asking: Asking) -> None:
    own = await asking.explain(ANN, reads=[ORDERS])
    assert asking.asked[-1].principal == ANN
    assert await asking.explain(AUDITOR, reads=[ORDERS], as_user="ann") == own
    assert asking.asked[-1].principal.is_admin
    assert asking.asked[-1].sql.strip() == "SELECT 1"
    with pytest.raises(BailiwickError, match="nobody"):
        await asking.explain(AUDITOR, reads=[ORDERS], as_user="nobody")
    with pytest.raises(BailiwickError) as refused:
        await asking.explain(BOB, reads=[ORDERS], as_user="ann")
    assert refused.value.code is Code.ACCESS_DENIED


async def test_trying_a_file_is_no_change(asking: Asking) -> None:
    kinds = {
        sql: asking.answer(sql, ADMIN) for sql in ("APPLY POLICY ''", "APPLY POLICY '' DRY RUN", "SHOW ROLES")
    }
    assert [own and own.kind for own in kinds.values()] == [Kind.CHANGE, Kind.SHOWS, Kind.SHOWS]
    assert asking.answer("SELECT 1", ADMIN) is None
