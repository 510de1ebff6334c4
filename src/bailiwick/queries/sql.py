"""Queries remembered in the gateway's database, which other gateways may share."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Update, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from bailiwick.database.database import Database
from bailiwick.database.schema import queries as table
from bailiwick.engines.description import Kind
from bailiwick.errors import Code
from bailiwick.identity.abilities import EVERYONES, Whose
from bailiwick.ids import GatewayId, NodeId, QueryId
from bailiwick.queries.query import Attempt, Failure, Query, State
from bailiwick.queries.store import QueryStore

_TERMINAL = tuple(state.value for state in State if state.is_terminal)


def _is_terminal(column: ColumnElement[str]) -> ColumnElement[bool]:
    # Not IN: its list is expanded per execution, which a statement run for many rows at once does not allow.
    return or_(*(column == state for state in _TERMINAL))


def failed(whose: ColumnElement[bool], failure: Failure, *, at: float) -> Update:
    """The statement that fails those of `whose` queries that have not ended."""
    return (
        update(table)
        .where(whose, ~_is_terminal(table.c.state))
        .values(
            state=State.FAILED.value,
            error_code=failure.code.value,
            error_message=failure.message,
            finished_at=at,
        )
    )


class SqlQueryStore(QueryStore):
    """`owner` says which gateway runs what is saved here, if there are several."""

    def __init__(self, database: Database, owner: Callable[[], GatewayId | None] = lambda: None) -> None:
        self._database = database
        self._owner = owner
        self._upsert = _upsert(database.synchronous.dialect.name)

    async def save(self, queries: Sequence[Query]) -> None:
        if not queries:
            return
        async with self._database.asynchronous.begin() as connection:
            owner = self._owner()
            await connection.execute(self._upsert, [{**_row(query), "owner": owner} for query in queries])

    async def find(self, query_id: QueryId) -> Query | None:
        async with self._database.asynchronous_reads.connect() as connection:
            rows = await connection.execute(select(table).where(table.c.id == query_id))
            row = rows.mappings().first()
        return None if row is None else _query(row)

    async def recent(self, whose: Whose = EVERYONES, *, limit: int) -> list[Query]:
        statement = select(table).order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)
        if whose.tenant is not None:
            statement = statement.where(table.c.tenant == whose.tenant)
        if whose.name is not None:
            statement = statement.where(table.c.principal == whose.name)
        async with self._database.asynchronous_reads.connect() as connection:
            rows = await connection.execute(statement)
            return [_query(row) for row in rows.mappings()]

    async def fail_unfinished(self, failure: Failure, *, at: float) -> int:
        statement = failed(table.c.owner.is_(None), failure, at=at)
        async with self._database.asynchronous.begin() as connection:
            return int((await connection.execute(statement)).rowcount)

    async def owner(self, query_id: QueryId) -> GatewayId | None:
        async with self._database.asynchronous_reads.connect() as connection:
            found = await connection.execute(select(table.c.owner).where(table.c.id == query_id))
            owner = found.scalar_one_or_none()
        return None if owner is None else GatewayId(owner)

    async def prune(self, *, created_before: float) -> int:
        statement = delete(table).where(table.c.created_at < created_before, _is_terminal(table.c.state))
        async with self._database.asynchronous.begin() as connection:
            return int((await connection.execute(statement)).rowcount)


def _upsert(dialect: str) -> Any:
    statement: Any = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    changing = [
        *("kind", "state", "node_id", "error_code", "error_message"),
        *("started_at", "finished_at", "rows", "bytes", "attempts", "is_fallback"),
    ]
    return statement.on_conflict_do_update(
        index_elements=[table.c.id],
        set_={name: statement.excluded[name] for name in changing},
        where=~_is_terminal(table.c.state) | _is_terminal(statement.excluded.state),
    )


def _row(query: Query) -> dict[str, Any]:
    failure = query.failure
    return {
        "id": query.id,
        "principal": query.principal,
        "tenant": query.tenant,
        "door": query.door,
        "sql": query.sql,
        "kind": None if query.kind is None else query.kind.value,
        "state": query.state.value,
        "node_id": query.node_id,
        "error_code": None if failure is None else failure.code.value,
        "error_message": None if failure is None else failure.message,
        "created_at": query.created_at,
        "started_at": query.started_at,
        "finished_at": query.finished_at,
        "rows": query.rows,
        "bytes": query.bytes,
        "actor": query.actor,
        "attempts": _written(query.attempts),
        "is_fallback": int(query.is_fallback),
    }


def _query(row: RowMapping) -> Query:
    code = row["error_code"]
    return Query(
        id=QueryId(row["id"]),
        principal=row["principal"],
        tenant=row["tenant"],
        door=row["door"],
        sql=row["sql"],
        kind=None if row["kind"] is None else Kind(row["kind"]),
        state=State(row["state"]),
        node_id=None if row["node_id"] is None else NodeId(row["node_id"]),
        failure=None if code is None else Failure(Code(code), row["error_message"] or ""),
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        rows=row["rows"],
        bytes=row["bytes"],
        actor=row["actor"],
        attempts=_attempts(row["attempts"]),
        is_fallback=bool(row["is_fallback"]),
    )


def _written(attempts: Sequence[Attempt]) -> str:
    told = [[one.node_id, one.failure.code, one.failure.message, one.elapsed_s] for one in attempts]
    return json.dumps(told)


def _attempts(text: str) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(NodeId(node_id), Failure(Code(code), message), elapsed_s)
        for node_id, code, message, elapsed_s in json.loads(text)
    )
