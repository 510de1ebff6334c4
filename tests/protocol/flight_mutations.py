"""Messages of Flight SQL clients, and what can go wrong with them on the way: both from one seed.

A valid message is kept in layers (a command, the Any around it, the descriptor around that), so that damage
can be done inside and still arrive. What is made here depends on the random generator alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa
from flight_door import PASSWORD, packed_as
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from bailiwick._generated import Flight_pb2 as flight
from bailiwick._generated import FlightSql_pb2 as sql
from bailiwick.doors.flight_sql.wire import varint

METHODS = (
    "Handshake",
    "GetFlightInfo",
    "PollFlightInfo",
    "GetSchema",
    "DoGet",
    "DoPut",
    "DoAction",
    "ListActions",
    "ListFlights",
    "DoExchange",
)
NOISE_BYTES_MAX = 200
NESTING = 2_000
DAMAGES_MAX = 3

Wrap = Callable[[bytes], bytes]
Mutation = Callable[[Random, bytes], bytes]


@dataclass(frozen=True, slots=True)
class Sent:
    """One call: a method, its messages, and a word for what was done to them."""

    method: str
    messages: tuple[bytes, ...]
    damage: str


@dataclass(frozen=True, slots=True)
class Valid:
    """A call that a client could make, its first message in layers from the inside out."""

    methods: tuple[str, ...]
    core: bytes
    layers: tuple[Wrap, ...] = ()
    rest: tuple[bytes, ...] = ()

    def first(self, level: int = -1, change: Wrap = bytes) -> bytes:
        """The first message, changed at this level; -1 leaves it as it is."""
        data = change(self.core) if level == 0 else self.core
        for number, wrap in enumerate(self.layers, start=1):
            data = wrap(data)
            if number == level:
                data = change(data)
        return data


def as_any(kind: type[Message]) -> Wrap:
    return lambda value: packed_as(kind.DESCRIPTOR.full_name, value)


def as_descriptor(cmd: bytes) -> bytes:
    return flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=cmd).SerializeToString()


def as_action(name: str) -> Wrap:
    return lambda body: flight.Action(type=name, body=body).SerializeToString()


def as_ticket(ticket: bytes) -> bytes:
    return flight.Ticket(ticket=ticket).SerializeToString()


def as_put(header: bytes = b"") -> Wrap:
    """The first message of a DoPut around a descriptor. Joined by hand: the descriptor may be damaged."""

    def wrap(descriptor: bytes) -> bytes:
        data = b"\x0a" + varint(len(descriptor)) + descriptor
        return data + (b"\x12" + varint(len(header)) + header if header else b"")

    return wrap


def arrow_data(table: pa.Table) -> list[tuple[bytes, bytes]]:
    """Header and body of each message of an Arrow stream, the schema first."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return [(each.metadata.to_pybytes(), each.body.to_pybytes() if each.body else b"") for each in reader]


def query(command: Message) -> Valid:
    layers = (as_any(type(command)), as_descriptor)
    return Valid(("GetFlightInfo", "GetSchema", "PollFlightInfo"), command.SerializeToString(), layers)


def put(command: Message, table: pa.Table | None = None) -> Valid:
    data = arrow_data(table) if table is not None else [(b"", b"")]
    layers = (as_any(type(command)), as_descriptor, as_put(data[0][0]))
    rest = tuple(
        flight.FlightData(data_header=header, data_body=body).SerializeToString() for header, body in data[1:]
    )
    return Valid(("DoPut",), command.SerializeToString(), layers, rest)


def action(name: str, body: Message, *, is_packed: bool = True) -> Valid:
    layers = (as_any(type(body)),) if is_packed else ()
    return Valid(("DoAction",), body.SerializeToString(), (*layers, as_action(name)))


@dataclass(frozen=True, slots=True)
class Held:
    """What a client has been given before: the handles that make its next messages valid."""

    prepared: bytes
    parametrised: bytes
    info: flight.FlightInfo
    tickets: tuple[bytes, ...]


def valid_calls(held: Held) -> list[Valid]:
    """Every command and action there is, and every call that takes none."""
    return [*_queries(held), *_puts(held), *_actions(held), *_others(held)]


def _queries(held: Held) -> list[Valid]:
    tables = sql.CommandGetTables(
        catalog="lake",
        db_schema_filter_pattern="%",
        table_name_filter_pattern="a_b\\%",
        table_types=["table"],
        include_schema=True,
    )
    return [
        *(query(sql.CommandStatementQuery(query=text)) for text in ("numbers", "insert", "USE nowhere")),
        query(sql.CommandPreparedStatementQuery(prepared_statement_handle=held.prepared)),
        query(sql.CommandGetSqlInfo(info=[0, 1, 500, 2_000_000_000])),
        query(sql.CommandGetCatalogs()),
        query(sql.CommandGetDbSchemas(catalog="lake", db_schema_filter_pattern="d%")),
        query(tables),
        query(sql.CommandGetTableTypes()),
        query(sql.CommandGetXdbcTypeInfo(data_type=4)),
        query(sql.CommandGetPrimaryKeys(table="t")),
        query(sql.CommandGetExportedKeys(table="t")),
        query(sql.CommandGetImportedKeys(catalog="lake", db_schema="s", table="t")),
        query(sql.CommandGetCrossReference(pk_table="t", fk_table="u")),
        query(sql.CommandStatementSubstraitPlan()),
    ]


