"""Clients' sessions: whose they are, and when they end.

A client names its session itself, and the name counts for nothing but within one principal: the same name
said by somebody else is another session. Every call proves anew who calls. What a client is told as the
server's own name of the session stays the same on whatever engine it lives.

A session that nobody uses is forgotten by its engine first and by the gateway later; who comes back to one
that the gateway does not know is told so, and never goes on with another one than it believes to have.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from bailiwick.clock import Clock, monotonic
from bailiwick.doors.spark_connect.brought_rows import BroughtRows, Room
from bailiwick.doors.spark_connect.config import SparkConnectConfig
from bailiwick.doors.spark_connect.engine_session import Dedicated, Dedicating
from bailiwick.doors.spark_connect.errors import not_cloned, session_changed, session_closed
from bailiwick.doors.spark_connect.session import TIME_ZONE, Session
from bailiwick.doors.spark_connect.shared_session import Place
from bailiwick.engines.engine import EngineLost
from bailiwick.errors import USER_CODE, BailiwickError, Code
from bailiwick.fleet.placement import Placement
from bailiwick.fleet.report import TRUSTED
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.identity.abilities import may_run_code
from bailiwick.identity.principal import Principal
from bailiwick.queries import failures
from bailiwick.queries.client_sessions import ClientSessions
from bailiwick.queries.spark_life import RETRY_PAUSE_S
from bailiwick.results.spool import Spool

DOOR = "spark_connect"
ENDED_REMEMBERED_MAX = 10_000
SWEEP_EVERY_S = 5.0
TRIES = 3
"""How often a session is asked whose engines are lost meanwhile."""

Key = tuple[str, str, str | None, str]
"""Tenant, name, who acts for them, and what the client calls its session."""

T = TypeVar("T")
P = TypeVar("P", bound=Place)
_NO_ROOM = frozenset({"sessions", "sessions_per_user"})


class Sessions:
    """All of them. Use `sweep_forever` as a task, and `close` at the end."""

    def __init__(
        self,
        dedicating: Dedicating,
        shared: Place,
        shown: ClientSessions,
        spool: Spool,
        config: SparkConnectConfig,
        *,
        work_for: Callable[[Principal], Work] = lambda _principal: ANYWHERE,
        now: Clock = monotonic,
    ) -> None:
        """`work_for` says where a principal's sessions may live."""
        self.work_for = work_for
        self._dedicating = dedicating
        self._shared = shared
        self._shown = shown
        self._spool = spool
        self._room = Room(
            config.brought_bytes_per_plan_max, config.brought_bytes_per_user_max, config.brought_bytes_max
        )
        self._config = config
        self._now = now
        self._plain_settings: dict[str, str | None] = {}
        self._sessions: dict[Key, Session] = {}
        self._ended: OrderedDict[Key, None] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def find(self, principal: Principal, session_id: str, observed: str, place: str) -> Session:
        """The principal's session of that name, made now if the client has not seen one yet."""
        key = _key(principal, session_id)
        session = self._sessions.get(key)
        if session is None:
            session = self._begin(key, principal, observed, place)
        elif observed and observed != session.server_side_id:
            raise session_changed(session_id, "The session that this client knew has ended.")
        self._touch(key, session, principal, place)
        return session

    def known(self, principal: Principal, session_id: str, observed: str) -> Session:
        """The same, if there is one. INVALID_HANDLE.SESSION_CHANGED if not."""
        session = self._sessions.get(_key(principal, session_id))
        if session is None or (observed and observed != session.server_side_id):
            raise session_changed(session_id, "The gateway does not know this session, or not any more.")
        session.last_used_at = self._now()
        return session

    def clone(self, session: Session, principal: Principal, session_id: str, place: str) -> Session:
        """Another session of the principal's, which begins as `session` is now."""
        key = _key(principal, session_id)
        if key in self._sessions:
            raise not_cloned("TARGET_SESSION_ID_ALREADY_EXISTS", session_id, "there is one of that name.")
        if key in self._ended:
            raise not_cloned("TARGET_SESSION_ID_ALREADY_CLOSED", session_id, "one of that name was closed.")
        if session.recipe.lost is not None:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"The session cannot be cloned: it has {session.recipe.lost}.",
                retryable=False,
                details={"reason": "limit", "limit": "recipe"},
            )
        clone = self._make(key, principal, place, session.brought_rows)
        self._touch(key, clone, principal, place)
        if not session.recipe.is_empty:
            clone.change(session.recipe)
        return clone

    async def release(self, principal: Principal, session_id: str, *, allow_reconnect: bool) -> str:
        """End it, and give what the server called it. One that has ended or never was is fine."""
        key = _key(principal, session_id)
        session = self._sessions.pop(key, None)
        if not allow_reconnect:
            self._remember_ended(key)
        if session is None:
            return ""
        self._shown.close(session.shown)
        await session.end()
        return session.server_side_id

    def may_run_code(self, principal: Principal) -> bool:
        return may_run_code(principal, self._config.user_code_roles)

    def placed(self, session: Session, principal: Principal, work: Work) -> Work:
        """The same work, where this session's may be done. ACCESS_DENIED if that is nowhere (any more)."""
        if not session.recipe.has_code:
            return work
        if not self.may_run_code(principal):
            raise BailiwickError(
                Code.ACCESS_DENIED,
                "This session has run code of yours, which you may not any more. Open another session.",
                details={"reason": USER_CODE},
            )
        return replace(work, engine_class=TRUSTED, placement=Placement.REQUIRE)

    async def fit(self, session: Session, principal: Principal, work: Work | None = None) -> Dedicated:
        """Its engine session; if there are too many, one that nobody uses now is given back for it."""
        work = self.placed(session, principal, self.work_for(principal) if work is None else work)
        while True:
            try:
                return await session.engine.fit(principal, work)
            except BailiwickError as error:
                is_full = error.code is Code.RESOURCE_EXHAUSTED and error.details.get("reason") in _NO_ROOM
                idle = self._longest_idle(principal) if is_full else None
                if idle is None:
                    raise
                await idle.engine.give_back()

    async def ask(
        self, session: Session, principal: Principal, question: Callable[[Dedicated], Awaitable[T]]
    ) -> T:
        """What its own engine session answers to something that changes nothing but that session.

        If it is lost meanwhile, it is made again and asked again.
        """
        return await _asked(partial(self.fit, session, principal), question, TRIES)

    async def ask_anywhere(
        self,
        session: Session,
        principal: Principal,
        question: Callable[[Place], Awaitable[T]],
        *,
        work: Work | None = None,
        leaves_nothing: bool = True,
        tries: int = TRIES,
    ) -> T:
        """The same of any engine session, if the client's is plain and what is asked `leaves_nothing`."""

        async def place() -> Place:
            is_shared = leaves_nothing and session.is_plain
            return self._shared if is_shared else await self.fit(session, principal, work)

        return await _asked(place, question, tries)

    async def sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP_EVERY_S, self._config.engine_idle_s / 4))
            self.sweep()

    def sweep(self) -> None:
        """End what is idle, in the background."""
        now = self._now()
        for key, session in list(self._sessions.items()):
            session.operations.sweep(self._config.detach_s)
            idle_s = 0.0 if session.is_busy else now - session.last_used_at
            if idle_s > self._config.idle_s:
                self._end(key)
            elif idle_s > self._config.engine_idle_s and session.engine.is_open and not session.recipe.lost:
                self._spawn(session.engine.give_back())

    async def close(self) -> None:
        for key in list(self._sessions):
            self._end(key)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _begin(self, key: Key, principal: Principal, observed: str, place: str) -> Session:
        if key in self._ended:
            raise session_closed(key[-1])
        if observed:
            raise session_changed(key[-1], "The gateway does not know this session, or not any more.")
        return self._make(key, principal, place)

    def _make(self, key: Key, principal: Principal, place: str, rows: BroughtRows | None = None) -> Session:
        """A new session, with the same `rows`, if another has brought some for it."""
        self._make_room(key)
        shown = self._shown.offer(principal, DOOR, place)
        session = Session(
            key[-1],
            shown,
            self._dedicating,
            self._config,
            BroughtRows(self._spool, self._room, key[:3]) if rows is None else rows.shared(),
            self._plain_settings,
            self._now(),
            self._show,
        )
        self._sessions[key] = session
        return session

    def _show(self, session: Session) -> None:
        """What `system.runtime.sessions` tells of it."""
        zone = session.recipe.confs.get(TIME_ZONE, session.shown.settings.time_zone)
        if zone != session.shown.settings.time_zone:
            self._shown.change(session.shown, replace(session.shown.settings, time_zone=zone))

    def _make_room(self, key: Key) -> None:
        own = [known for known in self._sessions if known[:3] == key[:3]]
        config = self._config
        for keys, most in ((own, config.sessions_per_user_max), (list(self._sessions), config.sessions_max)):
            if len(keys) < most:
                continue
            idle = [known for known in keys if not self._sessions[known].is_busy]
            if not idle:
                raise BailiwickError(
                    Code.RESOURCE_EXHAUSTED,
                    "There are too many Spark sessions, and all of them are busy. Stop some of them.",
                    retryable=False,
                    details={"reason": "limit", "limit": "sessions_per_user_max"},
                )
            self._end(min(idle, key=lambda known: self._sessions[known].last_used_at))

    def _touch(self, key: Key, session: Session, principal: Principal, place: str) -> None:
        session.last_used_at = self._now()
        shown = session.shown
        try:
            session.shown = self._shown.find(
                shown.id, principal, offered_at=shown.opened_at, door=DOOR, client=place
            )
        except BailiwickError:
            self._end(key)
            raise session_changed(session.id, "The session has ended.") from None

    def _longest_idle(self, principal: Principal) -> Session | None:
        """Among those of the principal, or else of everybody, that hold an engine session and do nothing."""
        held = [each for each in self._sessions.values() if each.engine.is_open and not each.is_busy]
        held = [each for each in held if each.recipe.lost is None]
        own = [each for each in held if each.shown.principal == principal.name]
        return min(own or held, key=lambda each: each.last_used_at, default=None)

    def _end(self, key: Key) -> None:
        """Not by its client's wish: who comes back is told that it changed, and PySpark makes a new one."""
        session = self._sessions.pop(key)
        self._shown.close(session.shown)
        self._spawn(session.end())

    def _remember_ended(self, key: Key) -> None:
        self._ended[key] = None
        if len(self._ended) > ENDED_REMEMBERED_MAX:
            self._ended.popitem(last=False)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _key(principal: Principal, session_id: str) -> Key:
    return principal.tenant, principal.name, principal.actor, session_id


async def _asked(place: Callable[[], Awaitable[P]], question: Callable[[P], Awaitable[T]], tries: int) -> T:
    """Ask again, elsewhere, as long as engines are lost over it."""
    lost: EngineLost | None = None
    for number in range(tries):
        if lost is not None:
            await asyncio.sleep(RETRY_PAUSE_S * 2**number)
        asked: P | None = None
        try:
            asked = await place()
            return await question(asked)
        except EngineLost as error:
            lost = error
            if asked is not None:
                asked.retire()
    raise failures.engine_lost(None, str(lost))
