"""What is put on record of each query: in the audit log, with what policy decided for it.

A change is recorded before it starts, and does not start unless that is on disk; how it ended is recorded
when it has. A read is recorded when it has ended.
"""

from typing import Protocol

from bailiwick.audit.entry import AuditEntry
from bailiwick.clock import Clock, wall
from bailiwick.errors import BailiwickError
from bailiwick.queries.auditing import Reach, begun, entry_of, turned_away
from bailiwick.queries.policy_decisions import Decisions
from bailiwick.queries.running import Running
from bailiwick.queries.statement import Statement


class Log(Protocol):
    """The audit log, as far as queries need it."""

    def note(self, entry: AuditEntry) -> None: ...

    async def write(self, entry: AuditEntry) -> object: ...

    async def admit(self) -> None: ...


class _NoLog:
    """Keeps nothing."""

    def note(self, entry: AuditEntry) -> None:
        del entry

    async def write(self, entry: AuditEntry) -> None:
        del entry

    async def admit(self) -> None:
        return


class Accounts:
    def __init__(self, log: Log, decisions: Decisions, *, wall: Clock) -> None:
        self._log = log
        self._decisions = decisions
        self._wall = wall

    async def admit(self) -> None:
        """Return when there is room to record what will happen. STORAGE_ERROR if there is none in time."""
        await self._log.admit()

    async def begin_change(self, running: Running) -> None:
        """Before anything is changed. STORAGE_ERROR if it cannot be recorded: then it must not happen."""
        statement = running.statement
        await self._log.write(
            begun(
                running.query,
                statement.principal,
                statement.sql,
                self._wall(),
                reach=self._reach(running),
                category=running.category,
            )
        )

    def end(self, running: Running) -> None:
        """Never waits, never raises."""
        statement = running.statement
        self._log.note(
            entry_of(
                running.query,
                statement.principal,
                statement.sql,
                reach=self._reach(running),
                error=running.error,
                category=running.category,
            )
        )

    def turn_away(self, statement: Statement, error: BailiwickError) -> None:
        """A statement that never became a query. Never waits, never raises."""
        self._log.note(turned_away(statement.principal, statement.door, statement.sql, self._wall(), error))

    def _reach(self, running: Running) -> Reach:
        decisions = self._decisions.of(running.id)
        return Reach(running.reads, running.writes, decisions, running.policy_version)


NO_ACCOUNTS = Accounts(_NoLog(), Decisions(), wall=wall)
"""Nothing is put on record."""
