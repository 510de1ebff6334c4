"""View metadata: versions, their history, and what a replacement may not do."""

import pytest

from bailiwick.catalog import requests, validation, views
from bailiwick.catalog.refusals import BadRequestError, CommitFailedError
from bailiwick.catalog.shapes import matched
from bailiwick.catalog.wire import Json
from bailiwick.testing.iceberg import UUID, column, schema

LOCATION = "file:/warehouse/db/v-0123456789abcdef"


def version(sql: str, dialect: str = "spark", *, schema_id: int = -1) -> Json:
    return {
        "version-id": 1,
        "schema-id": schema_id,
        "timestamp-ms": 5,
        "summary": {"engine-name": "spark"},
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
        "default-namespace": ["db"],
    }


def create_request(**more: object) -> Json:
    return {
        "name": "v",
        "schema": schema(column(1, "a")),
        "view-version": version("select 1", schema_id=0),
        "properties": {},
        **more,
    }


def new_view() -> Json:
    return views.create(create_request(), uuid=UUID, location=LOCATION, now_ms=10)


def committed(base: Json, *updates: Json, requirements: tuple[Json, ...] = ()) -> Json:
    matched(requests.CommitView, {"requirements": list(requirements), "updates": list(updates)})
    new = views.commit(base, requirements, updates, now_ms=20)
    assert new is not None
    validation.check_view(new)
    return new


def replaced(base: Json, sql: str, *columns: Json) -> Json:
    return committed(
        base,
        {"action": "add-schema", "schema": schema(*(columns or (column(1, "a"),)))},
        {"action": "add-view-version", "view-version": version(sql)},
        {"action": "set-current-view-version", "view-version-id": -1},
    )


def test_a_replaced_view_keeps_its_old_version() -> None:
    new = replaced(new_view(), "select 2", column(1, "b", "string"))
    assert (new["current-version-id"], len(new["versions"]), len(new["schemas"])) == (2, 2, 2)
    assert new["versions"][1]["schema-id"] == 1
    assert [entry["version-id"] for entry in new["version-log"]] == [1, 2]


def test_only_so_many_versions_are_kept() -> None:
    view = new_view()
    for number in range(15):
        view = replaced(view, f"select {number}")
    assert len(view["versions"]) == len(view["version-log"]) == 10
    assert view["current-version-id"] == 16
    shorter = committed(view, {"action": "set-properties", "updates": {"version.history.num-entries": "2"}})
    assert len(shorter["versions"]) == 2


def test_fields_that_nobody_knows_are_kept_in_views_too() -> None:
    assert replaced(new_view() | {"of-tomorrow": [1]}, "select 2")["of-tomorrow"] == [1]


def test_a_view_does_not_lose_a_dialect_unless_its_owner_said_so() -> None:
    trino = {"action": "add-view-version", "view-version": version("select 2", "trino", schema_id=0)}
    use = {"action": "set-current-view-version", "view-version-id": -1}
    allow = {"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "true"}}
    with pytest.raises(BadRequestError, match="dialect"):
        committed(new_view(), trino, use)
    assert committed(new_view(), allow, trino, use)["current-version-id"] == 2


def test_a_view_can_go_back_to_an_older_version() -> None:
    new = replaced(new_view(), "select 2")
    back = committed(new, {"action": "set-current-view-version", "view-version-id": 1})
    assert back["current-version-id"] == 1
    assert back["version-log"][-1]["version-id"] == 1


def test_properties_of_a_view_are_set_and_removed() -> None:
    new = committed(new_view(), {"action": "set-properties", "updates": {"a": "b"}})
    gone = committed(new, {"action": "remove-properties", "removals": ["a", "missing"]})
    assert (new["properties"], gone["properties"]) == ({"a": "b"}, {})
    assert views.commit(gone, [], [{"action": "remove-properties", "removals": ["a"]}], now_ms=20) is None


def test_a_commit_to_another_view_of_the_same_name_fails() -> None:
    other = {"type": "assert-view-uuid", "uuid": "other"}
    with pytest.raises(CommitFailedError):
        committed(new_view(), {"action": "set-properties", "updates": {"a": "b"}}, requirements=(other,))


@pytest.mark.parametrize(
    "update",
    [
        {"action": "assign-uuid", "uuid": "11111111-1111-4111-8111-111111111111"},
        {"action": "set-location", "location": "file:/elsewhere"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-view-version", "view-version": version("select 1")},
        {"action": "add-view-version", "view-version": version("select 1", schema_id=7)},
        {"action": "add-view-version", "view-version": version("", schema_id=0)},
        {"action": "add-view-version", "view-version": version("x", schema_id=0) | {"representations": []}},
        {"action": "add-view-version", "view-version": version("x", schema_id=0) | {"timestamp-ms": None}},
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "set-current-view-version", "view-version-id": 9},
        {"action": "set-properties", "updates": {"version.history.num-entries": "0"}},
        {"action": "add-snapshot", "snapshot": {}},
        {"action": "nothing"},
    ],
)
def test_a_commit_that_would_break_the_view_is_refused(update: Json) -> None:
    with pytest.raises(BadRequestError):
        committed(new_view(), update)


def test_two_queries_of_one_dialect_are_refused() -> None:
    twice = version("select 1", schema_id=0)
    twice["representations"].append({"type": "sql", "sql": "select 2", "dialect": "SPARK"})
    with pytest.raises(BadRequestError, match="dialect"):
        committed(new_view(), {"action": "add-view-version", "view-version": twice})
