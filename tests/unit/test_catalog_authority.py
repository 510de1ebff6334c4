"""What a principal sees and may do in the catalog is what was granted, and the rest is not there."""

from pathlib import Path
from typing import Any

import pytest
from catalog_desk import ADMIN, ANN, BOB, CREATE_VIEW, Desk, T, filtered, names, refusal

from bailiwick.catalog import canary, wire
from bailiwick.catalog.refusals import (
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
)
from bailiwick.catalog.routes import Route
from bailiwick.names import TableName
from bailiwick.policy.model import (
    TABLE_PRIVILEGES,
    BoundColumn,
    Grantee,
    Mask,
    Privilege,
    Securable,
)
from bailiwick.policy.stamp import STAMP_CONFIG, Stamp
from bailiwick.testing.iceberg import column, create_request, schema, set_properties


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "warehouse")


# --- what is not granted is not there


@pytest.mark.parametrize(
    ("route", "body"),
    [
        (Route.LOAD_TABLE, None),
        (Route.TABLE_EXISTS, None),
        (Route.COMMIT_TABLE, {"requirements": [], "updates": [set_properties(a="b")]}),
        (Route.DROP_TABLE, None),
        (Route.LOAD_VIEW, None),
        (Route.VIEW_EXISTS, None),
        (Route.DROP_VIEW, None),
        (Route.COMMIT_VIEW, {"updates": []}),
    ],
)
def test_what_one_holds_nothing_on_is_told_like_what_is_missing(desk: Desk, route: Route, body: Any) -> None:
    desk.ask(Route.CREATE_VIEW, ADMIN, body=CREATE_VIEW)
    hidden = "v" if "VIEW" in route.name else "t"
    kind, message = refusal(desk.ask, route, ANN, hidden, body)
    other_kind, other = refusal(desk.ask, route, ANN, "missing", body)
    assert kind is other_kind
    assert kind in (NoSuchTableError, NoSuchViewError)
    assert message.removesuffix(hidden) == other.removesuffix("missing")


def test_a_rename_of_what_is_hidden_or_into_what_is_hidden_finds_nothing(desk: Desk) -> None:
    desk.service.create_namespace(("other",))
    to_other = {
        "source": {"namespace": ["db"], "name": "t"},
        "destination": {"namespace": ["other"], "name": "t"},
    }
    assert refusal(desk.ask, Route.RENAME_TABLE, ANN, body=to_other)[0] is NoSuchTableError
    desk.grant(ANN, "lake.db.t", Privilege.DROP)
    assert refusal(desk.ask, Route.RENAME_TABLE, ANN, body=to_other) == (
        NoSuchNamespaceError,
        "Namespace does not exist: other",
    )


def test_lists_hold_what_is_seen(desk: Desk) -> None:
    desk.service.commits.create_table(TableName(("db",), "u"), create_request("u"))
    desk.service.create_namespace(("empty",))
    assert names(desk.ask(Route.LIST_NAMESPACES, ANN), "namespaces") == []
    assert refusal(desk.ask, Route.LIST_TABLES, ANN)[0] is NoSuchNamespaceError
    desk.grant(ANN, "lake.db.u", Privilege.INSERT)
    assert names(desk.ask(Route.LIST_NAMESPACES, ANN), "namespaces") == [["db"]]
    assert names(desk.ask(Route.LIST_TABLES, ANN)) == [{"namespace": ["db"], "name": "u"}]
    assert names(desk.ask(Route.LIST_TABLES, ADMIN)) == [
        {"namespace": ["db"], "name": "t"},
        {"namespace": ["db"], "name": "u"},
    ]


