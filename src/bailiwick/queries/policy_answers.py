"""Policy statements and statements about the audit log, as the query service answers them.

What they do is known in `policy/administration.py` and `audit_answers.py`. EXPLAIN POLICY is put together
here, because it needs both: what Spark says that a statement touches, and what policy says about that.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from bailiwick.engines.description import Kind
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.identity.users import unknown_user
from bailiwick.policy import statements
from bailiwick.policy.administration import PolicyAdministration, result_schema
from bailiwick.policy.binding import TableFacts
from bailiwick.policy.commands import ExplainPolicy
from bailiwick.policy.explain import explain_table
from bailiwick.policy.scans import scans
from bailiwick.queries import audit_answers, audit_statements
from bailiwick.queries.own import Describe, Own
from bailiwick.queries.statement import Statement

FindPerson = Callable[[str], Principal | None]
"""A user by name, with all the roles that they have now."""

POLICY_READER: Final = Principal("bailiwick-policy", frozenset({ADMIN}))
"""Whom the catalog sees while rules are checked or explained. Nobody can sign in by this name's rights."""


@dataclass(frozen=True, slots=True)
class PolicyAnswers:
    administration: PolicyAdministration
    facts: TableFacts
    find_person: FindPerson

    def answer(self, statement: Statement, describe: Describe) -> Own | None:
        command = statements.parse(statement.sql)
        if command is None:
            return None
        principal = statement.principal
        self.administration.check_access(command, principal)
        if isinstance(command, ExplainPolicy):
            return Own(
                Kind.SHOWS,
                result_schema(command),
                lambda: self._explain(command, statement, describe),
                "policy",
            )
        return Own(
            Kind.CHANGE if statements.changes(command) else Kind.SHOWS,
            result_schema(command),
            lambda: self.administration.perform(command, principal, statement.catalog, statement.namespace),
            "policy",
        )

    async def _explain(self, command: ExplainPolicy, statement: Statement, describe: Describe) -> pa.Table:
        subject = self._subject(command, statement.principal)
        # Who may read all of the policy may know of all tables; everyone else asks with their own eyes.
        reader = POLICY_READER if statement.principal.may_read_policy else statement.principal
        # What Spark does not find for the asker is not there for them: that is told as of any statement.
        told = await describe(replace(statement, sql=command.sql, principal=reader, parameters=()))
        access = self.administration.access(subject)
        found = await asyncio.to_thread(scans, told.command, told.reads, told.writes, access, self.facts)
        return explain_table(found, statement.principal)

    def _subject(self, command: ExplainPolicy, asker: Principal) -> Principal:
        if command.as_user in (None, asker.name):
            return asker
        found = self.find_person(command.as_user)
        if found is None:
            raise unknown_user(command.as_user)
        return found


class _Audit(Protocol):
    def check_access(self, principal: Principal) -> None: ...

    async def perform(self, command: audit_statements.AuditCommand, principal: Principal) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class AuditStatements:
    """SHOW AUDIT, VERIFY AUDIT."""

    audit: _Audit

    def answer(self, statement: Statement, describe: Describe) -> Own | None:
        del describe
        command = audit_statements.parse(statement.sql)
        if command is None:
            return None
        principal = statement.principal
        self.audit.check_access(principal)
        return Own(
            Kind.SHOWS,
            audit_answers.result_schema(command),
            lambda: self.audit.perform(command, principal),
            "audit",
        )
