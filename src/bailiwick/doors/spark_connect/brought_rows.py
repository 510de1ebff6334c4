"""Rows that a client sends ahead of its plans, because they are too many to stand in one.

Stock clients send them in pieces, each under the digest of its bytes, and mention the digests in their plans.
The pieces wait on the gateway's disk, for the session that sent them and no other. On its way to an engine a
plan gets the rows put in (`mentioned_rows.py`), each time anew: so they are there on whatever engine the
session is. A session whose user has sent too much loses first what it has not used for longest.
"""

import asyncio
import errno
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from google.protobuf.message import Message

from bailiwick.doors.spark_connect.mentioned_rows import digests_in, with_rows
from bailiwick.doors.spark_connect.unpacking import too_much
from bailiwick.errors import BailiwickError, Code
from bailiwick.results.spool import Spool, SpoolFile, storage_error

M = TypeVar("M", bound=Message)
User = Hashable

FORGOTTEN_REMEMBERED_MAX: Final = 1_000
_WRITE_BYTES: Final = 1 << 20
_LOST: Final = "rows of a frame could not be kept"


@dataclass(slots=True)
class Room:
    """What all sessions together may keep. A piece is a file that is open."""

    plan_bytes_max: int
    """For the rows of one plan."""
    user_bytes_max: int
    bytes_max: int
    user_pieces_max: int = 200
    pieces_max: int = 500
    bytes_held: "Counter[User]" = field(default_factory=Counter)
    pieces_held: "Counter[User]" = field(default_factory=Counter)

    def has(self, user: User, size_bytes: int) -> bool:
        """Whether the user may keep a piece more, of that size."""
        return (
            self.bytes_held[user] + size_bytes <= self.user_bytes_max
            and self.pieces_held[user] < self.user_pieces_max
        )

    def take(self, user: User, size_bytes: int) -> bool:
        """Take it, if there is room for the user and for all."""
        is_there = (
            self.has(user, size_bytes)
            and self.bytes_held.total() + size_bytes <= self.bytes_max
            and self.pieces_held.total() < self.pieces_max
        )
        if is_there:
            self.bytes_held[user] += size_bytes
            self.pieces_held[user] += 1
        return is_there

    def give_back(self, user: User, size_bytes: int) -> None:
        self.bytes_held[user] -= size_bytes
        self.pieces_held[user] -= 1
        if not self.pieces_held[user]:
            del self.bytes_held[user], self.pieces_held[user]


@dataclass(slots=True, eq=False)
class _Piece:
    file: SpoolFile
    size_bytes: int
    session_count: int = 1
    """How many sessions keep it."""

    def read(self) -> bytes:
        """Blocks."""
        return bytes(self.file.read(0, self.size_bytes)) if self.size_bytes else b""


