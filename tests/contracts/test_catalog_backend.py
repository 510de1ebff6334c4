"""What every catalog backend promises."""

import threading
from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import insert

from bailiwick.catalog.backend import (
    CatalogBackend,
    Change,
    ConcurrentChangeError,
    Create,
    CreateNamespace,
    Drop,
    DropNamespace,
    Entry,
    Kind,
    Outcome,
    Place,
    Remember,
    Rename,
    SetNamespaceProperties,
    Swap,
)
from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.sql import SqlBackend
from bailiwick.database.database import Database
from bailiwick.database.schema import gateways
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import GatewayId
from bailiwick.names import TableName

T, U = TableName(("db",), "t"), TableName(("db",), "u")
ONE, TWO = Entry(Kind.TABLE, "uuid-1", "file:/one"), Entry(Kind.TABLE, "uuid-1", "file:/two")
VIEW = Entry(Kind.VIEW, "uuid-2", "file:/view")
DB = CreateNamespace(("db",), {"a": "b"})


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest, open_database: Callable[[str], Database]) -> CatalogBackend:
    if request.param == "memory":
        return MemoryBackend()
    return SqlBackend.over(open_database(request.param), "lake")


def refuses(backend: CatalogBackend, *changes: Change) -> None:
    before = backend.load()
    with pytest.raises(ConcurrentChangeError):
        backend.apply(changes)
    assert backend.load() == before


def test_what_was_applied_is_loaded_again(backend: CatalogBackend) -> None:
    odd = TableName(("db", "in ner.x"), "ta'ble`é")
    backend.apply([DB, CreateNamespace(odd.namespace, {}), Create(T, ONE), Create(odd, VIEW)])
    stored = backend.load()
    assert stored.namespaces == {("db",): {"a": "b"}, odd.namespace: {}}
    assert stored.objects == {T: ONE, odd: VIEW}


def test_a_namespace_is_created_once_and_under_its_parent(backend: CatalogBackend) -> None:
    refuses(backend, CreateNamespace(("db", "inner"), {}))
    backend.apply([DB])
    refuses(backend, DB)
    backend.apply([CreateNamespace(("db", "inner"), {})])


def test_properties_are_replaced_as_a_whole(backend: CatalogBackend) -> None:
    refuses(backend, SetNamespaceProperties(("db",), {}))
    backend.apply([DB, SetNamespaceProperties(("db",), {"c": "d"})])
    assert backend.load().namespaces == {("db",): {"c": "d"}}


def test_only_an_empty_namespace_is_dropped(backend: CatalogBackend) -> None:
    refuses(backend, DropNamespace(("db",)))
    backend.apply([DB, CreateNamespace(("dbx",), {}), CreateNamespace(("db", "inner"), {})])
    refuses(backend, DropNamespace(("db",)))
    backend.apply([DropNamespace(("db", "inner")), Create(T, ONE)])
    refuses(backend, DropNamespace(("db",)))
    backend.apply([Drop(T, ONE), DropNamespace(("db",))])
    assert list(backend.load().namespaces) == [("dbx",)]


def test_a_name_is_taken_once_by_a_table_or_a_view(backend: CatalogBackend) -> None:
    refuses(backend, Create(T, ONE))
    backend.apply([DB, Create(T, ONE)])
    refuses(backend, Create(T, TWO))
    refuses(backend, Create(T, VIEW))


def test_a_swap_needs_the_pointer_to_be_where_it_was(backend: CatalogBackend) -> None:
    backend.apply([DB, Create(T, ONE)])
    refuses(backend, Swap(U, ONE, TWO))
    backend.apply([Swap(T, ONE, TWO)])
    refuses(backend, Swap(T, ONE, TWO))
    refuses(backend, Drop(T, ONE))
    assert backend.load().objects == {T: TWO}


def test_a_rename_moves_the_pointer_and_takes_no_name_that_is_taken(backend: CatalogBackend) -> None:
    backend.apply([DB, Create(T, ONE), CreateNamespace(("other",), {})])
    refuses(backend, Rename(T, TableName(("nowhere",), "t"), ONE))
    refuses(backend, Rename(T, U, TWO))
    moved = TableName(("other",), "t")
    backend.apply([Rename(T, moved, ONE), Create(T, VIEW)])
    refuses(backend, Rename(moved, T, ONE))
    assert backend.load().objects == {moved: ONE, T: VIEW}


def test_all_changes_are_made_or_none(backend: CatalogBackend) -> None:
    backend.apply([DB, Create(T, ONE), Create(U, ONE)])
    refuses(backend, Swap(T, ONE, TWO), Swap(U, TWO, ONE))
    refuses(backend, Drop(T, ONE), Create(U, ONE))
    backend.apply([Swap(T, ONE, TWO), Swap(U, ONE, TWO)])


