"""A wish to end a query that another gateway runs.

It is written down for the owner, who is told of it by the database (`database/changes.py`), carries it out
and strikes it off. Whoever wishes has been asked before whether they may.
"""

import asyncio
from collections.abc import Awaitable, Callable

from sqlalchemy import delete, insert, select

from bailiwick.database import revisions
from bailiwick.database.database import Database
from bailiwick.database.schema import cancellations as table
from bailiwick.database.schema import queries
from bailiwick.ids import QueryId

Carry = Callable[[QueryId, str], bool]
"""End that query of ours on behalf of that name. False if it is not ours, or has ended."""


CancelElsewhere = Callable[[QueryId, str], Awaitable[None]]
"""Hand the wish of that name to whichever other gateway runs the query."""


async def nowhere_else(query_id: QueryId, by: str) -> None:
    """Where there is one gateway only."""
    del query_id, by


async def wish(database: Database, query_id: QueryId, by: str) -> None:
    """Write it down for whichever gateway runs the query."""
    await asyncio.to_thread(_write, database, query_id, by)


class Cancellations:
    """A follower of the topic: wishes for this gateway's queries are carried out as they are noticed."""

    def __init__(self, database: Database, carry_out: Carry) -> None:
        self._database = database
        self._carry_out = carry_out
        self._revision = revisions.UNKNOWN

    @property
    def revision(self) -> int:
        return self._revision

    async def catch_up(self) -> None:
        revision, wishes = await asyncio.to_thread(self._read)
        done = [query_id for query_id, by in wishes if self._carry_out(query_id, by)]
        if done:
            await asyncio.to_thread(self._strike_off, done)
        self._revision = revision

    def _read(self) -> tuple[int, list[tuple[QueryId, str]]]:
        with self._database.synchronous_reads.connect() as connection:
            revision = revisions.current(connection, revisions.CANCELLATIONS)
            rows = connection.execute(select(table.c.query_id, table.c.wished_by)).all()
        return revision, [(QueryId(row.query_id), row.wished_by) for row in rows]

    def _strike_off(self, done: list[QueryId]) -> None:
        with self._database.synchronous.begin() as connection:
            connection.execute(delete(table).where(table.c.query_id.in_(done)))


def _write(database: Database, query_id: QueryId, by: str) -> None:
    with database.synchronous.begin() as connection:
        ended = select(queries.c.id).where(queries.c.finished_at.is_not(None))
        connection.execute(delete(table).where(table.c.query_id.in_(ended)))
        known = select(table.c.query_id).where(table.c.query_id == query_id)
        if connection.execute(known).first() is None:
            connection.execute(insert(table).values(query_id=query_id, wished_by=by))
        revisions.advance(connection, revisions.CANCELLATIONS)
