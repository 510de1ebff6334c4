"""Other engines get what is hidden in words of the standard, or they get nothing."""

from pathlib import Path
from typing import Any

import pytest
from catalog_desk import ANN, PLAIN, RESTRAINED, Desk, T

from bailiwick.catalog.filter_expressions import InexpressibleError, predicate
from bailiwick.catalog.refusals import ForbiddenError, NoSuchTableError
from bailiwick.catalog.wire import Json
from bailiwick.policy.decide import Column
from bailiwick.policy.model import BoundColumn, Grantee, Mask, Privilege, RowFilter, Securable
from bailiwick.policy.stamp import STAMP_CONFIG
from bailiwick.testing.iceberg import set_properties
from bailiwick.testing.manifests import append

COLUMNS = (
    Column(1, "id", type="long"),
    Column(2, "name", type="string"),
    Column(3, "day", type="date"),
    Column(4, "open", type="boolean"),
    Column(5, "price", type="double"),
    Column(6, "address.city", type="string"),
    Column(7, "Odd Name", type="int"),
)
ANNS = frozenset({Grantee.user("ann")})


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path / "warehouse")
    made.grant(ANN, "lake.db.t", Privilege.SELECT)
    return made


def on(desk: Desk) -> Securable:
    return Securable.table("lake", T, desk.service.find(T).uuid)


def filtered(desk: Desk, using: str, name: str = "f") -> None:
    desk.add(filters=[RowFilter(name, on(desk), ANNS, frozenset(), using, (BoundColumn("id", 1),))])


def masked(desk: Desk, column: BoundColumn, **how: Any) -> None:
    desk.add(masks=[Mask(f"m{column.name}", on(desk), column, None, ANNS, frozenset(), **how)])


def reference(id_: int) -> Json:
    return {"type": "reference", "id": id_}


def comparing(id_: int, kind: str, value: Any) -> Json:
    compared = {"type": kind, "left": reference(id_), "right": {"type": "literal", "value": value}}
    return {"type": "and", "left": {"type": "not-null", "child": reference(id_)}, "right": compared}


def test_what_nothing_is_hidden_of_goes_to_anybody_who_may_read_it(desk: Desk) -> None:
    for client in (PLAIN, RESTRAINED):
        loaded = desk.load(ANN, client=client)
        assert loaded["metadata"]["table-uuid"] == desk.service.find(T).uuid
        assert "read-restrictions" not in loaded
        assert STAMP_CONFIG not in loaded["config"]


def test_a_plain_client_never_gets_what_something_is_hidden_of(desk: Desk) -> None:
    filtered(desk, "id = 1")
    with pytest.raises(ForbiddenError, match="does not say that it honours read restrictions"):
        desk.load(ANN, client=PLAIN)


def test_a_client_that_honours_restrictions_is_told_them(desk: Desk) -> None:
    filtered(desk, "id = 1 OR name = current_user()")
    filtered(desk, "id < 100", "g")
    masked(desk, BoundColumn("name", 2), action="hash")
    told = desk.load(ANN, client=RESTRAINED)["read-restrictions"]
    assert told["required-column-projections"] == [{"action": "sha-256-global", "field-id": 2}]
    own = {"type": "or", "left": comparing(1, "eq", 1), "right": comparing(2, "eq", "ann")}
    assert told["required-row-filter"] == {"type": "and", "left": own, "right": comparing(1, "lt", 100)}


def test_an_action_that_does_not_fit_its_column_shows_nothing(desk: Desk) -> None:
    masked(desk, BoundColumn("id", 1), action="show_last_4")
    masked(desk, BoundColumn("gone", 77), action="hash")
    told = desk.load(ANN, client=RESTRAINED)["read-restrictions"]
    assert sorted(told["required-column-projections"], key=lambda item: item["field-id"]) == [
        {"action": "replace-with-null", "field-id": 1},
        {"action": "replace-with-null", "field-id": 77},
    ]


@pytest.mark.parametrize(
    "rule",
    [
        lambda desk: filtered(desk, "hash(id) = 1"),
        lambda desk: masked(desk, BoundColumn("name", 2), using="sha2(name, 256)"),
        lambda desk: masked(desk, BoundColumn("never", None), action="null"),
    ],
    ids=["filter", "mask", "column without an id"],
)
def test_a_rule_that_cannot_be_told_keeps_the_table_back(desk: Desk, rule: Any) -> None:
    rule(desk)
    with pytest.raises(ForbiddenError, match="only this gateway's own engines apply") as refused:
        desk.load(ANN, client=RESTRAINED)
    assert "hash" not in refused.value.message
    assert "sha2" not in refused.value.message


