"""Names and places: nothing escapes the warehouse, and nothing lies inside another."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.catalog.locations import Locations, check_paths, is_within
from bailiwick.catalog.refusals import BadRequestError
from bailiwick.names import (
    InvalidNameError,
    TableName,
    checked_namespace,
    checked_part,
    joined,
    parted,
    spelled,
)
from bailiwick.testing.iceberg import LOCATION, UUID, new_table

LOCATIONS = Locations(Path("/lake"))
PARTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=255)
NAMES = st.builds(TableName, st.lists(PARTS, min_size=1, max_size=4).map(tuple), PARTS)


@given(NAMES, st.uuids())
def test_any_name_has_a_place_inside_the_warehouse(name: TableName, uuid: object) -> None:
    location = LOCATIONS.of(name, str(uuid))
    assert LOCATIONS.is_root(location)
    path = LOCATIONS.path_of(location)
    assert Path("/lake") in path.resolve().parents
    assert all(len(part.encode()) <= 255 for part in path.parts)


@given(NAMES, NAMES, st.uuids(), st.uuids())
def test_no_table_lies_inside_another(
    one: TableName, other: TableName, uuid: object, other_uuid: object
) -> None:
    first, second = LOCATIONS.of(one, str(uuid)), LOCATIONS.of(other, str(other_uuid))
    assert first == second or not is_within(first, second)


def test_a_schema_called_like_a_tables_directory_lies_beside_it() -> None:
    table = LOCATIONS.of(TableName(("db",), "t"), UUID)
    directory = table.rpartition("/")[2]
    inside = LOCATIONS.of(TableName(("db", directory), "x"), UUID)
    assert not is_within(table, inside)


@pytest.mark.parametrize(
    "path",
    [
        f"{LOCATION}x/data",
        f"{LOCATION}/../other",
        f"{LOCATION}/data/../../other",
        f"{LOCATION}/./data",
        f"{LOCATION}//data",
        "file:/warehouse/db",
        "/etc/passwd",
        "s3://bucket/x",
        "file:///warehouse/db/t-0123456789abcdef/data",
        "",
    ],
)
@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path", "write.object-storage.path"])
def test_a_path_outside_of_the_table_is_refused(path: str, key: str) -> None:
    metadata = new_table()
    metadata["properties"][key] = path
    with pytest.raises(BadRequestError, match="own location"):
        check_paths(metadata)


def test_a_path_inside_of_the_table_is_fine() -> None:
    metadata = new_table()
    metadata["properties"] |= {"write.data.path": f"{LOCATION}/elsewhere/", "write.metadata.path": LOCATION}
    check_paths(metadata)


def test_files_that_a_table_refers_to_must_be_its_own() -> None:
    foreign = "file:/warehouse/db/u-fedcba9876543210/metadata/snap.avro"
    for field in (
        {"snapshots": [{"manifest-list": foreign}]},
        {"snapshots": [{"manifests": [foreign]}]},
        {"statistics": [{"statistics-path": foreign}]},
        {"partition-statistics": [{"statistics-path": foreign}]},
    ):
        with pytest.raises(BadRequestError, match="own location"):
            check_paths(new_table() | field)


def test_a_class_to_load_cannot_be_set() -> None:
    metadata = new_table()
    metadata["properties"]["write.location-provider.impl"] = "evil.Provider"
    with pytest.raises(BadRequestError):
        check_paths(metadata)


@pytest.mark.parametrize(
    "location",
    [
        "file:/lake/db/t",
        "file:/lake/t-0123456789abcdef",
        "file:/lake/db/t-0123456789abcdef/metadata",
        "file:/lake/../etc/t-0123456789abcdef",
        "file:/other/db/t-0123456789abcdef",
        "file:/lake/d-b/t-0123456789abcdef",
        "/lake/db/t-0123456789abcdef",
    ],
)
def test_only_directories_of_objects_are_roots(location: str) -> None:
    assert not LOCATIONS.is_root(location)


@pytest.mark.parametrize(
    "path", ["file:/lake/db/x.json", "file:/lake/db/t-0123456789abcdef/../../x", "/etc/passwd"]
)
def test_files_elsewhere_are_never_touched(path: str) -> None:
    with pytest.raises(ValueError, match="warehouse"):
        LOCATIONS.path_of(path)


@pytest.mark.parametrize("part", ["", "a\x1fb", "a\nb", "x" * 256, "\ud800"])
def test_what_nothing_can_be_called(part: str) -> None:
    with pytest.raises(InvalidNameError):
        checked_part(part)


def test_namespaces_have_a_depth() -> None:
    with pytest.raises(InvalidNameError):
        checked_namespace([])
    with pytest.raises(InvalidNameError):
        checked_namespace(["a"] * 17)


@given(st.lists(PARTS, min_size=1, max_size=16).map(tuple))
def test_a_namespace_survives_being_one_text(namespace: tuple[str, ...]) -> None:
    assert parted(joined(checked_namespace(namespace))) == namespace


def test_names_are_spelled_as_in_sql() -> None:
    assert str(TableName(("sales", "a`b"), "x y")) == "sales.`a``b`.`x y`"
    assert len(spelled(["z" * 10_000_000])) < 200
