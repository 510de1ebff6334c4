"""Who answers a statement: the gateway itself, its system tables, or Spark.

The same order holds for what a statement is and for what it does, so that nothing is prepared as one thing
and run as another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bailiwick.engines.description import Description, Kind, Parameter
from bailiwick.queries import describing, local_life, spark_life
from bailiwick.queries.own import Answerer, first_answer
from bailiwick.queries.running import Running
from bailiwick.queries.spark_side import SparkSide
from bailiwick.queries.statement import Prepared, Statement
from bailiwick.queries.system_tables import SystemTables
from bailiwick.queries.verdict import may_ask
from bailiwick.results.batches import schema_message


@dataclass(frozen=True, slots=True)
class Answering:
    answerers: Sequence[Answerer]
    tables: SystemTables
    side: SparkSide
    timeout_s: Callable[[Statement], float]

    async def is_own(self, statement: Statement) -> bool:
        """Whether the gateway answers it by itself. Raises what refuses it."""
        if first_answer(self.answerers, statement, self._describe) is not None:
            return True
        may_ask(statement.principal).enforce()
        return await self.tables.route(statement.sql) is not None

    async def prepare(self, statement: Statement) -> Prepared:
        """What the statement is. Nothing runs."""
        own = first_answer(self.answerers, statement, self._describe)
        if own is not None:
            return Prepared(own.kind, schema_message(own.schema))
        may_ask(statement.principal).enforce()
        system = await self.tables.route(statement.sql)
        if system is not None:
            schema = await self.tables.schema(system, statement.parameters)
            unknown = tuple(Parameter(position, None) for position in range(system.parameter_count))
            return Prepared(Kind.READ, schema_message(schema), unknown)
        description = await self._describe(statement)
        return Prepared(description.kind, description.schema, description.parameters)

    async def answer(self, running: Running) -> None:
        """The life of a query whose statement is to be answered."""
        statement, principal = running.statement, running.statement.principal
        own = first_answer(self.answerers, statement, self._describe)
        if own is not None:
            running.category = own.category
            if own.kind is Kind.CHANGE:
                await self.side.begin_change(running)
            await local_life.live(running, own.kind, own.perform, self.side.wall)
            return
        may_ask(principal).enforce()
        system = await self.tables.route(statement.sql)
        if system is not None:
            running.category = "system"
            await local_life.live(
                running,
                Kind.READ,
                lambda: self.tables.answer(system, principal, statement.parameters),
                self.side.wall,
            )
            return
        await spark_life.live(running, self.side)

    async def _describe(self, statement: Statement) -> Description:
        return await describing.prepare(statement, self.side, self.timeout_s(statement))
