"""CANCEL QUERY 'id': ends a query, one's own or that of somebody one looks after.

    statement := CANCEL QUERY string [;]

The ids are those of `system.runtime.queries`. Ending one that has ended is fine; one that the asker may not
end is said not to exist. The two first words mean nothing to Spark; a text that begins with them and goes
wrong is a SYNTAX_ERROR of ours.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pyarrow as pa

from bailiwick.engines.description import Kind
from bailiwick.identity.lexer import Kind as TokenKind
from bailiwick.identity.lexer import Lexer, first_words
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.queries.own import Describe, Own
from bailiwick.queries.statement import Statement

STATEMENT_CHARS_MAX = 4_096

Cancel = Callable[[QueryId, Principal], Awaitable[None]]
"""End the query, if this principal may."""

_NOTHING = pa.schema([])


@dataclass(frozen=True, slots=True)
class CancelAnswers:
    cancel: Cancel

    def answer(self, statement: Statement, describe: Describe) -> Own | None:
        del describe
        query_id = parse(statement.sql)
        if query_id is None:
            return None

        async def perform() -> pa.Table:
            await self.cancel(query_id, statement.principal)
            return _NOTHING.empty_table()

        return Own(Kind.CHANGE, _NOTHING, perform)


def parse(sql: str) -> QueryId | None:
    """The query to end, or None if the text is not for us.

    >>> parse("cancel query 'q06bq2' ;")
    'q06bq2'
    """
    if first_words(sql[:STATEMENT_CHARS_MAX]) != ("CANCEL", "QUERY"):
        return None
    lexer = Lexer(sql)
    lexer.next()
    lexer.next()
    named = lexer.next()
    if named.kind is not TokenKind.STRING:
        raise lexer.error("Expected the id of a query in single quotes.", named.start)
    end = lexer.next()
    if end.kind is TokenKind.SEMICOLON:
        end = lexer.next()
    if end.kind is not TokenKind.END:
        raise lexer.error("Expected the end of the statement.", end.start)
    return QueryId(named.text)
