"""What a keeper tells the gateway about its engine, every few seconds.

A value and its JSON. Reading is strict: every key must be there, none may be besides, each within its bound;
so two versions that mean different things never half understand each other. Whether the engine may join is
not decided here but in `acceptance.py` and `health.py`.

A report holds what opens the engine. It shows none of it: the three secrets are `Secret`s, and `encode` is
the only way to write them out.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, NoReturn, Self, TypeVar

from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.memory import MemoryUse
from bailiwick.ids import NodeId
from bailiwick.secrets import Secret

BODY_BYTES_MAX: Final = 16 * 1024
GENERAL: Final = "general"
"""The class of engines that nobody gave another one."""
TRUSTED: Final = "trusted"
"""The class of engines that run code of users. They do nothing else, for nobody else."""
EMBEDDED: Final = NodeId("embedded")
"""The gateway's own engine. It sends no reports, so no report may bear its name."""

_SECRET_LENGTH_MAX: Final = 4096
_RATIO_MAX: Final = 100.0

_T = TypeVar("_T")


class EngineState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    """Ends what it has begun, and wants nothing new."""


@dataclass(frozen=True, slots=True)
class Report:
    node_id: NodeId
    life: str
    """Random for each start of the engine."""
    address: str
    """`host:port` of the keeper's forwarder, as the gateway can reach it."""
    version: str
    spark_version: str
    master: str
    cores: int
    heap_bytes: int
    state: EngineState
    memory: MemoryUse
    active_operations: int
    engine_token: Secret
    """What the engine of this life wants to be shown."""
    catalog_credential: Secret
    """What the engine shows the catalog."""
    stamp_key: Secret
    engine_class: str = GENERAL

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """The report in `body`. INVALID_ARGUMENTS, with the key at fault, for anything else."""
        if len(body) > BODY_BYTES_MAX:
            raise _refusal(f"has {len(body)} bytes, and at most {BODY_BYTES_MAX} are read")
        told = _object(_json(body), set(_READERS), "the report")
        return cls(**{key: _read(key, told[key], reader) for key, reader in _READERS.items()})

    def encode(self) -> bytes:
        """As JSON, secrets included: for the keeper's own encrypted call, and for nothing else."""
        told = {key: _written(getattr(self, key)) for key in _READERS}
        return json.dumps(told, separators=(",", ":"), allow_nan=False).encode("ascii")

    def is_same_engine_as(self, other: "Report") -> bool:
        """Whether sessions with the one are sessions with the other: same start, same way, same keys."""
        return self._identity() == other._identity()

    def _identity(self) -> tuple[object, ...]:
        return (
            *(self.node_id, self.life, self.address),
            *(self.engine_token, self.catalog_credential, self.stamp_key),
        )


def _json(body: bytes) -> object:
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_repetition,
        )
    except (ValueError, RecursionError) as error:
        # What json says quotes the body, which holds secrets.
        raise _refusal("is not a JSON object") from (error if isinstance(error, _NotStrictError) else None)


class _NotStrictError(ValueError):
    """JSON that some readers take and others do not."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotStrictError(f"{name} is not JSON")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    told = dict(pairs)
    if len(told) != len(pairs):
        raise _NotStrictError("a key is there twice")
    return told


def _object(value: object, keys: set[str], where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _refusal(f"is wrong: {where} must be a JSON object")
    missing, unknown = keys - value.keys(), value.keys() - keys
    if missing:
        raise _refusal(f"is wrong: {where} lacks {', '.join(sorted(missing))}")
    if unknown:
        # Named only in number: a key that we do not know may be anything, a secret too.
        raise _refusal(f"is wrong: {where} has {len(unknown)} unknown keys")
    return value


def _read(key: str, value: object, reader: Callable[[object], _T]) -> _T:
    try:
        return reader(value)
    except ValueError as error:
        # The readers' sentences hold no values.
        raise _refusal(f"is wrong: {key} {error}") from None


def _refusal(what: str) -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS,
        f"The engine's report {what}. Keeper and gateway must be of the same version.",
        details={"reason": "report"},
    )


def _text(pattern: str, what: str) -> Callable[[object], str]:
    compiled = re.compile(pattern)

    def read(value: object) -> str:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            raise ValueError(f"must be {what}")
        return value

    return read


def _whole(least: int, most: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return read


def _ratio(value: object) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= _RATIO_MAX:  # type: ignore[arg-type,operator]
        raise ValueError(f"must be null or a number from 0 to {_RATIO_MAX:g}")
    return float(value)  # type: ignore[arg-type]


def _node_id(value: object) -> NodeId:
    name = NodeId(_NAME(value))
    if name == EMBEDDED:
        raise ValueError(f"must not be `{EMBEDDED}`: that is the gateway's own engine")
    return name


def _state(value: object) -> EngineState:
    if not isinstance(value, str) or value not in set(EngineState):
        raise ValueError(f"must be one of {', '.join(EngineState)}")
    return EngineState(value)


def _memory(value: object) -> MemoryUse:
    keys = {field.name for field in fields(MemoryUse)}
    told = _object(value, keys, "memory")
    return MemoryUse(**{key: _read(f"memory.{key}", told[key], _ratio) for key in keys})


def _secret(value: object) -> Secret:
    if not isinstance(value, str) or not 16 <= len(value) <= _SECRET_LENGTH_MAX or not value.isascii():
        raise ValueError(f"must be 16 to {_SECRET_LENGTH_MAX} ASCII characters")
    if not value.isprintable():
        raise ValueError("must be printable")
    return Secret(value)


_NAME: Final = _text(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", "1 to 63 letters, digits, `-` and `_`")
_VERSION: Final = _text(r"[0-9A-Za-z.+_-]{1,64}", "a version, of at most 64 characters")
_ADDRESS: Final = _text(r"[!-~]{3,300}", "host:port, of at most 300 characters")
_READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "node_id": _node_id,
    "life": _text(r"[A-Za-z0-9_-]{8,64}", "8 to 64 letters, digits, `-` and `_`"),
    "address": _ADDRESS,
    "version": _VERSION,
    "spark_version": _VERSION,
    "engine_class": _NAME,
    "master": _text(r"[!-~]{1,512}", "a Spark master, of at most 512 characters"),
    "cores": _whole(1, 100_000),
    "heap_bytes": _whole(1, 1 << 50),
    "state": _state,
    "memory": _memory,
    "active_operations": _whole(0, 1_000_000),
    "engine_token": _secret,
    "catalog_credential": _secret,
    "stamp_key": _secret,
}
"""One reader a key, in the order in which they are written."""


def _written(value: object) -> object:
    match value:
        case Secret():
            return value.reveal()
        case MemoryUse():
            return {field.name: getattr(value, field.name) for field in fields(MemoryUse)}
        case _:
            return value
