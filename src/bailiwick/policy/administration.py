"""Does what the policy statements say, for those who may.

Admins change policy; who owns an object grants and revokes privileges on it; nobody changes anything on
behalf of somebody else. Admins and auditors see all of it, others what concerns themselves. Results are Arrow
tables; those of a command that only changes something have no columns, as with Spark's own.

EXPLAIN POLICY needs what Spark says about a statement, so it is answered elsewhere (`explain.py`); only who
may ask it is checked here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pyarrow as pa
from sqlalchemy.exc import SQLAlchemyError

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import ADMIN, AUDITOR, Principal
from bailiwick.names import Namespace
from bailiwick.policy import commands as command
from bailiwick.policy import files
from bailiwick.policy.access import Access
from bailiwick.policy.binding import Names, TableFacts
from bailiwick.policy.definitions import Definitions, Wishes
from bailiwick.policy.explain import EXPLANATION, check_may_explain
from bailiwick.policy.expressions import ExpressionCheck
from bailiwick.policy.file_binding import FileBinding, described
from bailiwick.policy.rule_checks import RuleChecks
from bailiwick.policy.showing import GRANTS, POLICIES, ROLES, Showing
from bailiwick.policy.store import PolicyStore

NOTHING = pa.schema([])
FILE = pa.schema([("file", pa.string())])
HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("changed_at", pa.timestamp("us", tz="UTC")),
        ("changed_by", pa.string()),
        ("actor", pa.string()),
        ("change", pa.string()),
    ]
)
DIFFERENCES = pa.schema([("change", pa.string())])
ATTEMPTS_MAX = 3
"""So often a change is tried when others change policy at the same time."""


def result_schema(asked: command.PolicyCommand) -> pa.Schema:
    """What the answer will have, known before anything is done."""
    match asked:
        case command.ShowRoles():
            return ROLES
        case command.ShowGrants():
            return GRANTS
        case command.ShowPolicies():
            return POLICIES
        case command.ShowPolicyFile():
            return FILE
        case command.ShowPolicyHistory():
            return HISTORY
        case command.ApplyPolicy():
            return DIFFERENCES
        case command.ExplainPolicy():
            return EXPLANATION
        case _:
            return NOTHING


class PolicyAdministration:
    def __init__(
        self,
        store: PolicyStore,
        check: ExpressionCheck,
        facts: TableFacts,
        *,
        catalogs: frozenset[str] = frozenset({"lake"}),
    ) -> None:
        """`catalogs` are those that a name may begin with."""
        self._store = store
        self._definitions = Definitions(facts, RuleChecks(check))
        self._files = FileBinding(facts, RuleChecks(check), catalogs)
        self._catalogs = catalogs

    def check_access(self, asked: command.PolicyCommand, principal: Principal) -> None:
        """Refuse what `principal` may not, before any look at whether what it names exists.

        Whether they own what they grant on is found out by `perform`.
        """
        match asked:
            case command.ShowRoles() | command.ShowGrants() | command.ShowPolicies():
                _require_role(principal)
            case command.ShowPolicyFile() | command.ShowPolicyHistory():
                if not principal.may_read_policy:
                    raise _needs(ADMIN, AUDITOR)
            case command.ExplainPolicy():
                _require_role(principal)
                check_may_explain(asked, principal)
            case _ if principal.is_acted_for:
                raise _on_behalf(principal)
            case command.GrantPrivileges() | command.RevokePrivileges():
                _require_role(principal)
            case _ if not principal.may_change_policy:
                raise _needs(ADMIN)

    async def perform(
        self, asked: command.Performed, principal: Principal, catalog: str, namespace: Namespace
    ) -> pa.Table:
        """Do it, if `principal` may; the answer has `result_schema(asked)`.

        `catalog` and `namespace` are the session's: what names mean that are not in full.
        """
        self.check_access(asked, principal)
        names = Names(self._catalogs, catalog, namespace)
        try:
            match asked:
                case command.ShowPolicyHistory():
                    return await self._history()
                case command.ApplyPolicy():
                    return await self._apply(asked, principal)
                case command.ShowRoles() | command.ShowGrants() | command.ShowPolicies():
                    return await self._show(asked, self.access(principal), names)
                case command.ShowPolicyFile():
                    return await self._file()
                case _:
                    return await self._change(asked, principal, names)
        except SQLAlchemyError as error:
            raise BailiwickError(
                Code.STORAGE_ERROR, "The policies could not be read or stored.", cause_text=str(error)
            ) from error

    def access(self, principal: Principal) -> Access:
        """What `principal` may, as policies are now."""
        return Access(principal, self._store.current)

    async def _change(self, asked: command.Change, principal: Principal, names: Names) -> pa.Table:
        await self._changed(principal, lambda access: self._definitions.wishes(asked, access, names))
        return NOTHING.empty_table()

    async def _apply(self, asked: command.ApplyPolicy, principal: Principal) -> pa.Table:
        """The changes, whether they are made or only tried."""
        if asked.dry_run:
            wishes = await self._files.wishes(asked.text, self._store.current)
            await asyncio.to_thread(self._store.preview, wishes)
        else:
            wishes = await self._changed(
                principal, lambda access: self._files.wishes(asked.text, access.policies)
            )
        return pa.Table.from_pylist(described(wishes), schema=DIFFERENCES)

    async def _changed(
        self, principal: Principal, wishes_under: Callable[[Access], Awaitable[Wishes]]
    ) -> Wishes:
        attempt = 0
        while True:
            attempt += 1
            access = self.access(principal)
            wishes = await wishes_under(access)
            try:
                # What was found out holds for these policies only: who owns what, which masks a tag has.
                if wishes:
                    await self._store.change(wishes, principal, expected_version=access.version)
                return wishes
            except BailiwickError as error:
                if error.code is not Code.COMMIT_CONFLICT or attempt == ATTEMPTS_MAX:
                    raise

    async def _show(
        self,
        asked: command.ShowRoles | command.ShowGrants | command.ShowPolicies,
        access: Access,
        names: Names,
    ) -> pa.Table:
        showing, sees_all = Showing(access), access.principal.may_read_policy
        match asked:
            case command.ShowRoles():
                return showing.roles()
            case command.ShowGrants(on, to):
                if on is None:
                    return showing.grants(to=to)
                securable, table = await self._definitions.visible(on, access, names, sees_all=sees_all)
                return showing.grants(on=securable, table=table)
            case command.ShowPolicies(parts):
                if parts is None:
                    return showing.policies()
                on = command.ObjectName(command.ObjectKind.TABLE, parts)
                _, table = await self._definitions.visible(on, access, names, sees_all=sees_all)
                return showing.policies(table)

    async def _file(self) -> pa.Table:
        text = await asyncio.to_thread(files.rendered, self._store.current)
        return pa.Table.from_pylist([{"file": text}], schema=FILE)

    async def _history(self) -> pa.Table:
        rows = [
            {
                "version": version.version,
                "changed_at": datetime.fromtimestamp(version.at, UTC),
                "changed_by": version.by,
                "actor": version.actor,
                "change": change,
            }
            for version in await self._store.history()
            for change in version.what
        ]
        return pa.Table.from_pylist(rows, schema=HISTORY)


def _require_role(principal: Principal) -> None:
    if not principal.may_ask:
        raise BailiwickError(
            Code.ACCESS_DENIED, f"{principal.name} has no role.", details={"reason": "no_role"}
        )


def _needs(*roles: str) -> BailiwickError:
    named = " or ".join(f"'{role}'" for role in roles)
    return BailiwickError(
        Code.ACCESS_DENIED, f"This needs role {named}.", details={"missing_role": roles[-1]}
    )


def _on_behalf(principal: Principal) -> BailiwickError:
    return BailiwickError(
        Code.ACCESS_DENIED,
        f"Policies are not changed on behalf of somebody else: {principal.actor} must use their own name.",
        details={"reason": "on_behalf_of"},
    )
