"""A change of the catalog needs the privilege for what it really does, and a refusal says which."""

from pathlib import Path
from typing import Any

import pytest
from catalog_desk import ADMIN, ANN, BOB, CREATE_VIEW, Desk, Owners, T, filtered, refusal

from bailiwick.catalog import wire
from bailiwick.catalog.call import Answer
from bailiwick.catalog.calls import Calls
from bailiwick.catalog.refusals import (
    CommitFailedError,
    ForbiddenError,
    NoSuchTableError,
)
from bailiwick.catalog.routes import Route
from bailiwick.catalog.wire import Json
from bailiwick.names import TableName
from bailiwick.policy.model import (
    ALL_PRIVILEGES,
    TABLE_PRIVILEGES,
    BoundColumn,
    ColumnTags,
    Grantee,
    Mask,
    Privilege,
    Securable,
)
from bailiwick.policy.stamp import STAMP_CONFIG
from bailiwick.testing.iceberg import column, create_request, schema, set_properties, staged_updates
from bailiwick.testing.manifests import append, change, current_manifests


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "warehouse")


# --- changes


@pytest.mark.parametrize(
    ("update", "lacking"),
    [
        (set_properties(a="b"), "alter"),
        ({"action": "remove-properties", "removals": ["a"]}, "alter"),
        ({"action": "upgrade-format-version", "format-version": 3}, "alter"),
        (
            {
                "action": "add-schema",
                "schema": schema(column(1, "id"), column(2, "name", "string"), column(3, "x")),
            },
            "alter",
        ),
        ({"action": "add-spec", "spec": {"fields": []}}, "alter"),
        ({"action": "add-sort-order", "sort-order": {"fields": []}}, "alter"),
        ({"action": "remove-snapshots", "snapshot-ids": []}, "delete"),
        ({"action": "remove-snapshot-ref", "ref-name": "main"}, "delete"),
    ],
)
def test_each_update_needs_its_privilege_and_the_refusal_names_it(
    desk: Desk, update: Any, lacking: str
) -> None:
    others = TABLE_PRIVILEGES - {Privilege(lacking), Privilege.OWN}
    desk.grant(ANN, "lake.db.t", *others)
    assert refusal(desk.commit, ANN, update) == (
        ForbiddenError,
        f"user:ann lacks {lacking} on table lake.db.t.",
    )
    desk.grant(ANN, "lake.db.t", Privilege(lacking))
    assert desk.commit(ANN, update).status == 200