def test_of_many_writers_exactly_one_wins_each_pointer(backend: CatalogBackend) -> None:
    backend.apply([DB, Create(T, Entry(Kind.TABLE, "uuid", "0"))])
    won: list[str] = []
    run([threading.Thread(target=write, args=(backend, writer, won)) for writer in range(4)])
    # A chain: every pointer that was left was left exactly once, so no commit was lost.
    left = [step.partition(">")[0] for step in won]
    assert len(set(left)) == len(left) == len(won)
    assert len(won) >= 20


def write(backend: CatalogBackend, writer: int, won: list[str]) -> None:
    for number in range(20):
        old = backend.load().objects[T]
        new = Entry(Kind.TABLE, "uuid", f"{writer}-{number}")
        try:
            backend.apply([Swap(T, old, new)])
        except ConcurrentChangeError:
            continue
        won.append(f"{old.metadata_location}>{new.metadata_location}")


def run(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_catalogs_in_one_database_do_not_see_each_other(database: Database) -> None:
    lake, pond = SqlBackend(database.synchronous), SqlBackend(database.synchronous, "pond")
    lake.apply([DB, Create(T, ONE)])
    pond.apply([DB])
    assert pond.load().objects == {}
    pond.apply([DropNamespace(("db",))])
    assert T in lake.load().objects


def test_every_change_makes_the_next_revision_and_one_that_is_refused_makes_none(
    backend: CatalogBackend,
) -> None:
    assert (backend.revision(), backend.load().revision) == (0, 0)
    assert backend.apply([DB, Create(T, ONE)]) == 1
    refuses(backend, Create(T, TWO))
    assert (backend.revision(), backend.load().revision) == (1, 1)
    assert backend.apply([Swap(T, ONE, TWO), Remember(outcome("k"), 0)]) == 2


def test_of_the_writers_of_two_gateways_exactly_one_wins_each_pointer(
    shared: tuple[Database, Database],
) -> None:
    backends = [SqlBackend.over(database, "lake") for database in shared]
    backends[0].apply([DB, Create(T, Entry(Kind.TABLE, "uuid", "0"))])
    won: list[str] = []
    run([threading.Thread(target=write, args=(backends[number % 2], number, won)) for number in range(4)])
    left = [step.partition(">")[0] for step in won]
    assert len(set(left)) == len(left) == len(won) >= 20
    assert backends[0].revision() == backends[1].revision() == 1 + len(won)


def test_of_two_gateways_with_one_key_only_one_makes_the_change(shared: tuple[Database, Database]) -> None:
    one, other = (SqlBackend.over(database, "lake") for database in shared)
    one.apply([DB, Create(T, ONE), Remember(outcome("k"), 0)])
    refuses(other, Create(U, ONE), Remember(outcome("k", 200), 0))
    assert other.outcome("k") == outcome("k")


def test_a_gateway_that_others_gave_up_on_commits_nothing(database: Database) -> None:
    backend = SqlBackend.over(database, "lake", lambda: GatewayId("g1"))
    with pytest.raises(BailiwickError) as refused:
        backend.apply([DB])
    assert (refused.value.code, refused.value.retryable) == (Code.CATALOG_UNAVAILABLE, True)
    assert backend.load().namespaces == {}
    row = {"id": "g1", "home": "h", "address": "", "started_at": 0.0, "heartbeat_at": 0.0, "beats": 0}
    with database.synchronous.begin() as connection:
        connection.execute(insert(gateways).values(row))
    backend.apply([DB])


def outcome(key: str, done_at: float = 100.0) -> Outcome:
    return Outcome(key, "ann", "default", "POST x", "digest", (Place(T, ONE), Place(U, VIEW)), done_at)


def test_an_outcome_is_kept_with_the_changes_it_is_of(backend: CatalogBackend) -> None:
    assert backend.outcome("k") is None
    backend.apply([DB, Create(T, ONE), Remember(outcome("k"), 0)])
    assert backend.outcome("k") == outcome("k")
    assert backend.load().objects == {T: ONE}


def test_a_key_is_kept_once_and_what_came_with_it_is_not_made(backend: CatalogBackend) -> None:
    backend.apply([DB, Remember(outcome("k"), 0)])
    refuses(backend, Create(T, ONE), Remember(outcome("k", 200), 0))
    assert backend.outcome("k") == outcome("k")


def test_an_outcome_of_what_was_not_done_is_not_kept(backend: CatalogBackend) -> None:
    refuses(backend, Remember(outcome("k"), 0), Drop(T, ONE))
    assert backend.outcome("k") is None


def test_old_outcomes_are_forgotten_and_it_is_known_since_when_none_was(backend: CatalogBackend) -> None:
    for key, done_at in (("a", 100.0), ("b", 200.0), ("c", 300.0)):
        backend.apply([Remember(outcome(key, done_at), 0)])
    assert backend.known_since() == 0
    backend.apply([Remember(outcome("d", 400.0), forget_before=250.0)])
    assert [backend.outcome(key) is not None for key in "abcd"] == [False, False, True, True]
    assert 200 <= backend.known_since() <= 300
