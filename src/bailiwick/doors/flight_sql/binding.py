"""What a driver binds to a prepared statement: rows of values, read from a DoPut's Arrow messages.

Reading trusts nothing: messages are gathered up to a size, rows and columns are counted before they are
looked into, and compressed bodies are refused. A query takes one row. An update takes many, and runs once for
each.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.clock import Clock
from bailiwick.doors.flight_sql.prepared import Handles, PreparedStatement, counted
from bailiwick.doors.flight_sql.tickets import bearer_of
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.engines.parameters import Row, rows_of, size_bytes
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries.ingest_stream import MessageReader, encapsulated
from bailiwick.queries.statement import UNKNOWN_ROWS
from bailiwick.results.batches import MalformedStreamError

MESSAGE_OVERHEAD_BYTES = 64
"""What a message counts beside its content, so that empty ones come to an end too."""


@dataclass(frozen=True, slots=True)
class BindingLimits:
    rows_max: int = 1_000
    """Each row of an executemany is a statement and a commit of its own."""
    bytes_max: int = 1 << 20
    """What one DoPut may bind. A handle carries one row of it."""
    remembered_max: int = 1_000
    remembered_bytes_max: int = 32 << 20
    remembered_s: float = 600.0


class BoundStatements:
    """Prepared statements by their handles, each with what is bound to it.

    Where there are several gateways, what is remembered for an old handle is remembered for one `session`,
    whose calls all come here: else another gateway could know of a later binding.
    """

    def __init__(self, handles: Handles, limits: BindingLimits, *, now: Clock) -> None:
        self._handles = handles
        self._limits = limits
        self._bindings = Bindings(limits, now=now)

    def open(self, principal: Principal, handle: bytes, session: str = "") -> tuple[PreparedStatement, bool]:
        """The statement with its parameters, if any are bound, and whether its description is still fresh."""
        statement, is_fresh = self._handles.open(principal, handle)
        row = self._bindings.find(principal, handle, session)
        return (statement, is_fresh) if row is None else (replace(statement, parameters=row), False)

    async def bind(
        self,
        principal: Principal,
        handle: bytes,
        first: bytes,
        rest: AsyncIterator[bytes],
        session: str = "",
    ) -> bytes:
        """Bind the one row of a DoPut: the handle that carries it. For a while the old one means it too."""
        statement, _ = self._handles.open(principal, handle)
        rows = await read_rows(first, rest, statement.parameter_count, self._limits)
        if rows is None:
            statement.check_complete()
            return handle
        row = only_row(rows)
        self._bindings.remember(principal, handle, row, session)
        return self._handles.bind(principal, statement, row)

    async def rows(
        self,
        principal: Principal,
        handle: bytes,
        first: bytes,
        rest: AsyncIterator[bytes],
        session: str = "",
    ) -> tuple[PreparedStatement, tuple[Row, ...]]:
        """An update, and the rows to run it with: those of the DoPut, or what was bound before."""
        statement, _ = self.open(principal, handle, session)
        rows = await read_rows(first, rest, statement.parameter_count, self._limits)
        if rows is None:
            statement.check_complete()
            rows = (statement.parameters,)
        return statement, rows

    def close(self, principal: Principal, handle: bytes, session: str = "") -> None:
        """Forget what is bound. Closing a handle that is not known is fine."""
        self._bindings.forget(principal, handle, session)


async def read_rows(
    first: bytes, rest: AsyncIterator[bytes], count: int, limits: BindingLimits
) -> tuple[Row, ...] | None:
    """The rows that a DoPut brings for a statement with `count` parameters; None if it brings none at all.

    `first` is its first message, the one with the command. For a statement without parameters nothing more is
    waited for: drivers may read the answer before they end their stream.
    """
    data = parse(flight.FlightData, first)
    size = len(first)
    messages = _messages(data)
    if count > 0:
        async for each in rest:
            size += len(each) + MESSAGE_OVERHEAD_BYTES
            if size > limits.bytes_max:
                raise _too_large(limits)
            messages += _messages(parse(flight.FlightData, each))
    if not messages:
        return None
    try:
        return await asyncio.to_thread(_decode, messages, count, limits)
    except (MalformedStreamError, pa.ArrowException, ValueError) as error:
        # Names that are no UTF-8, for one: pyarrow finds out only when it is asked for them.
        raise BailiwickError(
            Code.PARSE_ERROR, "The parameters are not sound Arrow data.", cause_text=str(error)
        ) from error


def only_row(rows: Sequence[Row]) -> Row:
    """The row that a query is to run with."""
    if len(rows) == 1:
        return rows[0]
    raise BailiwickError(
        Code.INVALID_ARGUMENTS,
        f"A query takes one row of parameters, and {len(rows)} were bound. Run it once for each row.",
    )


async def run_rows(rows: Sequence[Row], run: Callable[[Row], Awaitable[int]]) -> int:
    """Run an update once for each row, in order: how many rows it touched in all, -1 if nobody knows exactly.

    It stops at the first failure. What ran before is committed, and the error says so.
    """
    affected_rows = 0
    for number, row in enumerate(rows, start=1):
        try:
            touched = await run(row)
        except BailiwickError as error:
            raise (error if len(rows) == 1 else _failed_at(number, len(rows), error)) from error
        unknown = UNKNOWN_ROWS in (touched, affected_rows)
        affected_rows = UNKNOWN_ROWS if unknown else affected_rows + touched
    return affected_rows


class Bindings:
    """Which row is bound to a handle, for drivers that go on to use the handle they had before they bound.

    Kept for a while, up to a number and a size, the oldest forgotten first. Another principal's handle is no
    handle at all.
    """

    def __init__(self, limits: BindingLimits, *, now: Clock) -> None:
        self._limits = limits
        self._now = now
        self._bytes = 0
        self._bound: OrderedDict[bytes, tuple[float, int, Row]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._bound)

    def remember(self, principal: Principal, handle: bytes, row: Row, session: str = "") -> None:
        """Bind `row` in the place of what was bound before."""
        self.forget(principal, handle, session)
        size = size_bytes(row)
        expires_at = self._now() + self._limits.remembered_s
        self._bound[_key(principal, handle, session)] = (expires_at, size, row)
        self._bytes += size
        while self._is_overfull():
            self._bytes -= self._bound.popitem(last=False)[1][1]

    def find(self, principal: Principal, handle: bytes, session: str = "") -> Row | None:
        expires_at, _, row = self._bound.get(_key(principal, handle, session), (0.0, 0, None))
        return row if self._now() < expires_at else None

    def forget(self, principal: Principal, handle: bytes, session: str = "") -> None:
        """The handle is closed. Forgetting one that is not there is fine."""
        if (bound := self._bound.pop(_key(principal, handle, session), None)) is not None:
            self._bytes -= bound[1]

    def _is_overfull(self) -> bool:
        if not self._bound:
            return False
        oldest_expires_at = next(iter(self._bound.values()))[0]
        return (
            oldest_expires_at <= self._now()
            or len(self._bound) > self._limits.remembered_max
            or self._bytes > self._limits.remembered_bytes_max
        )


def _messages(data: flight.FlightData) -> list[bytes]:
    """The Arrow message in a FlightData, if there is one; the first may carry the command alone."""
    if not data.data_header:
        if data.data_body:
            raise BailiwickError(Code.PARSE_ERROR, "A message of the parameters has a body and no header.")
        return []
    return [encapsulated(data.data_header, data.data_body)]


def _decode(messages: list[bytes], count: int, limits: BindingLimits) -> tuple[Row, ...] | None:
    reader = MessageReader()
    columns = len(reader.schema(messages[0]))
    if columns != count:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"The statement has {counted(count, 'parameter')}, and {columns} were bound.",
        )
    if count == 0:
        return None
    rows: list[Row] = []
    size = 0
    for message in messages[1:]:
        batch = reader.batch(message)
        if batch is None:
            continue
        if len(rows) + batch.num_rows > limits.rows_max:
            raise _too_many(limits)
        for number in range(batch.num_rows):
            # Row by row: many may share one long value of a dictionary.
            row = next(rows_of(batch.slice(number, 1)))
            size += size_bytes(row)
            if size > limits.bytes_max + limits.rows_max * MESSAGE_OVERHEAD_BYTES * count:
                raise _too_large(limits)
            rows.append(row)
    return tuple(rows)


def _failed_at(number: int, count: int, error: BailiwickError) -> BailiwickError:
    done = counted(number - 1, "row")
    before = "Nothing ran before." if number == 1 else f"What {done} before it changed is committed."
    return BailiwickError(
        error.code,
        f"Row {number} of {count} failed, and none after it was run. {before} {error.message}",
        sqlstate=error.sqlstate,
        # The same call again would run the committed rows twice.
        retryable=error.retryable and number == 1,
        position=error.position,
        details={**error.details, "row": str(number)},
        retry_after_s=error.retry_after_s if number == 1 else None,
        query_id=error.query_id,
        cause_text=error.cause_text,
    )


def _too_many(limits: BindingLimits) -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        f"At most {limits.rows_max} rows of parameters can be bound at once: each is a statement of its own. "
        "To load many rows use bulk ingestion (adbc_ingest), which commits them together.",
        retryable=False,
    )


def _too_large(limits: BindingLimits) -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        f"The parameters have more than {limits.bytes_max} bytes. To load large values or many rows use bulk "
        "ingestion (adbc_ingest).",
        retryable=False,
    )


def _key(principal: Principal, handle: bytes, session: str) -> bytes:
    bearer = bearer_of(principal).SerializeToString(deterministic=True)
    digest = hashlib.sha256()
    for part in (bearer, session.encode(), handle):
        digest.update(len(part).to_bytes(4) + part)
    return digest.digest()