def _puts(held: Held) -> list[Valid]:
    two = pa.table({"a": pa.array([7], pa.int64()), "b": ["x"]})
    labels = pa.array(["a", "b", None, "a"]).dictionary_encode()
    many = pa.table({"id": range(4), "label": labels, "lists": [[1], [], None, [2, 3]]})
    options = sql.CommandStatementIngest.TableDefinitionOptions
    definition = options(
        if_not_exist=options.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=options.TABLE_EXISTS_OPTION_APPEND
    )
    ingest = sql.CommandStatementIngest(table="t", schema="s", table_definition_options=definition)
    return [
        put(sql.CommandStatementUpdate(query="insert")),
        put(sql.CommandPreparedStatementUpdate(prepared_statement_handle=held.prepared)),
        put(sql.CommandPreparedStatementUpdate(prepared_statement_handle=held.parametrised), two),
        put(sql.CommandPreparedStatementQuery(prepared_statement_handle=held.parametrised), two),
        put(ingest, two),
        put(ingest, many),
    ]


def _actions(held: Held) -> list[Valid]:
    value = flight.SessionOptionValue
    options = {
        "time_zone": value(string_value="Asia/Tokyo"),
        "timeout_s": value(double_value=5.0),
        "double_quoted_identifiers": value(bool_value=True),
        "nobody": value(string_list_value=value.StringListValue(values=["a", "b"])),
    }
    info = held.info
    return [
        action("CreatePreparedStatement", sql.ActionCreatePreparedStatementRequest(query="parametrised")),
        action(
            "ClosePreparedStatement",
            sql.ActionClosePreparedStatementRequest(prepared_statement_handle=held.prepared),
        ),
        action("CancelQuery", sql.ActionCancelQueryRequest(info=info.SerializeToString())),
        action("CancelFlightInfo", flight.CancelFlightInfoRequest(info=info), is_packed=False),
        action(
            "RenewFlightEndpoint",
            flight.RenewFlightEndpointRequest(endpoint=info.endpoint[0]),
            is_packed=False,
        ),
        action(
            "SetSessionOptions", flight.SetSessionOptionsRequest(session_options=options), is_packed=False
        ),
        action("GetSessionOptions", flight.GetSessionOptionsRequest(), is_packed=False),
        action("CloseSession", flight.CloseSessionRequest(), is_packed=False),
        action("BeginTransaction", sql.ActionBeginTransactionRequest()),
    ]


def _others(held: Held) -> list[Valid]:
    basic = flight.BasicAuth(username="ann", password=PASSWORD).SerializeToString()
    ticket = as_any(sql.TicketStatementQuery)
    layers = (ticket, as_ticket)
    return [
        *(
            Valid(("DoGet",), sql.TicketStatementQuery(statement_handle=handle).SerializeToString(), layers)
            for handle in held.tickets
        ),
        Valid(("Handshake",), basic, (_as_handshake,)),
        Valid(("ListActions",), b""),
        Valid(("ListFlights",), flight.Criteria(expression=b"x").SerializeToString()),
        Valid(("DoExchange",), b"", (as_descriptor, as_put())),
    ]


def _as_handshake(payload: bytes) -> bytes:
    return flight.HandshakeRequest(protocol_version=1, payload=payload).SerializeToString()


def calls(random: Random, valid: Sequence[Valid], count: int) -> list[Sent]:
    """`count` calls: one in ten noise, some untouched, the rest damaged, every method among them."""
    return [_call(random, valid) for _ in range(count)]


def _call(random: Random, valid: Sequence[Valid]) -> Sent:
    if random.random() < 0.1:
        messages = tuple(_noise(random, b"") for _ in range(random.randint(1, 3)))
        return Sent(random.choice(METHODS), messages, "noise")
    chosen = random.choice(valid)
    method = random.choice(chosen.methods)
    if chosen.rest and random.random() < 0.5:
        return Sent(method, _spoiled_stream(random, chosen), "stream")
    name = random.choice((*MUTATIONS, "none"))
    if name == "none":
        return Sent(method, (chosen.first(), *chosen.rest), name)
    # The inside is reached by few: damage further out mostly ends at the first look.
    level = random.choice((0, random.randint(0, len(chosen.layers))))
    first = chosen.first(level, lambda data: MUTATIONS[name](random, data))
    return Sent(method, (first, *chosen.rest), name)


