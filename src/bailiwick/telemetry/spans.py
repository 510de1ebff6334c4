"""A span: one piece of work, from when to when, and what is to be known of it. Values only.

What a span may say is decided where it is made. This module keeps it small: few attributes, short ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bailiwick.telemetry.scrub import bounded, scrub_secrets
from bailiwick.telemetry.trace_context import TraceContext

ATTRIBUTES_MAX: Final = 32
TEXT_LENGTH_MAX: Final = 4_096

Value = str | bool | int | float


class SpanKind(Enum):
    """As OpenTelemetry counts them."""

    INTERNAL = 1
    SERVER = 2
    """Somebody else's call, answered here."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work that has ended."""

    name: str
    context: TraceContext
    parent_id: str | None
    began_ns: int
    """Since 1970, as `ended_ns`."""
    ended_ns: int
    kind: SpanKind = SpanKind.INTERNAL
    attributes: Mapping[str, Value | None] = field(default_factory=dict)
    """Those that are None are not there. They are made fit for others when they leave."""
    failure: str | None = None
    """A word for what went wrong; None if nothing did."""


def fit(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    """Attributes as they may leave the house: bounded in number and length, and no secrets."""
    known = [(key, value) for key, value in attributes.items() if value is not None]
    return {
        key: scrub_secrets(bounded(value, TEXT_LENGTH_MAX)) if isinstance(value, str) else value
        for key, value in known[:ATTRIBUTES_MAX]
    }
