"""The audit log as it is read: by its statements, and as `system.runtime.audit`. For admins and auditors.

Whoever reads sees everything up to now: what was noted and not yet written is written first, unless the disk
fails, in which case the log is shown as far as it goes.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final, assert_never

import pyarrow as pa

from bailiwick.audit.chain import Link, Verification
from bailiwick.audit.entry import AuditEntry
from bailiwick.audit.log import AuditLog
from bailiwick.audit.store import Search
from bailiwick.clock import Clock, wall
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import AUDITOR, Principal
from bailiwick.queries.audit_statements import AuditCommand, ShowAudit, VerifyAudit
from bailiwick.queries.narrowing import NOTHING_KNOWN, Narrowing
from bailiwick.queries.routing import SystemName
from bailiwick.queries.system_tables import SystemTable

SHOWN_MAX: Final = 5_000
"""So many entries at most are in `system.runtime.audit`: the newest. SHOW AUDIT reaches all."""

AUDIT: SystemName = ("system", "runtime", "audit")
AUDIT_SCHEMA: Final = pa.schema(
    [
        pa.field("sequence", pa.int64()),
        pa.field("happened_at", pa.timestamp("us", tz="UTC")),
        pa.field("kind", pa.string()),
        pa.field("principal", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("tenant", pa.string()),
        pa.field("door", pa.string()),
        pa.field("query_id", pa.string()),
        pa.field("what", pa.string()),
        pa.field("tables_read", pa.list_(pa.string())),
        pa.field("tables_written", pa.list_(pa.string())),
        pa.field("rules", pa.list_(pa.string())),
        pa.field("policy_version", pa.int64()),
        pa.field("outcome", pa.string()),
        pa.field("code", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("entry", pa.string()),
        pa.field("previous", pa.string()),
        pa.field("hash", pa.string()),
    ]
)
VERIFICATION_SCHEMA: Final = pa.schema(
    [
        pa.field("is_sound", pa.bool_()),
        pa.field("entries", pa.int64()),
        pa.field("anchor", pa.string()),
        pa.field("gaps", pa.int64()),
        pa.field("broken_at", pa.int64()),
        pa.field("why", pa.string()),
    ]
)
_ENTRY_FIELDS: Final = tuple(field.name for field in fields(AuditEntry) if field.name != "at")


def result_schema(command: AuditCommand) -> pa.Schema:
    """What `perform` will answer with, known before anything is done."""
    match command:
        case ShowAudit():
            return AUDIT_SCHEMA
        case VerifyAudit():
            return VERIFICATION_SCHEMA
    assert_never(command)


class AuditAnswers:
    def __init__(self, log: AuditLog, *, now: Clock = wall) -> None:
        self._log = log
        self._now = now

    def check_access(self, principal: Principal) -> None:
        """Refuse those who may not read the log."""
        if not principal.may_read_audit:
            raise BailiwickError(
                Code.ACCESS_DENIED,
                f"The audit log is for those with role '{AUDITOR}' or 'admin'.",
                details={"missing_role": AUDITOR},
            )

    async def perform(self, command: AuditCommand, principal: Principal) -> pa.Table:
        """The answer, in `result_schema(command)`."""
        self.check_access(principal)
        await self._catch_up()
        match command:
            case ShowAudit(who, since, ago_s, after, limit):
                since = self._now() - ago_s if ago_s is not None else since
                links = await self._log.tail(limit, after=after, search=Search(who, since))
                return await asyncio.to_thread(audit_table, links)
            case VerifyAudit(anchor):
                return _verification(await self._log.verify([] if anchor is None else [anchor]))
        assert_never(command)

    def table(self) -> SystemTable:
        """`system.runtime.audit`."""
        return SystemTable(AUDIT, AUDIT_SCHEMA, self._rows, self._rows_needed)

    async def _rows(self, principal: Principal) -> pa.Table:
        return await self._rows_needed(principal, NOTHING_KNOWN)

    async def _rows_needed(self, principal: Principal, needed: Narrowing) -> pa.Table:
        self.check_access(principal)
        await self._catch_up()
        search = Search(who=needed.equal.get("principal"), query_id=needed.equal.get("query_id"))
        links = await self._log.tail(SHOWN_MAX, search=search)
        return await asyncio.to_thread(audit_table, links)

    async def _catch_up(self) -> None:
        with suppress(BailiwickError):
            await self._log.flush()


def audit_table(links: Sequence[Link]) -> pa.Table:
    """The entries as rows, each with what is needed to verify it elsewhere."""
    return pa.Table.from_pylist([_row(link) for link in links], schema=AUDIT_SCHEMA)


def _row(link: Link) -> dict[str, Any]:
    fixed = {"sequence": link.sequence, "entry": link.text, "previous": link.previous, "hash": link.hash}
    try:
        entry = link.entry
    except ValueError:
        # Not written by us as it is. What is wrong with it is for VERIFY AUDIT to say; here it is shown.
        return fixed
    told = {name: getattr(entry, name) for name in _ENTRY_FIELDS}
    return fixed | told | {"happened_at": round(entry.at * 1_000_000)}


def _verification(found: Verification) -> pa.Table:
    row = {
        "is_sound": found.is_sound,
        "entries": found.count,
        "anchor": str(found.end),
        "gaps": found.gaps,
        "broken_at": None if found.broken is None else found.broken.sequence,
        "why": None if found.broken is None else found.broken.why,
    }
    return pa.Table.from_pylist([row], schema=VERIFICATION_SCHEMA)