def test_a_name_without_its_table_grants_nothing_on_the_next_one(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    desk.service.drop(T)
    desk.service.commits.create_table(T, create_request("t"))
    assert refusal(desk.ask, Route.LOAD_TABLE, ANN)[0] is NoSuchTableError


# --- stamps


def test_a_load_carries_the_decision_for_this_lease(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    filtered(desk)
    stamp = desk.stamp(ANN)
    assert (stamp.lease, stamp.principal, stamp.table) == ("Lann", "ann", "lake.db.t")
    assert stamp.uuid == desk.service.find(T).uuid
    assert stamp.actions == {Privilege.SELECT}
    assert [(rule.name, rule.using, rule.columns) for rule in stamp.filters] == [
        ("some", "id = 1", (BoundColumn("id", 1),))
    ]
    assert stamp.prefixes == (f"{desk.metadata()['location']}/",)
    assert stamp.policy_version == desk.policies.version
    assert not stamp.for_policy
    assert desk.stamp(ADMIN).actions == TABLE_PRIVILEGES


def test_one_who_sees_a_table_without_reading_it_gets_a_stamp_that_says_so(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.INSERT)
    filtered(desk)
    stamp = desk.stamp(ANN)
    assert stamp.actions == {Privilege.INSERT}
    assert [rule.name for rule in stamp.filters] == ["some"]


def test_masks_know_every_name_that_a_column_had(desk: Desk) -> None:
    desk.commit(
        ADMIN,
        {"action": "add-schema", "schema": schema(column(1, "id"), column(2, "alias", "string"))},
        {"action": "set-current-schema", "schema-id": -1},
    )
    mask = Mask(
        "hide",
        Securable.table("lake", T),
        BoundColumn("name"),
        None,
        frozenset({Grantee.user("ann")}),
        frozenset(),
        using="'x'",
    )
    desk.add(masks=[mask])
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    (applied,) = desk.stamp(ANN).masks
    assert (applied.field_id, applied.names) == (2, frozenset({"name", "alias"}))


def test_without_a_key_there_is_no_stamp(desk: Desk) -> None:
    desk.calls = type(desk.calls)(desk.service)
    assert desk.load(ADMIN)["config"] == {}


def test_a_loaded_view_needs_select_and_carries_no_stamp(desk: Desk) -> None:
    desk.ask(Route.CREATE_VIEW, ADMIN, body=CREATE_VIEW)
    desk.grant(ANN, "lake.db.v", Privilege.DROP)
    assert desk.ask(Route.VIEW_EXISTS, ANN, "v").status == 204
    assert refusal(desk.ask, Route.LOAD_VIEW, ANN, "v") == (
        ForbiddenError,
        "user:ann lacks select on view lake.db.v.",
    )
    desk.grant(ANN, "lake.db.v", Privilege.SELECT)
    assert wire.parsed_object(desk.ask(Route.LOAD_VIEW, ANN, "v").body)["config"] == {}


# --- tables that rules read


def test_a_rule_reads_its_tables_by_its_own_right(desk: Desk) -> None:
    desk.service.commits.create_table(TableName(("db",), "people"), create_request("people"))
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    filtered(desk, tables=("lake.db.people",))
    sealed = desk.load(ANN)["config"][STAMP_CONFIG]
    assert refusal(desk.ask, Route.LOAD_TABLE, ANN, "people")[0] is NoSuchTableError
    stamp = desk.stamp(ANN, "people", policy_stamp=sealed)
    assert (stamp.for_policy, stamp.actions, stamp.lease) == (True, frozenset({Privilege.SELECT}), "Lann")
    assert desk.ask(Route.TABLE_EXISTS, ANN, "people", policy_stamp=sealed).status == 204


def test_a_rule_reads_nothing_else(desk: Desk) -> None:
    desk.service.commits.create_table(TableName(("db",), "secrets"), create_request("secrets"))
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    filtered(desk, tables=("lake.db.people",))
    sealed = desk.load(ANN)["config"][STAMP_CONFIG]
    for route in (Route.LOAD_TABLE, Route.TABLE_EXISTS, Route.LOAD_VIEW):
        with pytest.raises((NoSuchTableError, NoSuchViewError)):
            desk.ask(route, ANN, "secrets", policy_stamp=sealed)
    assert refusal(desk.ask, Route.LIST_TABLES, ANN, policy_stamp=sealed)[0] is ForbiddenError


def test_a_stamp_of_another_lease_another_principal_or_another_maker_opens_nothing(desk: Desk) -> None:
    desk.service.commits.create_table(TableName(("db",), "people"), create_request("people"))
    for who in (ANN, BOB):
        desk.grant(who, "lake.db.t", Privilege.SELECT)
        filtered(desk, who, tables=("lake.db.people",))
    sealed = desk.load(ANN)["config"][STAMP_CONFIG]
    own = desk.key.open(sealed)
    chained = desk.key.seal(
        Stamp(
            own.lease, "ann", own.table, own.uuid, own.expires_at, own.actions, own.filters, for_policy=True
        )
    )
    old = desk.key.seal(Stamp(own.lease, "ann", own.table, own.uuid, 1.0, own.actions, own.filters))
    for bad, more in (
        (sealed, {"lease": "Lother"}),
        (sealed[:-1] + ("0" if sealed[-1] != "0" else "1"), {}),
        ("nonsense", {}),
        (chained, {}),
        (old, {}),
    ):
        assert (
            refusal(desk.ask, Route.LOAD_TABLE, ANN, "people", policy_stamp=bad, **more)[0] is ForbiddenError
        )
    assert refusal(desk.ask, Route.LOAD_TABLE, BOB, "people", policy_stamp=sealed)[0] is ForbiddenError


def test_the_canary_has_a_table_of_its_own_without_a_stamp(desk: Desk) -> None:
    where = {"namespace": canary.TABLE.namespace}
    loaded = desk.load(canary.PRINCIPAL, canary.TABLE.name, **where)
    assert loaded["config"] == {}
    assert loaded["metadata"]["schemas"][0]["fields"][0]["name"] == "sings"
    assert desk.ask(Route.TABLE_EXISTS, canary.PRINCIPAL, canary.TABLE.name, **where).status == 204
    for who in (ADMIN, ANN):
        assert refusal(desk.ask, Route.LOAD_TABLE, who, canary.TABLE.name, **where)[0] is NoSuchTableError
    assert refusal(desk.ask, Route.LOAD_TABLE, canary.PRINCIPAL)[0] is NoSuchTableError
