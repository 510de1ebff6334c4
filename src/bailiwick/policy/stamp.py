"""The decision about a table, as it travels from the catalog to the guard inside Spark.

A stamp says for one lease and one table what may be done, which filters and masks hold and where the table's
files lie. Its seal proves that the gateway made it for this life of this engine. The engine can read it.

It decides nothing: `decide.py` does. Whoever may not read but may insert needs the filters in the stamp too,
for the guard holds inserted rows against them.
"""

import base64
import binascii
import hashlib
import hmac
import json
import math
import secrets
from dataclasses import dataclass
from typing import Any, Final, Self

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.decision import AppliedFilter, AppliedMask
from bailiwick.policy.model import BoundColumn, Privilege

STAMP_CONFIG: Final = "bailiwick.stamp"
"""The entry of a table's `config` that carries the stamp."""
POLICY_HEADER: Final = "X-Bailiwick-Policy"
"""Carries the stamp of a restricted table while the guard loads what that table's rules read."""
LENGTH_MAX: Final = 1 << 20

_KEY_BYTES: Final = 32
_FIELDS: Final = frozenset(
    {
        "lease",
        "principal",
        "table",
        "uuid",
        "expires_at",
        "actions",
        "filters",
        "masks",
        "prefixes",
        "policy_version",
        "for_policy",
    }
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """What `principal` may do with `table` under `lease`, until `expires_at` (seconds since 1970)."""

    lease: str
    principal: str
    table: str
    """In full, as one writes it in SQL."""
    uuid: str
    expires_at: float
    actions: frozenset[Privilege]
    filters: tuple[AppliedFilter, ...] = ()
    masks: tuple[AppliedMask, ...] = ()
    prefixes: tuple[str, ...] = ()
    """Where its files may lie: URIs, each of which ends in `/`."""
    policy_version: int = 0
    for_policy: bool = False
    """Given for a rule's own subquery: of no use to anything that a person wrote."""

    @property
    def tables(self) -> frozenset[str]:
        """In full, what the rules themselves read."""
        rules: list[AppliedFilter | AppliedMask] = [*self.filters, *self.masks]
        return frozenset(name for rule in rules for name in rule.tables)


class StampKey:
    """The secret that the gateway and one life of one engine share."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise ValueError(f"a stamp's key has at least {_KEY_BYTES} bytes")
        self._key = key

    @classmethod
    def new(cls) -> Self:
        return cls(secrets.token_bytes(_KEY_BYTES))

    @property
    def text(self) -> str:
        """For the file by which the engine learns it."""
        return self._key.hex()

    def seal(self, stamp: Stamp) -> str:
        """Equal stamps make equal texts: URL-safe base64 of JSON, a dot, the HMAC-SHA256 of that base64."""
        if not math.isfinite(stamp.expires_at):
            raise ValueError("a stamp ends at some moment")
        body = json.dumps(_written(stamp), sort_keys=True, separators=(",", ":"), allow_nan=False)
        payload = base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")
        return f"{payload}.{self._mac(payload)}"

    def open(self, sealed: str) -> Stamp:
        """The stamp, if this key sealed it, else ACCESS_DENIED. Whether it still holds, the caller asks."""
        payload, _, mac = sealed.rpartition(".")
        is_whole = len(sealed) <= LENGTH_MAX and sealed.isascii()
        if not is_whole or not hmac.compare_digest(self._mac(payload), mac):
            raise _forged()
        try:
            body = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
            return _read(json.loads(body))
        except (binascii.Error, ValueError, KeyError, TypeError) as error:
            raise _forged() from error

    def _mac(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode(), hashlib.sha256).hexdigest()


def _forged() -> BailiwickError:
    return BailiwickError(Code.ACCESS_DENIED, "The stamp was not made by this gateway for this engine.")


def _written(stamp: Stamp) -> dict[str, Any]:
    return {
        "lease": stamp.lease,
        "principal": stamp.principal,
        "table": stamp.table,
        "uuid": stamp.uuid,
        "expires_at": float(stamp.expires_at),
        "actions": sorted(stamp.actions),
        "filters": [_written_filter(each) for each in stamp.filters],
        "masks": [_written_mask(each) for each in stamp.masks],
        "prefixes": list(stamp.prefixes),
        "policy_version": stamp.policy_version,
        "for_policy": stamp.for_policy,
    }


def _written_filter(rule: AppliedFilter) -> dict[str, Any]:
    return {
        "name": rule.name,
        "using": rule.using,
        "columns": _written_columns(rule.columns),
        "tables": list(rule.tables),
    }


def _written_mask(rule: AppliedMask) -> dict[str, Any]:
    return {
        "name": rule.name,
        "using": rule.using,
        "field_id": rule.field_id,
        "names": sorted(rule.names),
        "columns": _written_columns(rule.columns),
        "tables": list(rule.tables),
        "is_value": rule.is_value,
        "action": rule.action,
    }


def _written_columns(columns: tuple[BoundColumn, ...]) -> list[dict[str, Any]]:
    return [{"name": column.name, "field_id": column.field_id} for column in columns]


def _read(told: dict[str, Any]) -> Stamp:
    if told.keys() != _FIELDS:
        raise ValueError("unexpected or missing fields")
    return Stamp(
        lease=told["lease"],
        principal=told["principal"],
        table=told["table"],
        uuid=told["uuid"],
        expires_at=told["expires_at"],
        actions=frozenset(Privilege(each) for each in told["actions"]),
        filters=tuple(
            AppliedFilter(each["name"], each["using"], _read_columns(each["columns"]), tuple(each["tables"]))
            for each in told["filters"]
        ),
        masks=tuple(_read_mask(each) for each in told["masks"]),
        prefixes=tuple(told["prefixes"]),
        policy_version=told["policy_version"],
        for_policy=told["for_policy"],
    )


def _read_mask(told: dict[str, Any]) -> AppliedMask:
    return AppliedMask(
        name=told["name"],
        using=told["using"],
        field_id=told["field_id"],
        names=frozenset(told["names"]),
        tables=tuple(told["tables"]),
        columns=_read_columns(told["columns"]),
        is_value=told["is_value"],
        action=told["action"],
    )


def _read_columns(told: list[dict[str, Any]]) -> tuple[BoundColumn, ...]:
    return tuple(BoundColumn(each["name"], each["field_id"]) for each in told)