class BroughtRows:
    """Those of one session. Belongs to one event loop."""

    def __init__(self, spool: Spool, room: Room, user: User) -> None:
        self._spool = spool
        self._room = room
        self._user = user
        self._pieces: OrderedDict[str, _Piece] = OrderedDict()
        self._forgotten: OrderedDict[str, int] = OrderedDict()
        """How large pieces were that are not kept any more."""
        self._is_closed = False

    def __contains__(self, digest: str) -> bool:
        return digest in self._pieces

    def shared(self) -> "BroughtRows":
        """The same for another session of the user. They are kept once, until neither keeps them any more."""
        other = BroughtRows(self._spool, self._room, self._user)
        for piece in self._pieces.values():
            piece.session_count += 1
        other._pieces.update(self._pieces)
        other._forgotten.update(self._forgotten)
        return other

    def begin(self, digest: str, size_bytes: int) -> "Arriving":
        """Make room for a piece that will have that many bytes. RESOURCE_EXHAUSTED if there is none."""
        room = self._room
        if size_bytes > room.plan_bytes_max:
            raise _too_many(room.plan_bytes_max)
        while self._pieces and not room.has(self._user, size_bytes):
            self._forget(next(iter(self._pieces)))
        if not room.take(self._user, size_bytes):
            raise _no_room()
        if not self._spool.reserve(size_bytes):
            room.give_back(self._user, size_bytes)
            raise _no_room()
        return Arriving(self, self._spool, digest, size_bytes)

    def keep(self, digest: str, file: SpoolFile, size_bytes: int) -> None:
        """A piece has arrived whole."""
        if self._is_closed or digest in self._pieces:
            self.give_back(file, size_bytes)
        else:
            self._pieces[digest] = _Piece(file, size_bytes)
            self._forgotten.pop(digest, None)

    def give_back(self, file: SpoolFile, size_bytes: int) -> None:
        self._spool.dismiss(file)
        self._spool.release(size_bytes)
        self._room.give_back(self._user, size_bytes)

    def check(self, digests: Collection[str]) -> None:
        """INVALID_ARGUMENTS if any of these is not kept here, RESOURCE_EXHAUSTED if they are too much."""
        size_bytes = 0
        for digest in digests:
            if digest in self._pieces:
                self._pieces.move_to_end(digest)
                size_bytes += self._pieces[digest].size_bytes
            else:
                size_bytes += self._forgotten.get(digest, 0)
        # Told first: of too many rows the first are forgotten before the last have come.
        if size_bytes > self._room.plan_bytes_max:
            raise _too_many(self._room.plan_bytes_max)
        if any(digest not in self._pieces for digest in digests):
            raise _not_kept()

    async def put_into(self, message: M) -> M:
        """`message`, or a copy in which the rows stand that are only mentioned there.

        Raises what `check` does, and PARSE_ERROR if they are no rows.
        """
        if not self._pieces and not self._forgotten:
            # None ever came, so `check` let no mention of any pass; most plans need no second walk.
            return message
        mentioned = digests_in(message)
        if not mentioned:
            return message
        self.check(mentioned)
        pieces = {digest: self._pieces[digest] for digest in mentioned}
        try:
            return await self._spool.run(with_rows, message, lambda digest: pieces[digest].read())
        except OSError as error:
            # Forgotten for others that came meanwhile.
            raise (_not_kept() if error.errno == errno.EBADF else storage_error(error, _LOST)) from error

    def close(self) -> None:
        self._is_closed = True
        for digest in list(self._pieces):
            self._forget(digest)

    def _forget(self, digest: str) -> None:
        piece = self._pieces.pop(digest)
        piece.session_count -= 1
        if piece.session_count == 0:
            self.give_back(piece.file, piece.size_bytes)
        self._forgotten[digest] = piece.size_bytes
        if len(self._forgotten) > FORGOTTEN_REMEMBERED_MAX:
            self._forgotten.popitem(last=False)


class Arriving:
    """A piece on its way in. Call `end` when all of it was added, or `abandon`."""

    def __init__(self, rows: BroughtRows, spool: Spool, digest: str, size_bytes: int) -> None:
        self._rows = rows
        self._spool = spool
        self._digest = digest
        self._size_bytes = size_bytes
        self._file = spool.new_file()
        self._seen = hashlib.sha256()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._written_bytes = 0
        self._is_over = False

    async def add(self, data: bytes) -> None:
        if self._written_bytes + self._waiting_bytes + len(data) > self._size_bytes:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "More bytes came than were announced.")
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= _WRITE_BYTES:
            await self._write()

    async def end(self) -> None:
        """Keep it, if it is what its name says. INVALID_ARGUMENTS if it is not."""
        await self._write()
        if self._written_bytes != self._size_bytes:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "Fewer bytes came than were announced.")
        if self._seen.hexdigest() != self._digest:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "The bytes that came are not those of their name.")
        self._is_over = True
        self._rows.keep(self._digest, self._file, self._size_bytes)

    def abandon(self) -> None:
        """Fine after the end."""
        if not self._is_over:
            self._is_over = True
            self._rows.give_back(self._file, self._size_bytes)

    async def _write(self) -> None:
        pieces, self._waiting, self._waiting_bytes = self._waiting, [], 0
        try:
            # A write that is given up goes on in its thread; the file waits for it before it is closed.
            await asyncio.shield(self._spool.run(self._write_now, self._written_bytes, pieces))
        except OSError as error:
            raise storage_error(error, _LOST) from error
        self._written_bytes += sum(map(len, pieces))

    def _write_now(self, offset: int, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            self._seen.update(piece)
        self._file.write(offset, pieces)


def _not_kept() -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS,
        "Rows of a frame are not kept here, or not any more. Make the frame again with createDataFrame.",
        details={"reason": "rows_not_kept"},
    )


def _too_many(bytes_max: int) -> BailiwickError:
    return too_much(
        f"A plan may bring rows of {bytes_max} bytes. Bring more in several parts, each appended to a table.",
        "brought_bytes_per_plan_max",
    )


def _no_room() -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        "There is no room for more rows of clients. Stop sessions that are not needed, or bring fewer rows.",
        retryable=False,
        details={"reason": "spool_full"},
    )
