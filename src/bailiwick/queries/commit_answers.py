"""`SHOW COMMIT 'key'`: what became of a change whose answer got lost.

Engines give each change of the catalog a key; the audit log has it. One asks for one's own; those who may see
everybody's queries, for any.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from bailiwick.catalog.idempotency import CommitShown, Idempotency
from bailiwick.engines.description import Kind
from bailiwick.policy.reading import PolicyLexer, Reader, opening
from bailiwick.queries.own import Describe, Own
from bailiwick.queries.statement import Statement

STATEMENT_CHARS_MAX: Final = 1_024
SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("because", pa.string(), nullable=False),
        pa.field("principal", pa.string()),
        pa.field("tables", pa.list_(pa.string())),
        pa.field("done_at", pa.timestamp("us", tz="UTC")),
    ]
)
_OPENING: Final = ("SHOW", "COMMIT")


def parse(sql: str) -> str | None:
    """The key that is asked for, or None if the statement is another one."""
    if opening(sql[:STATEMENT_CHARS_MAX], len(_OPENING)).words != _OPENING:
        return None
    lexer = PolicyLexer(sql[: STATEMENT_CHARS_MAX + 1])
    if len(sql) > STATEMENT_CHARS_MAX:
        raise lexer.error(f"SHOW COMMIT has at most {STATEMENT_CHARS_MAX} characters.", 0)
    reader = Reader(lexer)
    for word in _OPENING:
        reader.word(word)
    key = reader.string()
    reader.end()
    return key


@dataclass(frozen=True, slots=True)
class CommitAnswers:
    idempotency: Idempotency

    def answer(self, statement: Statement, describe: Describe) -> Own | None:
        del describe
        key = parse(statement.sql)
        if key is None:
            return None

        async def perform() -> pa.Table:
            shown = await asyncio.to_thread(self.idempotency.shown, key, statement.principal)
            return _table(key, shown)

        return Own(Kind.SHOWS, SCHEMA, perform)


def _table(key: str, shown: CommitShown) -> pa.Table:
    outcome = shown.outcome
    row = {
        "key": key,
        "state": shown.state.value,
        "because": shown.because,
        "principal": None if outcome is None else outcome.principal,
        "tables": None if outcome is None else [str(place.name) for place in outcome.places],
        "done_at": None if outcome is None else round(outcome.done_at * 1_000_000),
    }
    return pa.Table.from_pylist([row], schema=SCHEMA)
