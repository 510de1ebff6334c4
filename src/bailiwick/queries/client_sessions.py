"""What the gateway remembers of a client between its calls: current schema, time zone, a few options.

A session grants nothing. Every call proves anew who calls, and a session is only ever found by its own
principal, and only while the same one acts for them. It is not an engine's session either: a lease is told
these settings for the one query it serves.

A session is offered with the first answer and costs nothing until the client comes back with it, so that a
client that ignores the offer leaves no trace. Whoever comes back with one that has ended is told so, and
never goes on with other settings than it believes to have.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, NewType

import pyarrow as pa

from bailiwick.clock import Clock, steady
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.identity.abilities import seen_by
from bailiwick.identity.principal import Principal
from bailiwick.queries.routing import SystemName
from bailiwick.queries.statement import DEFAULT_CATALOG, Statement
from bailiwick.queries.system_tables import SystemTable

ClientSessionId = NewType("ClientSessionId", str)

DEFAULT_TIME_ZONE = "UTC"
ENDED_REMEMBERED_MAX = 1_000
"""Ended sessions of one principal that are known by name; older ones are refused by their offer's age."""
SWEEP_EVERY_S = 60.0
SHOWN_ID_CHARS = 8

_TIME = pa.timestamp("us", tz="UTC")

SESSIONS: SystemName = ("system", "runtime", "sessions")
SESSIONS_SCHEMA = pa.schema(
    [
        pa.field("session_id", pa.string()),
        pa.field("principal", pa.string()),
        pa.field("tenant", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("door", pa.string()),
        pa.field("client", pa.string()),
        pa.field("catalog", pa.string()),
        pa.field("schema", pa.string()),
        pa.field("time_zone", pa.string()),
        pa.field("double_quoted_identifiers", pa.bool_()),
        pa.field("timeout_s", pa.float64()),
        pa.field("placement", pa.string()),
        pa.field("opened_at", _TIME),
        pa.field("last_used_at", _TIME),
    ]
)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    catalog: str = DEFAULT_CATALOG
    namespace: tuple[str, ...] = ()
    """What unqualified names mean; empty for the catalog's default."""
    time_zone: str = DEFAULT_TIME_ZONE
    double_quoted_identifiers: bool = False
    timeout_s: float | None = None
    """How long a statement may take; None for the configured default."""
    placement: Placement | None = None
    """Where a statement may run; None for what roles and the server say."""

    def statement(self, sql: str, principal: Principal, door: str) -> Statement:
        """`sql` as it is meant under these settings."""
        return Statement(
            sql,
            principal,
            door,
            timeout_s=self.timeout_s,
            catalog=self.catalog,
            namespace=self.namespace,
            time_zone=self.time_zone,
            double_quoted_identifiers=self.double_quoted_identifiers,
            placement=self.placement,
        )


@dataclass(slots=True, eq=False)
class ClientSession:
    """One client's session. Only `ClientSessions` changes it."""

    id: ClientSessionId = field(repr=False)
    principal: str
    tenant: str
    actor: str | None
    """Who acts for the principal; None where they act for themselves."""
    door: str
    client: str
    """Where the client is: `loopback` or `remote`."""
    opened_at: float
    last_used_at: float
    settings: SessionSettings = field(default_factory=SessionSettings)

    @property
    def shelf(self) -> "_ShelfKey":
        return self.tenant, self.principal, self.actor


@dataclass(frozen=True, slots=True)
class SessionLimits:
    idle_s: float = 3600.0
    """A session that is not used for this long ends."""
    per_principal_max: int = 1_000
    total_max: int = 10_000


_ShelfKey = tuple[str, str, str | None]
"""Tenant, name, and who acts for them."""


@dataclass(slots=True, eq=False)
class _Shelf:
    """One principal's sessions, the one that was used longest ago first."""

    kept: OrderedDict[ClientSessionId, ClientSession] = field(default_factory=OrderedDict)
    ended_at: OrderedDict[ClientSessionId, float] = field(default_factory=OrderedDict)
    refused_until: float = 0.0
    """Offers made up to this moment that are not known any more may have ended: they are refused."""


class ClientSessions:
    """All sessions of this process, in memory. Their ids are secrets: they are shown cut."""

    def __init__(self, limits: SessionLimits | None = None, *, now: Clock = steady) -> None:
        self._limits = limits or SessionLimits()
        self._now = now
        self._started_at = now()
        self._swept_at = now()
        self._shelves: dict[_ShelfKey, _Shelf] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def idle_s(self) -> float:
        return self._limits.idle_s

    def offer(self, principal: Principal, door: str, client: str) -> ClientSession:
        """A session that the client may come back with. Nothing is kept of it until then."""
        now = self._now()
        return _session(ClientSessionId(secrets.token_hex(16)), principal, door, client, now, now)

    def find(
        self, session_id: ClientSessionId, principal: Principal, *, offered_at: float, door: str, client: str
    ) -> ClientSession:
        """The session that was offered to this principal. SESSION_EXPIRED if it has ended, or is another's.

        `offered_at` must come from a proof of ours, not from the client's word.
        """
        now = self._now()
        self._sweep(now)
        shelf = self._shelves.setdefault((principal.tenant, principal.name, principal.actor), _Shelf())
        session = shelf.kept.get(session_id)
        if session is not None and session.last_used_at <= now - self._limits.idle_s:
            self._end(shelf, session_id)
            session = None
        if session is None:
            self._refuse_ended(shelf, session_id, offered_at, now)
            session = _session(session_id, principal, door, client, offered_at, now)
            self._keep(shelf, session)
        session.last_used_at = now
        shelf.kept.move_to_end(session_id)
        return session

    def change(self, session: ClientSession, settings: SessionSettings) -> None:
        """Let these settings hold from the session's next statement on."""
        shelf = self._shelves.setdefault(session.shelf, _Shelf())
        if session.id in shelf.ended_at:
            # A call that was still under way when the session was closed.
            raise expired()
        if session.id not in shelf.kept:
            self._keep(shelf, session)
        session.settings = settings

    def close(self, session: ClientSession) -> None:
        """End it: its token is worth nothing from now on. One that has ended or was only offered is fine."""
        shelf = self._shelves.get(session.shelf)
        if shelf is not None and session.id in shelf.kept:
            self._end(shelf, session.id)

    async def rows(self, principal: Principal) -> pa.Table:
        """What `system.runtime.sessions` shows: whatever `abilities.seen_by` says, the newest first."""
        self._sweep(self._now(), at_once=True)
        whose = seen_by(principal)
        shown = [
            session
            for shelf in self._shelves.values()
            for session in shelf.kept.values()
            if whose.covers(session.principal, session.tenant)
        ]
        rows = [_row(session) for session in sorted(shown, key=lambda each: -each.opened_at)]
        return pa.Table.from_pylist(rows, schema=SESSIONS_SCHEMA)

    def _refuse_ended(
        self, shelf: _Shelf, session_id: ClientSessionId, offered_at: float, now: float
    ) -> None:
        is_too_old = offered_at <= max(shelf.refused_until, now - self._limits.idle_s)
        if session_id in shelf.ended_at or is_too_old or offered_at < self._started_at:
            raise expired()

    def _keep(self, shelf: _Shelf, session: ClientSession) -> None:
        while len(shelf.kept) >= self._limits.per_principal_max:
            self._end(shelf, next(iter(shelf.kept)))
        while self._count >= self._limits.total_max:
            # Whoever has the most gives one up, so that nobody can push the others out.
            largest = max(self._shelves.values(), key=lambda each: len(each.kept))
            self._end(largest, next(iter(largest.kept)))
        shelf.kept[session.id] = session
        self._count += 1

    def _end(self, shelf: _Shelf, session_id: ClientSessionId) -> None:
        if shelf.kept.pop(session_id, None) is not None:
            self._count -= 1
        shelf.ended_at[session_id] = self._now()
        if len(shelf.ended_at) > ENDED_REMEMBERED_MAX:
            _, shelf.refused_until = shelf.ended_at.popitem(last=False)

    def _sweep(self, now: float, *, at_once: bool = False) -> None:
        """End what is idle, and forget what no token can speak of any more."""
        if not at_once and now - self._swept_at < min(SWEEP_EVERY_S, self._limits.idle_s / 10):
            return
        self._swept_at = now
        oldest = now - self._limits.idle_s
        for key, shelf in list(self._shelves.items()):
            while shelf.kept and next(iter(shelf.kept.values())).last_used_at <= oldest:
                self._end(shelf, next(iter(shelf.kept)))
            while shelf.ended_at and next(iter(shelf.ended_at.values())) <= oldest:
                shelf.ended_at.popitem(last=False)
            if not shelf.kept and not shelf.ended_at and shelf.refused_until <= oldest:
                del self._shelves[key]


def sessions_table(sessions: ClientSessions) -> SystemTable:
    """`system.runtime.sessions`."""
    return SystemTable(SESSIONS, SESSIONS_SCHEMA, sessions.rows)


def expired() -> BailiwickError:
    return BailiwickError(
        Code.SESSION_EXPIRED, "The session has ended, by itself or by the client. Connect again."
    )


def _session(
    session_id: ClientSessionId,
    principal: Principal,
    door: str,
    client: str,
    opened_at: float,
    last_used_at: float,
) -> ClientSession:
    return ClientSession(
        session_id, principal.name, principal.tenant, principal.actor, door, client, opened_at, last_used_at
    )


def _row(session: ClientSession) -> dict[str, Any]:
    settings = session.settings
    return {
        "session_id": session.id[:SHOWN_ID_CHARS],
        "principal": session.principal,
        "tenant": session.tenant,
        "actor": session.actor,
        "door": session.door,
        "client": session.client,
        "catalog": settings.catalog,
        "schema": ".".join(settings.namespace) or None,
        "time_zone": settings.time_zone,
        "double_quoted_identifiers": settings.double_quoted_identifiers,
        "timeout_s": settings.timeout_s,
        "placement": settings.placement,
        "opened_at": round(session.opened_at * 1_000_000),
        "last_used_at": round(session.last_used_at * 1_000_000),
    }
