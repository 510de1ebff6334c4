"""Policy statements and statements about the audit log, as the query service answers them.

What they do is known in `policy/administration.py` and `audit_answers.py`. EXPLAIN POLICY is put together
here, because it needs both: what Spark says that a statement touches, and what policy says about that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.identity.users import unknown_user
from bailiwick.names import Namespace, TableName
from bailiwick.policy import spelling, statements
from bailiwick.policy.access import Access
from bailiwick.policy.administration import PolicyAdministration, result_schema
from bailiwick.policy.binding import TableFacts
from bailiwick.policy.commands import ExplainPolicy, Show
from bailiwick.policy.explain import Scan, explain_table, missing
from bailiwick.policy.model import Privilege
from bailiwick.queries import audit_answers, audit_statements
from bailiwick.queries.own import Describe, Own
from bailiwick.queries.statement import Statement

FindPerson = Callable[[str], Principal | None]
"""A user by name, with all the roles that they have now."""

POLICY_READER: Final = Principal("bailiwick-policy", frozenset({ADMIN}))
"""Whom the catalog sees while rules are checked or explained. Nobody can sign in by this name's rights."""

_ABSENT = frozenset({Code.TABLE_NOT_FOUND, Code.SCHEMA_NOT_FOUND})
_WRITES = {
    "DeleteFromTable": (Privilege.DELETE,),
    "UpdateTable": (Privilege.UPDATE,),
    "MergeIntoTable": (Privilege.UPDATE,),
    "OverwriteByExpression": (Privilege.INSERT, Privilege.DELETE),
    "TruncateTable": (Privilege.DELETE,),
    "DropTable": (Privilege.DROP,),
    "DropView": (Privilege.DROP,),
    "DropIcebergView": (Privilege.DROP,),
    "RenameTable": (Privilege.DROP,),
    "InsertIntoStatement": (Privilege.INSERT,),
    "AppendData": (Privilege.INSERT,),
}
_CREATES = ("CreateTable", "ReplaceTable", "CreateView", "CreateIcebergView")


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
            Kind.SHOWS if isinstance(command, Show) else Kind.CHANGE,
            result_schema(command),
            lambda: self.administration.perform(command, principal, statement.catalog, statement.namespace),
            "policy",
        )

    async def _explain(self, command: ExplainPolicy, statement: Statement, describe: Describe) -> pa.Table:
        subject = self._subject(command, statement.principal)
        # Who may read all of the policy may know of all tables; everyone else asks with their own eyes.
        reader = POLICY_READER if statement.principal.may_read_policy else statement.principal
        try:
            description = await describe(replace(statement, sql=command.sql, principal=reader, parameters=()))
        except BailiwickError as error:
            if error.code not in _ABSENT:
                raise
            # What Spark does not find for the asker is not there for them, and no more is to be told.
            return explain_table([missing("this table", Privilege.SELECT)], statement.principal)
        access = self.administration.access(subject)
        return explain_table(list(self._scans(description, access)), statement.principal)

    def _subject(self, command: ExplainPolicy, asker: Principal) -> Principal:
        if command.as_user in (None, asker.name):
            return asker
        found = self.find_person(command.as_user)
        if found is None:
            raise unknown_user(command.as_user)
        return found

    def _scans(self, description: Description, access: Access) -> Iterator[Scan]:
        for name in description.reads:
            yield self._scan(name, Privilege.SELECT, access)
        if description.command.startswith(_CREATES):
            actions: tuple[Privilege, ...] = (Privilege.CREATE,)
        else:
            actions = _WRITES.get(description.command, (Privilege.ALTER,))
        for name in description.writes:
            for action in actions:
                yield self._scan(name, action, access)

    def _scan(self, name: str, action: Privilege, access: Access) -> Scan:
        catalog, *levels = spelling.read(name)[0]
        if action is Privilege.CREATE:
            namespace: Namespace = tuple(levels[:-1])
            shown = spelling.written((catalog, *namespace))
            return Scan(shown, action, access.namespace(action, catalog, namespace))
        found = self.facts.find(catalog, TableName(tuple(levels[:-1]), levels[-1]))
        if found is None:
            return missing(name, action)
        return Scan(name, action, access.table(action, found), found)


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
