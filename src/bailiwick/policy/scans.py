"""What a statement does to which tables, each with what is decided about it, for EXPLAIN POLICY.

From what Spark says that the statement touches. It foresees what the catalog and the guard will say, and
asks neither: what is allowed here may still fail for what only running it shows.
"""

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from bailiwick.names import TableName
from bailiwick.policy import spelling
from bailiwick.policy.access import Access
from bailiwick.policy.binding import TableFacts
from bailiwick.policy.decision import Decision, Table
from bailiwick.policy.explain import Scan, missing
from bailiwick.policy.model import Privilege

_WRITES = MappingProxyType(
    {
        "AppendData": (Privilege.INSERT,),
        "InsertIntoStatement": (Privilege.INSERT,),
        "OverwriteByExpression": (Privilege.INSERT, Privilege.DELETE),
        "OverwritePartitionsDynamic": (Privilege.INSERT, Privilege.DELETE),
        "DeleteFromTable": (Privilege.DELETE,),
        "TruncateTable": (Privilege.DELETE,),
        "UpdateTable": (Privilege.UPDATE,),
        "MergeIntoTable": (Privilege.UPDATE,),
        "DropTable": (Privilege.DROP,),
        "DropView": (Privilege.DROP,),
        "DropIcebergView": (Privilege.DROP,),
    }
)
_CREATES = ("CreateTable", "ReplaceTable", "CreateView", "CreateIcebergView")
_ROW_CHANGES = frozenset({Privilege.UPDATE, Privilege.DELETE})


def scans(
    command: str, reads: Iterable[str], writes: Iterable[str], access: Access, facts: TableFacts
) -> list[Scan]:
    """`command` is Spark's name of it; the others are full names as one writes them. May block."""
    found = [_read(name, access, facts) for name in reads]
    targets = tuple(writes)
    if command == "RenameTable" and len(targets) > 1:
        found += [_change(targets[0], Privilege.DROP, access, facts), _create(targets[1], access)]
    elif command.startswith(_CREATES):
        found += [_create(name, access) for name in targets]
    else:
        actions = _WRITES.get(command, (Privilege.ALTER,))
        found += [_change(name, action, access, facts) for name in targets for action in actions]
    return found


def _read(name: str, access: Access, facts: TableFacts) -> Scan:
    table = _table(name, facts)
    if table is not None:
        return Scan(name, Privilege.SELECT, access.table(Privilege.SELECT, table), table)
    base = _base(name, facts)
    if base is None:
        return missing(name, Privilege.SELECT)
    decision = access.table(Privilege.SELECT, base)
    if decision.allowed and decision.is_restricted:
        decision = _refused(decision, f"{base} is restricted, and its metadata would tell of hidden rows.")
    return Scan(name, Privilege.SELECT, decision, base)


def _change(name: str, action: Privilege, access: Access, facts: TableFacts) -> Scan:
    table = _table(name, facts)
    if table is None:
        return missing(name, action)
    decision = access.table(action, table)
    if action in _ROW_CHANGES and decision.allowed and decision.is_restricted:
        decision = _refused(decision, f"{table} is restricted: rows may be added, not changed or removed.")
    return Scan(name, action, decision, table)


def _create(name: str, access: Access) -> Scan:
    catalog, *levels = spelling.read(name)[0]
    namespace = tuple(levels[:-1])
    decision = access.namespace(Privilege.CREATE, catalog, namespace)
    return Scan(spelling.written((catalog, *namespace)), Privilege.CREATE, decision)


def _table(name: str, facts: TableFacts) -> Table | None:
    catalog, *levels = spelling.read(name)[0]
    return facts.find(catalog, TableName(tuple(levels[:-1]), levels[-1])) if len(levels) > 1 else None


def _base(name: str, facts: TableFacts) -> Table | None:
    """The table of which this may be a metadata table or a branch: `lake.sales.orders.snapshots`."""
    catalog, *levels = spelling.read(name)[0]
    return facts.find(catalog, TableName(tuple(levels[:-2]), levels[-2])) if len(levels) > 2 else None


def _refused(decision: Decision, because: str) -> Decision:
    return replace(decision, allowed=False, because=(because, *decision.because))
