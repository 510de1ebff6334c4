"""The names we mint ourselves.

Every id that reaches an engine or a client is made here, by us, from the system's randomness. Nothing a
client sends is ever used as one.
"""

import hashlib
import secrets
import time
import uuid
from typing import NewType

QueryId = NewType("QueryId", str)
LeaseId = NewType("LeaseId", str)
SessionId = NewType("SessionId", str)
OperationId = NewType("OperationId", str)
NodeId = NewType("NodeId", str)
GatewayId = NewType("GatewayId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_query_id() -> QueryId:
    """Sorts by time, reads well in a log, cannot be guessed: `q06bq2…`."""
    milliseconds = time.time_ns() // 1_000_000
    stamp = "".join(_ALPHABET[milliseconds >> shift & 31] for shift in range(45, -1, -5))
    return QueryId(f"q{stamp}{_random(14)}")


def query_id_at(announced: QueryId, gateway: GatewayId) -> QueryId:
    """The id under which another gateway than the one that announced it runs a query, the first time.

    Whoever knows both can tell it; it is as hard to guess as what was announced.
    """
    digest = hashlib.sha256(f"{announced}:{gateway}".encode()).digest()
    return QueryId(announced[:11] + "".join(_ALPHABET[byte & 31] for byte in digest[:14]))


def new_lease_id() -> LeaseId:
    """Starts with `L` and holds no comma: it travels as a Spark job tag."""
    return LeaseId(f"L{_random(26)}")


def new_gateway_id() -> GatewayId:
    """Another one each time a gateway starts."""
    return GatewayId(f"g{_random(12)}")


def new_session_id() -> SessionId:
    """Spark insists on a UUID."""
    return SessionId(str(uuid.uuid4()))


def new_operation_id() -> OperationId:
    """Spark insists on a UUID, and on a fresh one for each operation."""
    return OperationId(str(uuid.uuid4()))


def _random(length: int) -> str:
    # 32 characters, so five bits of each byte choose one evenly.
    return "".join(_ALPHABET[byte & 31] for byte in secrets.token_bytes(length))
