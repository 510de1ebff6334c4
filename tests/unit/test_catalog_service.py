"""The catalog as a whole: files, pointers, and what happens when something fails in between."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bailiwick.catalog import wire
from bailiwick.catalog.backend import Change, ConcurrentChangeError, Entry, Kind
from bailiwick.catalog.commits import Commit, Loaded
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.refusals import (
    AlreadyExistsError,
    BadRequestError,
    CatalogError,
    CommitFailedError,
    DamagedMetadataError,
    ForbiddenError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.state import MetadataCache
from bailiwick.catalog.wire import Json
from bailiwick.names import TableName
from bailiwick.testing.iceberg import (
    append,
    create_request,
    read_by_pyiceberg,
    set_properties,
    staged_updates,
)

T, U = TableName(("db",), "t"), TableName(("db",), "u")
ASSERT_CREATE = [{"type": "assert-create"}]


class BreakingBackend(MemoryBackend):
    """Fails when told to, after or before it has done its work."""

    def __init__(self) -> None:
        super().__init__()
        self.fail: Callable[[Callable[[], object]], None] | None = None

    def apply(self, changes: Sequence[Change]) -> int:
        if self.fail is not None:
            self.fail(lambda: super(BreakingBackend, self).apply(changes))
            return self.revision()
        return super().apply(changes)


@pytest.fixture
def backend() -> BreakingBackend:
    return BreakingBackend()


@pytest.fixture
def service(backend: BreakingBackend, tmp_path: Path) -> CatalogService:
    made = CatalogService(backend, tmp_path / "warehouse")
    made.create_namespace(("db",))
    return made


def metadata_of(loaded: Loaded) -> Json:
    return wire.parsed_object(loaded.data)


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "warehouse").rglob("*.json")}


def commit(service: CatalogService, name: TableName, *updates: Json) -> Loaded:
    return service.commits.commit_tables([Commit(name, [], updates)])[0]


def ended() -> None:
    raise ForbiddenError("the lease has ended")


def test_a_table_is_on_disk_and_in_memory_once_it_is_made(
    service: CatalogService, backend: MemoryBackend
) -> None:
    made = service.commits.create_table(T, create_request())
    assert service.load_nowait(T) == service.load(T) == made
    path = Path(made.entry.metadata_location.removeprefix("file:"))
    assert path.read_bytes() == made.data
    assert service.tables() == service.tables(("db",)) == (T,)
    assert backend.load().objects[T] == made.entry


def test_another_service_on_the_same_backend_serves_the_same(
    service: CatalogService, backend: MemoryBackend, tmp_path: Path
) -> None:
    service.commits.create_table(T, create_request())
    made = commit(service, T, set_properties(a="b"))
    again = CatalogService(backend, tmp_path / "warehouse")
    assert again.load_nowait(T) is None
    assert again.load(T) == made
    assert again.load_nowait(T) == made


def test_the_version_goes_up_with_every_change_and_only_then(service: CatalogService) -> None:
    versions = [service.version]
    for change in (
        lambda: service.commits.create_table(T, create_request()),
        lambda: commit(service, T, set_properties(a="b")),
        lambda: service.rename(T, U, Kind.TABLE),
        lambda: service.update_namespace(("db",), updates={"x": "y"}),
        lambda: service.drop(U),
        lambda: service.drop_namespace(("db",)),
    ):
        change()
        versions.append(service.version)
        service.tables()
    assert versions == sorted(set(versions))


def test_a_commit_after_the_lease_has_ended_leaves_nothing(service: CatalogService, tmp_path: Path) -> None:
    made = service.commits.create_table(T, create_request())
    before, version = files(tmp_path), service.version
    for late in (
        lambda: service.commits.commit_tables([Commit(T, [], append(metadata_of(made), 1))], fence=ended),
        lambda: service.commits.create_table(U, create_request(), fence=ended),
        lambda: service.drop(T, purge=True, fence=ended),
        lambda: service.rename(T, U, Kind.TABLE, fence=ended),
        lambda: service.create_namespace(("late",), fence=ended),
        lambda: service.update_namespace(("db",), updates={"x": "y"}, fence=ended),
    ):
        with pytest.raises(ForbiddenError):
            late()
    assert (files(tmp_path), service.version, service.load(T)) == (before, version, made)


def test_a_transaction_is_done_for_all_tables_or_for_none(service: CatalogService, tmp_path: Path) -> None:
    tables = [service.commits.create_table(name, create_request()) for name in (T, U)]
    before = files(tmp_path)
    wrong = [{"type": "assert-default-spec-id", "default-spec-id": 9}]
    changes = [Commit(T, [], [set_properties(a="b")]), Commit(U, wrong, [set_properties(a="b")])]
    with pytest.raises(CommitFailedError):
        service.commits.commit_tables(changes)
    assert files(tmp_path) == before
    assert [service.load(T), service.load(U)] == tables
    right = [Commit(name, [], [set_properties(a="b")]) for name in (T, U)]
    assert [metadata_of(item)["properties"]["a"] for item in service.commits.commit_tables(right)] == [
        "b",
        "b",
    ]
    with pytest.raises(BadRequestError, match="once"):
        service.commits.commit_tables([right[0], right[0]])


def test_a_commit_that_lost_the_race_in_the_backend_removes_its_file(
    service: CatalogService, backend: BreakingBackend, tmp_path: Path
) -> None:
    service.commits.create_table(T, create_request())
    before = files(tmp_path)

    def lose(_work: Callable[[], object]) -> None:
        raise ConcurrentChangeError

    backend.fail = lose
    with pytest.raises(CommitFailedError):
        commit(service, T, set_properties(a="b"))
    assert files(tmp_path) == before


def test_after_an_unclear_failure_memory_follows_the_backend(
    service: CatalogService, backend: BreakingBackend, tmp_path: Path
) -> None:
    service.commits.create_table(T, create_request())

    def done_but_not_told(work: Callable[[], object]) -> None:
        work()
        raise OSError("the connection broke")

    backend.fail = done_but_not_told
    with pytest.raises(OSError, match="broke"):
        commit(service, T, set_properties(a="b"))
    backend.fail = None
    assert metadata_of(service.load(T))["properties"]["a"] == "b"


def test_a_staged_table_exists_only_after_its_commit(service: CatalogService) -> None:
    staged = wire.parsed_object(service.commits.stage_table(T, create_request(format_version=3)))
    assert service.tables() == ()
    updates = [*staged_updates(staged), *append(staged, 1)]
    made = service.commits.commit_tables([Commit(T, ASSERT_CREATE, updates)])[0]
    assert metadata_of(made)["table-uuid"] == staged["table-uuid"]
    assert metadata_of(made)["next-row-id"] == 1
    read_by_pyiceberg(made.data)
    with pytest.raises(CommitFailedError, match="exists"):
        service.commits.commit_tables([Commit(T, ASSERT_CREATE, updates)])


@pytest.mark.parametrize(
    "change",
    [
        {"action": "assign-uuid", "uuid": "11111111-1111-4111-8111-111111111111"},
        {"action": "set-location", "location": "file:/elsewhere"},
    ],
)
def test_a_table_comes_to_be_only_as_it_was_staged(service: CatalogService, change: Json) -> None:
    staged = wire.parsed_object(service.commits.stage_table(T, create_request()))
    for name, updates in ((T, [*staged_updates(staged), change]), (U, staged_updates(staged)), (T, [])):
        with pytest.raises(BadRequestError, match="staged"):
            service.commits.commit_tables([Commit(name, ASSERT_CREATE, updates)])
    assert service.tables() == ()


def test_a_dropped_table_keeps_its_files_and_a_purged_one_does_not(
    service: CatalogService, tmp_path: Path
) -> None:
    dropped = service.commits.create_table(T, create_request())
    purged = service.commits.create_table(U, create_request())
    service.drop(T)
    service.drop(U, purge=True)
    assert Path(dropped.entry.metadata_location.removeprefix("file:")).exists()
    assert not Path(purged.entry.metadata_location.removeprefix("file:")).parents[1].exists()
    assert (tmp_path / "warehouse" / "db").exists()
    with pytest.raises(NoSuchTableError):
        service.load(T)


def test_a_table_that_keeps_its_files_is_not_purged(service: CatalogService) -> None:
    service.commits.create_table(T, create_request(properties={"gc.enabled": "false"}))
    with pytest.raises(BadRequestError, match=r"gc\.enabled"):
        service.drop(T, purge=True)
    assert service.tables() == (T,)


def test_a_dropped_table_can_be_registered_again_but_not_twice(service: CatalogService) -> None:
    made = service.commits.create_table(T, create_request())
    location = made.entry.metadata_location
    with pytest.raises(BadRequestError, match="another table"):
        service.commits.register_table(U, location)
    service.drop(T)
    assert service.commits.register_table(U, location).data == made.data
    commit(service, U, set_properties(a="b"))
    for elsewhere in ("file:/etc/passwd", location.replace("/db/", "/db/../db/"), "s3://b/x.json"):
        with pytest.raises(CatalogError):
            service.commits.register_table(T, elsewhere)


def test_a_table_that_was_renamed_leaves_its_name_to_others(service: CatalogService) -> None:
    made = service.commits.create_table(T, create_request())
    service.rename(T, U, Kind.TABLE)
    assert service.load(U).data == made.data
    other = service.commits.create_table(T, create_request())
    assert metadata_of(other)["location"] != metadata_of(made)["location"]
    with pytest.raises(AlreadyExistsError):
        service.rename(T, U, Kind.TABLE)
    with pytest.raises(NoSuchNamespaceError):
        service.rename(T, TableName(("nowhere",), "t"), Kind.TABLE)


def test_namespaces_are_nested_and_dropped_when_empty(service: CatalogService) -> None:
    service.create_namespace(("db", "inner"), {"a": "b", "c": "d"})
    assert service.namespaces() == (("db",),)
    assert service.namespaces(("db",)) == (("db", "inner"),)
    assert service.update_namespace(("db", "inner"), removals=["a", "x"], updates={"e": "f"}) == ("a",)
    assert dict(service.namespace_properties(("db", "inner"))) == {"c": "d", "e": "f"}
    with pytest.raises(NamespaceNotEmptyError):
        service.drop_namespace(("db",))
    with pytest.raises(NoSuchNamespaceError):
        service.create_namespace(("no", "where"))
    with pytest.raises(AlreadyExistsError):
        service.create_namespace(("db",))
    with pytest.raises(BadRequestError):
        service.create_namespace(("placed",), {"location": "file:/x"})


def test_old_metadata_files_go_when_the_table_says_so(service: CatalogService, tmp_path: Path) -> None:
    service.commits.create_table(
        T,
        create_request(
            properties={
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "2",
            }
        ),
    )
    for number in range(6):
        commit(service, T, set_properties(n=str(number)))
    assert len(files(tmp_path)) == 3


def test_a_damaged_file_is_an_error_that_tells_no_path(
    service: CatalogService, backend: MemoryBackend, tmp_path: Path
) -> None:
    made = service.commits.create_table(T, create_request())
    Path(made.entry.metadata_location.removeprefix("file:")).write_text("{")
    with pytest.raises(DamagedMetadataError) as caught:
        CatalogService(backend, tmp_path / "warehouse").load(T)
    assert str(tmp_path) not in caught.value.message


def test_metadata_beyond_the_caches_bound_is_read_again(backend: MemoryBackend, tmp_path: Path) -> None:
    service = CatalogService(backend, tmp_path / "warehouse", cache_bytes_max=1500)
    service.create_namespace(("db",))
    made = [service.commits.create_table(name, create_request()) for name in (T, U)]
    assert service.load_nowait(T) is None
    assert [service.load(T), service.load(U)] == made


def test_the_cache_is_bounded_and_keeps_what_is_used() -> None:
    cache = MetadataCache(bytes_max=10)
    for key in "abc":
        cache.put(key, b"123")
    cache.get("a")
    cache.put("d", b"123")
    assert [key for key in "abcd" if cache.get(key)] == ["a", "c", "d"]
    cache.put("e", b"x" * 100)
    assert [key for key in "abcde" if cache.get(key)] == ["e"]


def test_commits_from_many_threads_are_all_kept(service: CatalogService) -> None:
    service.commits.create_table(T, create_request())

    def write(writer: int) -> None:
        for number in range(10):
            commit(service, T, set_properties(**{f"w{writer}-{number}": "x"}))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    properties = metadata_of(service.load(T))["properties"]
    assert len([key for key in properties if key.startswith("w") and "-" in key and "." not in key]) == 40


def test_an_entry_of_the_wrong_kind_is_not_found(service: CatalogService) -> None:
    service.commits.create_table(T, create_request())
    with pytest.raises(CatalogError, match="View does not exist"):
        service.find(T, Kind.VIEW)
    assert isinstance(service.find(T), Entry)
