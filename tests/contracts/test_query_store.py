"""What every store of queries promises."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bailiwick.database.config import DatabaseConfig
from bailiwick.database.database import Database
from bailiwick.engines.description import Kind
from bailiwick.errors import Code
from bailiwick.identity.abilities import Whose
from bailiwick.ids import GatewayId, NodeId, QueryId, new_operation_id
from bailiwick.queries.memory import MemoryQueryStore
from bailiwick.queries.query import Attempt, Failure, Moment, Query, State
from bailiwick.queries.sql import SqlQueryStore
from bailiwick.queries.store import QueryStore

LOST = Failure(Code.EXECUTION_FAILED, "the gateway was restarted")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, open_database: Callable[[str], Database]) -> QueryStore:
    if request.param == "memory":
        return MemoryQueryStore()
    return SqlQueryStore(open_database(request.param))


def query(
    name: str,
    *,
    state: State = State.RUNNING,
    created_at: float = 1.0,
    who: str = "ann",
    tenant: str = "acme",
) -> Query:
    return Query(QueryId(name), who, tenant, "flight", "SELECT 'ä'", created_at=created_at, state=state)


FULL = Query(
    QueryId("full"),
    "ann",
    "acme",
    "flight",
    "SELECT 1/0",
    created_at=1.25,
    state=State.FAILED,
    kind=Kind.READ,
    node_id=NodeId("embedded"),
    actor="svc",
    started_at=2.5,
    finished_at=3.75,
    rows=1 << 40,
    bytes=1 << 50,
    failure=Failure(Code.DIVISION_BY_ZERO, "division by zero"),
    attempts=(Attempt(NodeId("left"), Failure(Code.EXECUTION_FAILED, "lost"), 1.5),),
    is_fallback=True,
)


async def test_a_query_comes_back_as_it_was_saved(store: QueryStore) -> None:
    await store.save([FULL, query("other")])
    assert await store.find(FULL.id) == FULL
    assert await store.find(QueryId("none")) is None


async def test_what_only_matters_while_it_runs_is_not_kept(store: QueryStore) -> None:
    moment = Moment(State.FAILED, "Failed", 3.75)
    await store.save(
        [replace(FULL, operation=new_operation_id(), queue_position=3, tasks_done=1, story=(moment,))]
    )
    assert await store.find(FULL.id) == FULL


async def test_saving_again_replaces(store: QueryStore) -> None:
    await store.save([query("a", state=State.QUEUED)])
    await store.save([replace(query("a", state=State.RUNNING), kind=Kind.READ, rows=7)])
    found = await store.find(QueryId("a"))
    assert found is not None
    assert (found.state, found.kind, found.rows) == (State.RUNNING, Kind.READ, 7)


async def test_an_ended_query_does_not_come_to_life_again(store: QueryStore) -> None:
    await store.save([FULL])
    await store.save([replace(FULL, state=State.RUNNING, failure=None, finished_at=None)])
    assert await store.find(FULL.id) == FULL


async def test_the_newest_come_first_and_no_more_than_asked_for(store: QueryStore) -> None:
    await store.save([query(f"q{index}", created_at=float(index)) for index in range(10)])
    recent = await store.recent(limit=3)
    assert [one.id for one in recent] == ["q9", "q8", "q7"]


async def test_the_queries_of_one_principal_are_only_theirs(store: QueryStore) -> None:
    await store.save([query("a", who="ann"), query("b", who="bob")])
    assert [one.id for one in await store.recent(Whose(name="bob"), limit=10)] == ["b"]
    assert await store.recent(Whose(name="eve"), limit=10) == []


async def test_the_queries_of_one_tenant_are_only_theirs(store: QueryStore) -> None:
    moved = query("c", who="ann", tenant="globex", created_at=3.0)
    await store.save([query("a", who="ann"), query("b", who="bob", created_at=2.0), moved])
    assert [one.id for one in await store.recent(Whose("acme"), limit=10)] == ["b", "a"]
    assert [one.id for one in await store.recent(Whose("acme", "ann"), limit=10)] == ["a"]
    assert await store.recent(Whose("initech"), limit=10) == []


async def test_nothing_is_left_running_after_a_restart(store: QueryStore) -> None:
    states = list(State)
    await store.save([query(state.value, state=state) for state in states])
    assert await store.fail_unfinished(LOST, at=9.0) == 4
    for state in states:
        found = await store.find(QueryId(state.value))
        assert found is not None
        assert found.state.is_terminal
        if not state.is_terminal:
            assert (found.state, found.failure, found.finished_at) == (State.FAILED, LOST, 9.0)
    assert await store.fail_unfinished(LOST, at=10.0) == 0


async def test_what_another_gateway_owns_is_not_failed_by_a_restart_of_this_one(database: Database) -> None:
    mine, theirs = SqlQueryStore(database), SqlQueryStore(database, lambda: GatewayId("g2"))
    await mine.save([query("mine")])
    await theirs.save([query("theirs")])
    assert await mine.fail_unfinished(LOST, at=9.0) == 1
    found = await mine.find(QueryId("theirs"))
    assert found is not None
    assert found.state is State.RUNNING
    assert [await mine.owner(QueryId(name)) for name in ("mine", "theirs", "none")] == [None, "g2", None]


async def test_a_query_keeps_the_owner_who_began_it(database: Database) -> None:
    owners = [GatewayId("g1")]
    store = SqlQueryStore(database, lambda: owners[0])
    await store.save([query("a", state=State.QUEUED)])
    owners[0] = GatewayId("g2")
    await store.save([query("a")])
    assert await store.owner(QueryId("a")) == "g1"


async def test_a_statement_with_any_character_is_kept(store: QueryStore) -> None:
    odd = replace(query("odd"), sql="SELECT 'a\0b', '𝒳'", failure=Failure(Code.PARSE_ERROR, "\0 at 9"))
    await store.save([odd, query("beside it")])
    found = await store.find(QueryId("odd"))
    assert found is not None
    assert found.sql in (odd.sql, odd.sql.replace("\0", "\ufffd"))


async def test_pruning_forgets_the_old_but_not_the_running(store: QueryStore) -> None:
    await store.save(
        [
            query("old", state=State.FINISHED, created_at=1.0),
            query("old and running", created_at=1.0),
            query("new", state=State.FINISHED, created_at=5.0),
        ]
    )
    assert await store.prune(created_before=5.0) == 1
    assert {one.id for one in await store.recent(limit=10)} == {"old and running", "new"}


async def test_saving_nothing_is_fine(store: QueryStore) -> None:
    await store.save([])
    assert await store.recent(limit=10) == []


async def test_what_was_saved_survives_reopening(tmp_path: Path, database_config: DatabaseConfig) -> None:
    database = Database.open(tmp_path / "bailiwick.db", database_config)
    await SqlQueryStore(database).save([FULL])
    await database.close()
    database = Database.open(tmp_path / "bailiwick.db", database_config)
    assert await SqlQueryStore(database).find(FULL.id) == FULL
    await database.close()
