"""Entries in the database, one chain for all, also of several gateways. The table itself refuses changes and
deletions, and whoever appends holds the database's write lock: so no two entries follow the same one.

Everything here blocks, for threads. Nothing is ever deleted: what the log holds, it holds until somebody
takes the whole data directory away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, or_, select

from bailiwick.audit.anchor_file import AnchorFile
from bailiwick.audit.chain import NOTHING, Anchor, Break, Link, Verification, Verifier, chain
from bailiwick.database.database import Database
from bailiwick.database.schema import audit as table

PAGE_MAX = 1_000
TAIL_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Search:
    """Which entries; all of these must hold."""

    who: str | None = None
    """In whose name, or by whom on behalf of somebody else."""
    since: float | None = None
    query_id: str | None = None


EVERYTHING = Search()


class AuditStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_shared(self) -> bool:
        """Whether other gateways append to it, too."""
        return self._database.is_shared

    def append(self, texts: Sequence[str]) -> Anchor:
        """Keep these entries after all others, all or none. When it returns they survive a crash."""
        with self._database.synchronous.begin() as connection:
            return self.append_in(connection, texts)

    def append_in(self, connection: Connection, texts: Sequence[str]) -> Anchor:
        """The same as part of the caller's transaction, which must hold the database's write lock."""
        end = _end(connection)
        links = list(chain(texts, end))
        if not links:
            return end
        connection.execute(insert(table), [_row(link) for link in links])
        return links[-1].anchor

    def end(self) -> Anchor:
        """The newest entry's place."""
        with self._database.synchronous_reads.connect() as connection:
            return _end(connection)

    def find(self, sequence: int) -> Link | None:
        with self._database.synchronous_reads.connect() as connection:
            row = connection.execute(select(table).where(table.c.sequence == sequence)).mappings().first()
        return None if row is None else _link(row)

    def after(self, sequence: int, limit: int, search: Search = EVERYTHING) -> list[Link]:
        """The entries that follow `sequence`, the oldest first, up to `limit` of them."""
        statement = _searched(search).where(table.c.sequence > sequence).order_by(table.c.sequence)
        with self._database.synchronous_reads.connect() as connection:
            return [_link(row) for row in connection.execute(statement.limit(limit)).mappings()]

    def newest(self, limit: int, search: Search = EVERYTHING) -> list[Link]:
        """The last `limit` entries, the oldest of them first."""
        statement = _searched(search).order_by(table.c.sequence.desc()).limit(limit)
        with self._database.synchronous_reads.connect() as connection:
            rows = list(connection.execute(statement).mappings())
        return [_link(row) for row in reversed(rows)]

    def verify(self, anchors: Sequence[Anchor] = ()) -> Verification:
        """Look at every entry there is. In pages: a log may be large, and others want to read, too."""
        verifier = Verifier(anchors)
        at = 0
        while rows := self._rows_after(at):
            for row in rows:
                look_at(verifier, row)
            if verifier.is_broken:
                break
            at = rows[-1]["sequence"]
        return verifier.end()

    def _rows_after(self, sequence: int) -> list[RowMapping]:
        statement = select(table).where(table.c.sequence > sequence).order_by(table.c.sequence)
        with self._database.synchronous_reads.connect() as connection:
            return list(connection.execute(statement.limit(PAGE_MAX)).mappings())


def verified(
    look: Callable[[Sequence[Anchor]], Verification], anchor_file: AnchorFile, anchors: Sequence[Anchor] = ()
) -> Verification:
    """What `look` finds of every entry, given `anchors` and the one in the file. That one must be there."""
    # The file is read first: the log may grow meanwhile, the file is never ahead of it.
    try:
        kept_anchor, problem = anchor_file.read(), "there is no anchor file"
    except ValueError:
        kept_anchor, problem = None, "the anchor file cannot be read"
    found = look([*anchors, kept_anchor] if kept_anchor is not None else anchors)
    if found.is_sound and kept_anchor is None:
        return replace(found, broken=Break(found.end.sequence, f"{problem}: entries may be missing after it"))
    return found


def look_at(verifier: Verifier, row: Any) -> None:
    """One row of the table, its hash and the copies that one searches by."""
    link = _link(row)
    verifier.look(link)
    if not verifier.is_broken and any(row[name] not in _kept(copy) for name, copy in _copies(link).items()):
        verifier.refuse(link.sequence, "the columns that one searches by do not say what it says")


def _end(connection: Connection) -> Anchor:
    columns = select(table.c.sequence, table.c.hash).order_by(table.c.sequence.desc()).limit(1)
    row = connection.execute(columns).first()
    return NOTHING if row is None else Anchor(row.sequence, row.hash)


def _searched(search: Search) -> Any:
    statement = select(table)
    if search.who is not None:
        statement = statement.where(or_(table.c.principal == search.who, table.c.actor == search.who))
    if search.since is not None:
        statement = statement.where(table.c.at >= search.since)
    if search.query_id is not None:
        statement = statement.where(table.c.query_id == search.query_id)
    return statement


def _row(link: Link) -> dict[str, Any]:
    fixed = {"sequence": link.sequence, "previous": link.previous, "hash": link.hash, "entry": link.text}
    return fixed | _copies(link)


def _copies(link: Link) -> dict[str, Any]:
    """What one searches by, as the entry was kept."""
    entry = link.entry
    return {
        "at": entry.at,
        "principal": entry.principal,
        "actor": entry.actor,
        "query_id": entry.query_id,
    }


def _kept(copy: Any) -> tuple[Any, ...]:
    """As what a copy may be found: PostgreSQL keeps no NUL."""
    return (copy, copy.replace("\0", "\ufffd")) if isinstance(copy, str) else (copy,)


def _link(row: Any) -> Link:
    return Link(row["sequence"], row["previous"], row["hash"], row["entry"])
