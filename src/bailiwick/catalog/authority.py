"""Whether a call may do what it asks for. The only place in the catalog that asks policy.

What the caller holds no privilege on is missing, in the very words of what is missing. What is seen but may
not be done is refused, and the refusal says which privilege is lacking. Every answer is noted with the call.
"""

from collections.abc import Iterable, Sequence

from bailiwick.catalog.backend import Kind
from bailiwick.catalog.call import Call, Decided, missing
from bailiwick.catalog.commits import Loaded
from bailiwick.catalog.contents import Contents
from bailiwick.catalog.facts import Facts
from bailiwick.catalog.needs import HARMLESS_WHEN_RESTRICTED, Need
from bailiwick.catalog.ownership import MadeHere, WithOwn
from bailiwick.catalog.refusals import ForbiddenError, NoSuchNamespaceError
from bailiwick.names import Namespace, TableName, spelled
from bailiwick.policy import spelling
from bailiwick.policy.access import Access
from bailiwick.policy.decide import Decision, Table
from bailiwick.policy.model import TABLE_PRIVILEGES, BoundColumn, Privilege

_SELECT_FIRST = (Privilege.SELECT, *sorted(TABLE_PRIVILEGES - {Privilege.SELECT}))


class Authority:
    """Any thread may ask. Reads no files."""

    def __init__(self, facts: Facts, made_here: MadeHere) -> None:
        self._facts = facts
        self._made_here = made_here

    def sees_table(self, call: Call, name: TableName, uuid: str) -> bool:
        return self._access(call).sees_table(self._facts.catalog, name, uuid)

    def sees_namespace(self, call: Call, namespace: Namespace) -> bool:
        return self._access(call).sees_namespace(self._facts.catalog, namespace)

    def seen_namespace(self, call: Call, contents: Contents, namespace: Namespace) -> None:
        """Return if it is there for the caller. Raises NoSuchNamespaceError."""
        contents.namespace(namespace)
        if not self.sees_namespace(call, namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {spelled(namespace)}")

    def seen(self, call: Call, contents: Contents, name: TableName, kind: Kind) -> None:
        """Return if the table or view is there for the caller. Raises NoSuchTableError or NoSuchViewError."""
        entry = contents.entry(name, kind)
        if not self.sees_table(call, name, entry.uuid):
            raise missing(kind, name)

    def standing(self, call: Call, loaded: Loaded) -> Decision:
        """All that the caller holds on a table or view, with its rules. Raises if they do not see it."""
        table = self._facts.table(loaded)
        access = self._access(call)
        asked, decision = Privilege.SELECT, access.table(Privilege.SELECT, table)
        # Rules come with a privilege that is held: one who only inserts has to respect the filters, too.
        for privilege in _SELECT_FIRST:
            if not decision.allowed and privilege in decision.privileges:
                asked, decision = privilege, access.table(privilege, table)
        self._note(call, str(table), (asked,), decision)
        if not decision.is_visible:
            raise missing(loaded.entry.kind, loaded.name)
        return decision

    def required(self, call: Call, loaded: Loaded, *any_of: Privilege) -> Decision:
        """The decision, if one of these privileges is held. Raises as `seen` does, or ForbiddenError."""
        table = self._facts.table(loaded)
        decision = self._decided(call, table, any_of)
        if not decision.is_visible:
            raise missing(loaded.entry.kind, loaded.name)
        if not decision.allowed:
            raise ForbiddenError(_lacking(call, table, decision, any_of))
        return decision

    def required_of_commit(
        self, call: Call, loaded: Loaded, needs: Sequence[Need], lost: Iterable[tuple[int, str]]
    ) -> None:
        """Return if the commit may be made. Raises as `required` does."""
        if not needs:
            self.required(call, loaded, *sorted(TABLE_PRIVILEGES - {Privilege.SELECT}))
        for need in needs:
            decision = self.required(call, loaded, *need.any_of)
            if decision.is_restricted and need not in HARMLESS_WHEN_RESTRICTED:
                raise ForbiddenError(
                    f"some of {self._facts.table(loaded)} is hidden from you: you can add rows to it, but "
                    "not change or remove what is there"
                )
        if not call.principal.may_change_policy:
            self._check_rules_keep(call.access, self._facts.table(loaded), lost)

    def required_of_namespace(
        self, call: Call, contents: Contents, namespace: Namespace, privilege: Privilege
    ) -> None:
        """`()` is the catalog itself. Raises NoSuchNamespaceError or ForbiddenError."""
        if namespace:
            self.seen_namespace(call, contents, namespace)
        decision = self._access(call).namespace(privilege, self._facts.catalog, namespace)
        what = spelling.written((self._facts.catalog, *namespace))
        self._note(call, what, (privilege,), decision)
        if not decision.allowed:
            kind = "namespace" if namespace else "catalog"
            raise ForbiddenError(f"{_subject(call)} lacks {privilege} on {kind} {what}.")

    def required_admin(self, call: Call, what: str) -> None:
        """Raises ForbiddenError. Nothing is looked up before, so a refusal tells nothing of what there is."""
        is_admin = call.principal.is_admin
        call.decided.append(Decided(self._facts.catalog, (), is_admin, () if is_admin else (what,)))
        if not is_admin:
            raise ForbiddenError(f"only an administrator may {what}")

    def _check_rules_keep(self, access: Access, table: Table, lost: Iterable[tuple[int, str]]) -> None:
        named = tuple(_named_by_rules(access, table))
        for field_id, name in lost:
            if any(bound.field_id == field_id or bound.name.lower() == name.lower() for bound in named):
                raise ForbiddenError(
                    f"column {spelling.written((name,))[:200]} of {table} has rules: only one who may change "
                    "these may drop or rename it"
                )

    def _decided(self, call: Call, table: Table, any_of: Sequence[Privilege]) -> Decision:
        access = self._access(call)
        decision = Decision(False)
        for privilege in any_of:
            decision = access.table(privilege, table)
            if decision.allowed:
                break
        self._note(call, str(table), tuple(any_of), decision)
        return decision

    def _note(self, call: Call, what: str, privileges: tuple[Privilege, ...], decision: Decision) -> None:
        filters = (f"row_filter {rule.name}" for rule in decision.filters)
        rules = tuple(dict.fromkeys((*filters, *(f"mask {rule.name}" for rule in decision.masks))))
        call.decided.append(
            Decided(what, privileges, decision.allowed, decision.because, rules, decision.is_visible)
        )

    def _access(self, call: Call) -> Access | WithOwn:
        return self._made_here.access(call.lease, call.access)


def _named_by_rules(access: Access, table: Table) -> Iterable[BoundColumn]:
    where = (table.catalog, table.names, table.uuid)
    for rule in access.policies.filters_on(*where):
        yield from rule.columns
    for mask in access.policies.masks_on(*where):
        yield from (*(() if mask.column is None else (mask.column,)), *mask.columns)
    for tagged in access.policies.tags_on(*where):
        yield tagged.column


def _lacking(call: Call, table: Table, decision: Decision, any_of: Sequence[Privilege]) -> str:
    if len(any_of) > 1 and decision.privileges and not decision.privileges & set(any_of):
        return f"{_subject(call)} lacks {' or '.join(any_of)} on {table.kind} {table}."
    return next(iter(decision.because), "the rules do not allow it")


def _subject(call: Call) -> str:
    return f"user:{call.principal.name}"
