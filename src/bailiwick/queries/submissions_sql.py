"""Submissions in the gateway's database: they outlive it, and several gateways share them.

Every step is one statement that says in its WHERE what it expects, so that of two gateways one gets its way.
"""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, and_, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from bailiwick.database.database import Database
from bailiwick.database.errors import unavailable
from bailiwick.database.schema import submissions as table
from bailiwick.errors import Code
from bailiwick.ids import QueryId
from bailiwick.queries.submissions import (
    Broke,
    Done,
    Outcome,
    Submission,
    SubmissionId,
    SubmissionStore,
)


class SqlSubmissionStore(SubmissionStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, wanted: Submission, *, keys_max: int) -> Submission | None:
        while True:
            try:
                async with self._changing() as connection:
                    return await _claim(connection, wanted, keys_max)
            except IntegrityError:
                # Somebody else put theirs in between our look and our insert: look again.
                continue

    async def take_over(self, found: Submission, wanted: Submission) -> bool:
        return await self._changed(
            update(table).where(_held(found), table.c.begun_at.is_(None), table.c.outcome.is_(None)),
            _row(wanted),
        )

    async def begin(self, held: Submission, *, at: float) -> bool:
        return await self._changed(
            update(table).where(_held(held), table.c.outcome.is_(None)), {"begun_at": at}
        )

    async def give_back(self, held: Submission) -> None:
        await self._changed(update(table).where(_held(held), table.c.outcome.is_(None)), {"begun_at": None})

    async def end(self, held: Submission, outcome: Outcome) -> None:
        await self._changed(update(table).where(_held(held)), {"outcome": _dumped(outcome)})

    async def prune(self, *, expired_before: float) -> int:
        async with self._changing() as connection:
            gone = await connection.execute(delete(table).where(table.c.expires_at <= expired_before))
            return int(gone.rowcount)

    async def _changed(self, statement: Any, values: dict[str, Any]) -> bool:
        async with self._changing() as connection:
            return bool((await connection.execute(statement.values(values))).rowcount)

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction. CATALOG_UNAVAILABLE if the database does not answer."""
        try:
            async with self._database.asynchronous.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise unavailable(f"submissions: {type(error).__name__}: {error}") from error


async def _claim(connection: AsyncConnection, wanted: Submission, keys_max: int) -> Submission | None:
    expired = and_(_is(wanted.id), table.c.expires_at <= wanted.claimed_at)
    await connection.execute(delete(table).where(expired))
    found = (await connection.execute(select(table).where(_is(wanted.id)))).mappings().first()
    if found is not None:
        return _submission(found)
    owned = await connection.execute(select(func.count()).select_from(table).where(_is_owned(wanted.id)))
    if int(owned.scalar_one()) >= keys_max:
        return None
    await connection.execute(insert(table).values(_row(wanted)))
    return wanted


def _is_owned(id: SubmissionId) -> ColumnElement[bool]:
    return and_(table.c.tenant == id.tenant, table.c.principal == id.principal, table.c.actor == id.actor)


def _is(id: SubmissionId) -> ColumnElement[bool]:
    return and_(_is_owned(id), table.c.key == id.key, table.c.part == id.part)


def _held(submission: Submission) -> ColumnElement[bool]:
    """The claim is still that query's."""
    return and_(_is(submission.id), table.c.query_id == submission.query_id)


def _row(submission: Submission) -> dict[str, Any]:
    return {
        "tenant": submission.id.tenant,
        "principal": submission.id.principal,
        "actor": submission.id.actor,
        "key": submission.id.key,
        "part": submission.id.part,
        "digest": submission.digest,
        "query_id": submission.query_id,
        "claimed_at": submission.claimed_at,
        "expires_at": submission.expires_at,
        "begun_at": submission.begun_at,
        "outcome": None if submission.outcome is None else _dumped(submission.outcome),
    }


def _submission(row: RowMapping) -> Submission:
    return Submission(
        SubmissionId(row["tenant"], row["principal"], row["actor"], row["key"], row["part"]),
        row["digest"],
        QueryId(row["query_id"]),
        row["claimed_at"],
        row["expires_at"],
        row["begun_at"],
        None if row["outcome"] is None else _loaded(row["outcome"]),
    )


def _dumped(outcome: Outcome) -> str:
    match outcome:
        case Done(affected_rows, schema, answer_rows):
            encoded = base64.b64encode(schema).decode()
            said: dict[str, Any] = {"done": affected_rows, "schema": encoded, "answer_rows": answer_rows}
        case Broke(code, message, sqlstate, details, is_unknown):
            said = {
                "broke": code.value,
                "message": message,
                "sqlstate": sqlstate,
                "details": dict(details),
                "is_unknown": is_unknown,
            }
    return json.dumps(said)


def _loaded(text: str) -> Outcome:
    said = json.loads(text)
    if "done" in said:
        return Done(said["done"], base64.b64decode(said["schema"]), said["answer_rows"])
    return Broke(Code(said["broke"]), said["message"], said["sqlstate"], said["details"], said["is_unknown"])