def _spoiled_stream(random: Random, chosen: Valid) -> tuple[bytes, ...]:
    """An Arrow stream with messages damaged, lost, repeated or out of order."""
    messages = [chosen.first(), *chosen.rest]
    for _ in range(random.randint(1, DAMAGES_MAX)):
        at = random.randrange(len(messages))
        match random.randrange(6):
            case 0:
                messages.insert(random.randint(0, len(messages)), messages[at])
            case 1 if len(messages) > 1:
                del messages[at]
            case 2:
                random.shuffle(messages)
            case _:
                messages[at] = _spoiled_data(random, messages[at])
    return tuple(messages)


def _spoiled_data(random: Random, message: bytes) -> bytes:
    """The flatbuffer or the buffers of one Arrow message, damaged inside a FlightData that is whole."""
    try:
        data = flight.FlightData.FromString(message)
    except DecodeError:
        return _noise(random, message)
    mutate = MUTATIONS[random.choice(("flip", "flip", "truncate", "extremes", "splice", "empty"))]
    if random.random() < 0.6:
        data.data_header = mutate(random, data.data_header)
    else:
        data.data_body = mutate(random, data.data_body)
    return data.SerializeToString()


def _noise(random: Random, _data: bytes) -> bytes:
    return random.randbytes(random.randint(0, NOISE_BYTES_MAX))


def _empty(_random: Random, _data: bytes) -> bytes:
    return b""


def _flip(random: Random, data: bytes) -> bytes:
    flipped = bytearray(data or b"\0")
    for _ in range(random.randint(1, 4)):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _truncate(random: Random, data: bytes) -> bytes:
    return data[: random.randint(0, max(len(data) - 1, 0))]


def _twice(random: Random, data: bytes) -> bytes:
    """The same fields again and again: the last one counts, repeated ones grow."""
    return data * random.randint(2, 50)


def _length(random: Random, data: bytes) -> bytes:
    """A field that claims to be far longer than the message, at any place."""
    at = random.randint(0, len(data))
    claimed = random.choice((1 << 20, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, (1 << 64) - 1))
    return data[:at] + varint(random.randint(1, 20) << 3 | 2) + varint(claimed) + data[at:]


def _wire_type(random: Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\x0a\0")
    changed[0] = changed[0] & ~7 | random.randrange(8)
    return bytes(changed)


def _unknown(random: Random, data: bytes) -> bytes:
    number = random.choice((15, 99, 18_999, (1 << 29) - 1, 0))
    return data + varint(number << 3 | 2) + varint(3) + b"odd"


def _nested(random: Random, data: bytes) -> bytes:
    """Groups in groups, or messages in messages, far deeper than anyone means."""
    if random.random() < 0.5:
        return data + b"\x0b" * NESTING + b"\x0c" * NESTING
    for _ in range(NESTING // 10):
        data = b"\x0a" + varint(len(data)) + data
    return data


def _retype(random: Random, data: bytes) -> bytes:
    """The same value under another name."""
    names = [*sql.DESCRIPTOR.message_types_by_name, "CommandNobodyKnows", "", "x" * 5_000, "a/b/c", "\0"]
    package = random.choice(("arrow.flight.protocol.sql.", "arrow.flight.protocol.sql.", "google.protobuf."))
    name = package + random.choice(names)
    try:
        envelope = AnyMessage.FromString(data)
    except DecodeError:
        return packed_as(name, data)
    return packed_as(name, envelope.value or data)


def _text(random: Random, data: bytes) -> bytes:
    """What is no UTF-8, or is but hardly means anything, in a field that is likely to hold text."""
    words = (b"\xc3\x28", b"\xed\xa0\x80", b"\0" * 10, "\u202e\u0000🦆".encode(), b"'" * 3_000, b"%_" * 500)
    word = random.choice(words)
    return data + varint(random.randint(1, 5) << 3 | 2) + varint(len(word)) + word


def _extremes(random: Random, data: bytes) -> bytes:
    """Four bytes as the largest or smallest number that there is."""
    at = random.randint(0, max(len(data) - 4, 0))
    return (
        data[:at]
        + random.choice((b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80"))
        + data[at + 4 :]
    )


def _splice(random: Random, data: bytes) -> bytes:
    """A piece of itself somewhere else."""
    start, end = sorted(random.randint(0, len(data)) for _ in range(2))
    at = random.randint(0, len(data))
    return data[:at] + data[start:end] + data[at:]


MUTATIONS: dict[str, Mutation] = {
    "flip": _flip,
    "truncate": _truncate,
    "twice": _twice,
    "length": _length,
    "wire type": _wire_type,
    "unknown": _unknown,
    "nested": _nested,
    "retype": _retype,
    "text": _text,
    "extremes": _extremes,
    "splice": _splice,
    "empty": _empty,
    "noise": _noise,
}
