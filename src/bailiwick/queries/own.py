"""Statements that the gateway answers by itself: what one of them is, and who knows them.

Each kind of statement (users and tokens, policies, audit) brings an `Answerer`. The first one that knows a
text answers it; a text that none knows is for the system tables or for Spark.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from bailiwick.engines.description import Description, Kind
from bailiwick.identity import statements
from bailiwick.identity.administration import Administration, result_schema
from bailiwick.queries.statement import Statement

Describe = Callable[[Statement], Awaitable[Description]]
"""What Spark says that a statement is, if its principal may run it. Runs nothing."""


@dataclass(frozen=True, slots=True)
class Own:
    """One that is known and that its principal may ask for."""

    kind: Kind
    schema: pa.Schema
    perform: Callable[[], Awaitable[pa.Table]]
    category: str = "administration"
    """What metrics call it."""


class Answerer(Protocol):
    def answer(self, statement: Statement, describe: Describe) -> Own | None:
        """How the statement is answered, or None if it is not known here. Raises what refuses it."""


@dataclass(frozen=True, slots=True)
class UserAnswers:
    """Users, passwords, tokens."""

    administration: Administration

    def answer(self, statement: Statement, describe: Describe) -> Own | None:
        del describe
        command = statements.parse(statement.sql)
        if command is None:
            return None
        self.administration.check_access(command, statement.principal)
        return Own(
            Kind.CHANGE if statements.changes(command) else Kind.SHOWS,
            result_schema(command),
            lambda: self.administration.perform(command, statement.principal),
        )


def first_answer(answerers: Sequence[Answerer], statement: Statement, describe: Describe) -> Own | None:
    """From the first that knows it."""
    for answerer in answerers:
        if (own := answerer.answer(statement, describe)) is not None:
            return own
    return None