@pytest.mark.parametrize("client", [PLAIN, RESTRAINED])
def test_one_who_may_not_read_gets_no_metadata_either(desk: Desk, client: Any) -> None:
    desk.policies = type(desk.policies)(1)
    with pytest.raises(NoSuchTableError):
        desk.load(ANN, client=client)
    desk.grant(ANN, "lake.db.t", Privilege.INSERT, Privilege.ALTER)
    with pytest.raises(ForbiddenError, match="lacks select"):
        desk.load(ANN, client=client)
    # What they may do they may do, and learn that it is done.
    assert desk.commit(ANN, set_properties(a="b"), client=client).status == 200
    assert desk.commit(ANN, *append(desk.metadata(), 1), client=client).status == 200


@pytest.mark.parametrize(
    ("using", "expected"),
    [
        ("ID = 5", comparing(1, "eq", 5)),
        ("5 = id", comparing(1, "eq", 5)),
        ("5 < id", comparing(1, "gt", 5)),
        ("id <> -5", comparing(1, "not-eq", -5)),
        ("NOT id = 5", comparing(1, "not-eq", 5)),
        ("NOT (id < 5)", comparing(1, "gt-eq", 5)),
        ("name = 'EU'", comparing(2, "eq", "EU")),
        ('name == "EU"', comparing(2, "eq", "EU")),
        ("name LIKE 'E%'", comparing(2, "starts-with", "E")),
        ("name NOT LIKE 'E%'", comparing(2, "not-starts-with", "E")),
        ("day >= DATE '2026-01-31'", comparing(3, "gt-eq", "2026-01-31")),
        ("open = true", comparing(4, "eq", True)),
        ("address.city = 'x'", comparing(6, "eq", "x")),
        ("`Odd Name` > 1", comparing(7, "gt", 1)),
        ("name = current_user()", comparing(2, "eq", "ann")),
        ("id IS NULL", {"type": "is-null", "child": reference(1)}),
        ("NOT id IS NULL", {"type": "not-null", "child": reference(1)}),
        ("id IS NOT NULL", {"type": "not-null", "child": reference(1)}),
        ("true", True),
        ("NOT true", False),
        (
            "id = 1 AND (name = 'a')",
            {"type": "and", "left": comparing(1, "eq", 1), "right": comparing(2, "eq", "a")},
        ),
        (
            "NOT (id = 1 AND name = 'a')",
            {"type": "or", "left": comparing(1, "not-eq", 1), "right": comparing(2, "not-eq", "a")},
        ),
        (
            "id IN (1, 2)",
            {
                "type": "and",
                "left": {"type": "not-null", "child": reference(1)},
                "right": {"type": "in", "child": reference(1), "values": [1, 2]},
            },
        ),
    ],
)
def test_what_means_the_same_everywhere_is_translated(using: str, expected: Any) -> None:
    assert predicate(using, COLUMNS, "ann") == expected


@pytest.mark.parametrize(
    "using",
    [
        "",
        "id",
        "name",
        "id = name",
        "id = '5'",
        "name = 5",
        "name > 'a'",
        "price = 1",
        "price < 1.5",
        "id = 1.0",
        "id + 1 = 2",
        "upper(name) = 'X'",
        "name = 'it''s'",
        r"name = 'a\n'",
        "name = r'a'",
        "name LIKE '%a'",
        "name LIKE 'a_%'",
        "name LIKE '%'",
        "missing = 1",
        "id BETWEEN 1 AND 2",
        "id = 1 id = 2",
        "id = (SELECT 1)",
        "EXISTS (SELECT 1)",
        "id IN (SELECT id FROM t)",
        "id <=> 1",
        "id = 1 -- and so on",
        "id = 1 /* and so on */",
        "current_user() = 'ann'",
        "id = 99999999999999999999",
        "day = '2026-01-01'",
        "day = DATE '2026-02-30'",
        "(" * 60 + "id = 1" + ")" * 60,
        "id = 1 " + "OR id = 1 " * 2000,
        "id = NULL",
    ],
)
def test_whatever_else_is_not_handed_out(using: str) -> None:
    with pytest.raises(InexpressibleError):
        predicate(using, COLUMNS, "ann")