def test_an_empty_commit_needs_some_right_to_change(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    assert refusal(desk.commit, ANN)[0] is ForbiddenError


def test_a_transaction_needs_what_each_of_its_parts_needs(desk: Desk) -> None:
    desk.service.commits.create_table(TableName(("db",), "u"), create_request("u"))
    desk.grant(ANN, "lake.db.t", Privilege.ALTER)

    def altered(name: str) -> Any:
        identifier = {"namespace": ["db"], "name": name}
        return {"identifier": identifier, "requirements": [], "updates": [set_properties(a="b")]}

    both = {"table-changes": [altered("t"), altered("u")]}
    assert refusal(desk.ask, Route.COMMIT_TRANSACTION, ANN, body=both)[0] is NoSuchTableError
    desk.grant(ANN, "lake.db.u", Privilege.SELECT)
    assert refusal(desk.ask, Route.COMMIT_TRANSACTION, ANN, body=both)[1].endswith("on table lake.db.u.")
    assert "a" not in desk.metadata()["properties"]


def test_a_namespace_is_made_changed_and_dropped_by_privilege(desk: Desk) -> None:
    body = {"namespace": ["mine"]}
    assert refusal(desk.ask, Route.CREATE_NAMESPACE, ANN, body=body) == (
        ForbiddenError,
        "user:ann lacks create on catalog lake.",
    )
    desk.grant(ANN, "lake", Privilege.CREATE)
    desk.ask(Route.CREATE_NAMESPACE, ANN, body=body)
    assert desk.owners.told == [("created", "namespace", ("mine",), False, "ann")]
    # By another lease, where policies say nothing of the owner, only what was granted counts.
    update = {"updates": {"a": "b"}}
    later = {"namespace": ("mine",), "lease": "Lann2"}
    assert refusal(desk.ask, Route.UPDATE_NAMESPACE, ANN, body=update, **later)[1] == (
        "user:ann lacks alter on namespace lake.mine."
    )
    assert refusal(desk.ask, Route.DROP_NAMESPACE, ANN, **later)[1] == (
        "user:ann lacks drop on namespace lake.mine."
    )
    # By the lease that made it, all.
    assert desk.ask(Route.DROP_NAMESPACE, ANN, namespace=("mine",)).status == 204
    assert desk.owners.told[-1] == ("dropped", "namespace", ("mine",))


def test_the_maker_of_a_table_may_use_it_at_once(desk: Desk) -> None:
    desk.grant(ANN, "lake.db", Privilege.CREATE)
    made = wire.parsed_object(desk.ask(Route.CREATE_TABLE, ANN, body=create_request("mine")).body)
    assert desk.key.open(made["config"][STAMP_CONFIG]).actions == TABLE_PRIVILEGES
    assert desk.owners.told == [("created", "table", TableName(("db",), "mine"), True, "ann")]
    assert desk.stamp(ANN, "mine").actions == TABLE_PRIVILEGES
    assert refusal(desk.load, ANN, "mine", lease="Lann2")[0] is NoSuchTableError
    assert refusal(desk.load, BOB, "mine")[0] is NoSuchTableError


def test_a_staged_table_is_stamped_for_the_one_who_makes_it(desk: Desk) -> None:
    desk.grant(ANN, "lake.db", Privilege.CREATE)
    staged = wire.parsed_object(
        desk.ask(Route.CREATE_TABLE, ANN, body=create_request("mine") | {"stage-create": True}).body
    )
    stamp = desk.key.open(staged["config"][STAMP_CONFIG])
    assert (stamp.uuid, stamp.actions) == (staged["metadata"]["table-uuid"], TABLE_PRIVILEGES)
    updates = [*staged_updates(staged["metadata"]), *append(staged["metadata"], 1)]
    create = [{"type": "assert-create"}]
    made = desk.commit(ANN, *updates, name="mine", requirements=create)
    assert desk.key.open(wire.parsed_object(made.body)["config"][STAMP_CONFIG]).uuid == stamp.uuid
    assert desk.owners.told == [("created", "table", TableName(("db",), "mine"), True, "ann")]


def test_to_make_something_one_needs_create_on_the_namespace(desk: Desk) -> None:
    desk.grant(ANN, "lake.db", *(ALL_PRIVILEGES - {Privilege.CREATE, Privilege.OWN}))
    staged = create_request("mine") | {"stage-create": True}
    for route, body in (
        (Route.CREATE_TABLE, create_request("mine")),
        (Route.CREATE_TABLE, staged),
        (Route.CREATE_VIEW, CREATE_VIEW),
    ):
        assert refusal(desk.ask, route, ANN, body=body) == (
            ForbiddenError,
            "user:ann lacks create on namespace lake.db.",
        )
    assert (
        refusal(desk.commit, ANN, name="mine", requirements=[{"type": "assert-create"}])[0] is ForbiddenError
    )


def test_a_rename_needs_drop_here_and_create_there(desk: Desk) -> None:
    desk.service.create_namespace(("other",))
    body = {
        "source": {"namespace": ["db"], "name": "t"},
        "destination": {"namespace": ["other"], "name": "t"},
    }
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    desk.grant(ANN, "lake.other", Privilege.SELECT)

    def ask() -> Answer:
        return desk.ask(Route.RENAME_TABLE, ANN, body=body)

    assert refusal(ask)[1] == "user:ann lacks drop on table lake.db.t."
    desk.grant(ANN, "lake.db.t", Privilege.DROP)
    assert refusal(ask)[1] == "user:ann lacks create on namespace lake.other."
    desk.grant(ANN, "lake.other", Privilege.CREATE)
    assert ask().status == 204
    assert desk.owners.told == [("renamed", "table", T, TableName(("other",), "t"))]


def test_a_drop_needs_drop(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", *(TABLE_PRIVILEGES - {Privilege.DROP, Privilege.OWN}))
    assert refusal(desk.ask, Route.DROP_TABLE, ANN)[1] == "user:ann lacks drop on table lake.db.t."
    desk.grant(ANN, "lake.db.t", Privilege.DROP)
    desk.ask(Route.DROP_TABLE, ANN)
    assert desk.owners.told == [("dropped", "table", T)]


def test_what_was_judged_is_what_is_dropped(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.DROP)

    def replaced_meanwhile() -> None:
        desk.backend.apply([])

    uuid = desk.service.find(T).uuid
    fence = desk.calls._changes._fence(desk.call(Route.DROP_TABLE, ANN, fence=replaced_meanwhile), "another")
    with pytest.raises(CommitFailedError):
        desk.service.drop(T, fence=fence)
    assert desk.service.find(T).uuid == uuid


def test_only_an_administrator_registers_and_nothing_is_told_to_others(desk: Desk) -> None:
    desk.grant(ANN, "lake", Privilege.OWN)
    body = {"name": "x", "metadata-location": "file:/etc/passwd"}
    assert refusal(desk.ask, Route.REGISTER_TABLE, ANN, body=body) == (
        ForbiddenError,
        "only an administrator may register tables",
    )


# --- rules


def test_one_from_whom_something_is_hidden_only_adds(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.OWN)
    filtered(desk)
    assert desk.commit(ANN, *append(desk.metadata(), 11)).status == 200
    for update in (
        set_properties(a="b"),
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "remove-snapshots", "snapshot-ids": [11]},
    ):
        kind, message = refusal(desk.commit, ANN, update)
        assert kind is ForbiddenError
        assert "hidden from you" in message


@pytest.mark.parametrize("how", ["filter", "mask", "tag"])
@pytest.mark.parametrize(
    "fields", [[column(1, "id"), column(2, "nss", "string")], [column(1, "id")]], ids=["renamed", "dropped"]
)
def test_a_column_with_rules_is_renamed_and_dropped_by_policy_rights_only(
    desk: Desk, how: str, fields: list[Any]
) -> None:
    on, bound = Securable.table("lake", T, desk.service.find(T).uuid), BoundColumn("name", 2)
    bob = frozenset({Grantee.user("bob")})
    match how:
        case "filter":
            filtered(desk, BOB, "name = 'x'", columns=(bound,))
        case "mask":
            desk.add(masks=[Mask("m", on, bound, None, bob, frozenset(), using="'x'")])
        case _:
            desk.add(tags=[ColumnTags(on, bound, frozenset({"pii"}))])
    desk.grant(ANN, "lake.db.t", Privilege.OWN)
    updates: list[Json] = [
        {"action": "add-schema", "schema": schema(*fields)},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    kind, message = refusal(desk.commit, ANN, *updates)
    assert kind is ForbiddenError
    assert "column name of lake.db.t has rules" in message
    assert desk.commit(ADMIN, *updates).status == 200


def test_other_columns_are_the_owners_to_rename(desk: Desk) -> None:
    filtered(desk, BOB, "name = 'x'", columns=(BoundColumn("name", 2),))
    desk.grant(ANN, "lake.db.t", Privilege.ALTER)
    new = schema(column(1, "number"), column(2, "name", "string"))
    updates: list[Json] = [
        {"action": "add-schema", "schema": new},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    assert desk.commit(ANN, *updates).status == 200


def test_a_rule_that_knows_a_column_by_a_name_it_had_keeps_that_name(desk: Desk) -> None:
    renamed = schema(column(1, "id"), column(2, "nss", "string"))
    desk.commit(
        ADMIN,
        {"action": "add-schema", "schema": renamed},
        {"action": "set-current-schema", "schema-id": -1},
    )
    bob = frozenset({Grantee.user("bob")})
    rule = Mask("m", Securable.table("lake", T), BoundColumn("name"), None, bob, frozenset(), using="'x'")
    desk.add(masks=[rule])
    desk.grant(ANN, "lake.db.t", Privilege.OWN)
    forget: Json = {"action": "remove-schemas", "schema-ids": [0]}
    assert "has rules" in refusal(desk.commit, ANN, forget)[1]
    assert desk.commit(ADMIN, forget).status == 200


def test_one_from_whom_something_is_hidden_may_insert_nothing_at_all(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.INSERT)
    filtered(desk)
    desk.commit(ADMIN, *append(desk.metadata(), 1))
    nothing = change(desk.metadata(), 2, current_manifests(desk.metadata()), rows=0)
    assert desk.commit(ANN, *nothing).status == 200


def test_a_change_that_is_made_is_answered_whatever_becomes_of_its_owner(desk: Desk) -> None:
    class Broken(Owners):
        def dropped(self, *_what: Any) -> None:
            raise RuntimeError("the policies cannot be written")

        def created(self, *_what: Any) -> None:
            raise RuntimeError("the policies cannot be written")

    desk.calls = Calls(desk.service, ownership=Broken())
    assert desk.ask(Route.DROP_TABLE, ADMIN).status == 204
    # But there is no table without an owner.
    with pytest.raises(RuntimeError):
        desk.ask(Route.CREATE_TABLE, ADMIN, body=create_request("t"))
    assert desk.service.tables() == ()


def test_every_decision_is_noted_with_its_call(desk: Desk) -> None:
    desk.grant(ANN, "lake.db.t", Privilege.SELECT)
    filtered(desk)
    call = desk.call(Route.LOAD_TABLE, ANN)
    desk.calls.read(call)
    (noted,) = call.decided
    assert (noted.what, noted.privileges, noted.is_allowed) == ("lake.db.t", (Privilege.SELECT,), True)
    assert noted.rules == ("row_filter some",)
    refused = desk.call(Route.DROP_TABLE, ANN)
    with pytest.raises(ForbiddenError):
        desk.calls.change(refused)
    assert [(item.privileges, item.is_allowed) for item in refused.decided] == [((Privilege.DROP,), False)]
