"""Where policies live: kept in the database with their history, answered from memory.

What is current is one immutable value that any thread may read at any time. Changes are made one after the
other, in a thread that may wait: whoever comes from the event loop awaits `change`, the facade's threads call
what is not asynchronous. Where several gateways share the database, each change is made to what is current
there, and what others change comes to memory by `catch_up` (see `database/changes.py`). It does not ask
whether somebody may change policies: `administration.py` does.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, insert, select, tuple_
from sqlalchemy.exc import IntegrityError

from bailiwick.clock import Clock, wall
from bailiwick.database import revisions, schema
from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.unbroken import Unbroken
from bailiwick.names import Namespace, TableName
from bailiwick.policy import changes, draft, encoding, happenings, validation
from bailiwick.policy.model import EMPTY, BoundColumn, Policies

HISTORY_ROWS_MAX = 1_000
ATTEMPTS_MAX = 20
"""Of one change, while others are always quicker."""
ROWS_AT_ONCE_MAX = 400


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """What was changed, when and by whom; `actor` is who really did it, on behalf of `by`."""

    version: int
    at: float
    by: str
    actor: str | None
    what: tuple[str, ...]


class PolicyStore:
    """`load` it once before use."""

    def __init__(self, database: Database, *, now: Clock = wall) -> None:
        self._database = database
        self._now = now
        self._current = EMPTY
        self._revision = revisions.UNKNOWN
        self._changing = threading.Lock()
        self._unbroken = Unbroken()
        self._on_change: list[Callable[[Policies], None]] = []

    async def load(self) -> None:
        """Read everything. Raises UnusableDatabaseError rather than to serve a part of it."""
        self._current, self._revision = await asyncio.to_thread(self._read)

    async def catch_up(self) -> None:
        """Take in what other gateways have changed."""
        await asyncio.to_thread(self._catch_up)

    async def close(self) -> None:
        """Wait for changes that are under way."""
        await self._unbroken.wait()

    @property
    def current(self) -> Policies:
        """As of now. Whoever decides several things keeps the one it began with."""
        return self._current

    @property
    def revision(self) -> int:
        """Up to which change in the database, by whomever, `current` is known to be complete."""
        return self._revision

    def on_change(self, callback: Callable[[Policies], None]) -> None:
        """`callback` gets each new version, in the thread that made it, right after it became current.

        Of what other gateways make in quick succession it may get only the last.
        """
        self._on_change.append(callback)

    async def change(
        self, wishes: Iterable[changes.Wish], by: Principal, expected_version: int | None = None
    ) -> Policies:
        """All of the wishes or none of them. Refuses what makes no sense, in sentences.

        With `expected_version`, refuses also if somebody else has changed something since then.
        """
        wanted = tuple(wishes)
        return await self._unbroken.run(asyncio.to_thread(self._change, wanted, by, expected_version))

    def preview(self, wishes: Iterable[changes.Wish]) -> Policies:
        """What `change` would make current, or its refusal. Changes nothing."""
        before = self._current
        after = draft.applied(before, wishes)
        validation.check(after, before)
        return after

    async def history(self, limit: int = HISTORY_ROWS_MAX) -> tuple[PolicyVersion, ...]:
        """The latest changes, the last one first."""
        versions = schema.policy_versions
        newest = select(versions).order_by(versions.c.version.desc()).limit(min(limit, HISTORY_ROWS_MAX))
        async with self._database.asynchronous_reads.connect() as connection:
            found = (await connection.execute(newest)).all()
        return tuple(
            PolicyVersion(row.version, row.at, row.principal, row.actor, tuple(json.loads(row.what)))
            for row in found
        )

    def table_created(
        self, catalog: str, name: TableName, uuid: str, by: Principal, columns: Iterable[BoundColumn] = ()
    ) -> Policies:
        """Its creator owns it, and what waited for a table of this name is bound to it. Blocks.

        Like all that follows: after the catalog's own transaction has ended, for it holds the same
        connection.
        """
        return self._happened(changes.TableCreated(catalog, name, uuid, by.name, tuple(columns)), by)

    def table_renamed(
        self, catalog: str, old: TableName, new: TableName, uuid: str, by: Principal
    ) -> Policies:
        """Its rules and grants go with it. Blocks."""
        return self._happened(changes.TableRenamed(catalog, old, new, uuid), by)

    def table_dropped(self, catalog: str, name: TableName, uuid: str, by: Principal) -> Policies:
        """Its grants end; its rules wait under its name. Blocks."""
        return self._happened(changes.TableDropped(catalog, name, uuid), by)

    def namespace_created(self, catalog: str, namespace: Namespace, by: Principal) -> Policies:
        """Its creator owns it. Blocks."""
        return self._happened(changes.NamespaceCreated(catalog, namespace, by.name), by)

    def namespace_dropped(self, catalog: str, namespace: Namespace, by: Principal) -> Policies:
        """Its creator does not own the next one of its name. Blocks."""
        return self._happened(changes.NamespaceDropped(catalog, namespace), by)

    def _change(
        self, wishes: tuple[changes.Wish, ...], by: Principal, expected_version: int | None
    ) -> Policies:
        def wanted(before: Policies) -> Policies:
            if expected_version is not None and expected_version != before.version:
                raise _changed_meanwhile(before.version, expected_version)
            after = draft.applied(before, wishes)
            validation.check(after, before)
            return after

        return self._made(wanted, by, wishes)

    def _happened(self, happening: changes.Happening, by: Principal) -> Policies:
        return self._made(lambda before: happenings.after(before, happening), by, (happening,))

    def _made(
        self, wanted: Callable[[Policies], Policies], by: Principal, what: tuple[changes.Change, ...]
    ) -> Policies:
        """Make current what `wanted` makes of what is current, once nobody is quicker."""
        with self._changing:
            for _ in range(ATTEMPTS_MAX):
                if self._database.is_shared:
                    self._take_in_others()
                try:
                    return self._store(self._current, wanted(self._current), by, what)
                except (revisions.OvertakenError, IntegrityError):
                    self._take_in_others()
        raise BailiwickError(
            Code.COMMIT_CONFLICT,
            "Others change policies all the time. Try again.",
            details={"reason": "version", "kind": "policy"},
        )

    def _store(
        self, before: Policies, after: Policies, by: Principal, what: tuple[changes.Change, ...]
    ) -> Policies:
        if after == before:
            return before
        after = replace(after, version=before.version + 1).indexed()
        removed, added = encoding.difference(before, after)
        known, self._revision = self._revision, revisions.UNKNOWN
        with self._database.synchronous.begin() as connection:
            revision = revisions.advance(connection, revisions.POLICY, expected=known)
            connection.execute(insert(schema.policy_versions).values(self._version(after.version, by, what)))
            _write(connection, removed, added)
        self._become(after, revision)
        return after

    def _become(self, after: Policies, revision: int) -> None:
        self._current, self._revision = after, revision
        for callback in self._on_change:
            callback(after)

    def _catch_up(self) -> None:
        with self._changing:
            self._take_in_others()

    def _take_in_others(self) -> None:
        with self._database.synchronous_reads.begin() as connection:
            is_latest = revisions.current(connection, revisions.POLICY) == self._revision
        if not is_latest:
            self._become(*self._read())

    def _version(self, version: int, by: Principal, what: tuple[changes.Change, ...]) -> dict[str, object]:
        said = json.dumps([str(change) for change in what], ensure_ascii=False)
        return {"version": version, "at": self._now(), "principal": by.name, "actor": by.actor, "what": said}

    def _read(self) -> tuple[Policies, int]:
        versions, elements = schema.policy_versions, schema.policy_elements
        newest = select(versions.c.version).order_by(versions.c.version.desc()).limit(1)
        with self._database.synchronous_reads.begin() as connection:
            revision = revisions.current(connection, revisions.POLICY)
            version = connection.execute(newest).scalar_one_or_none() or 0
            found = connection.execute(select(elements.c.kind, elements.c.definition)).all()
        rows = (encoding.Row(row.kind, row.definition) for row in found)
        return encoding.policies_of(version, rows), revision


def _changed_meanwhile(version: int, expected_version: int) -> BailiwickError:
    return BailiwickError(
        Code.COMMIT_CONFLICT,
        f"The policies have been changed meanwhile: they are at version {version}, not "
        f"{expected_version}. Look at them again, then repeat.",
        details={"reason": "version", "kind": "policy"},
    )


def _write(connection: Connection, removed: list[encoding.Row], added: list[encoding.Row]) -> None:
    elements = schema.policy_elements
    for at in range(0, len(removed), ROWS_AT_ONCE_MAX):
        keys = [(row.kind, row.definition) for row in removed[at : at + ROWS_AT_ONCE_MAX]]
        connection.execute(delete(elements).where(tuple_(elements.c.kind, elements.c.definition).in_(keys)))
    if added:
        connection.execute(
            insert(elements), [{"kind": row.kind, "definition": row.definition} for row in added]
        )
