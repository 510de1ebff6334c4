"""Whose trace a call belongs to, as W3C Trace Context writes it: `traceparent` and `tracestate`.

Pure. What a caller sends is taken as the standard says, or not at all: a malformed `traceparent` is as good
as none, a malformed `tracestate` loses only itself. Nobody is refused for either.
"""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
STATE_LENGTH_MAX: Final = 512
STATE_MEMBERS_MAX: Final = 32

_PARENT_LENGTH: Final = 55
_PARENT_LENGTH_MAX: Final = 512
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED: Final = 0x01
_KEY: Final = r"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
_MEMBER: Final = re.compile(
    rf"({_KEY})=([\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e])"
)
_RATIO_BITS: Final = 1 << 56

Hexadecimal = Callable[[int], str]
"""So many random bytes, written in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """One span's place in the world. Whatever is begun under it has the same trace."""

    trace_id: str
    span_id: str
    is_sampled: bool
    state: str = ""
    """What other vendors on the way want to be told again. Passed on as it came."""

    def child(self, hexadecimal: Hexadecimal = secrets.token_hex) -> "TraceContext":
        """A new place right under this one."""
        return TraceContext(self.trace_id, _minted(8, hexadecimal), self.is_sampled, self.state)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """What is sent along with a call made under this span."""
        flags = "01" if self.is_sampled else "00"
        parent = (TRACEPARENT, f"00-{self.trace_id}-{self.span_id}-{flags}")
        return (parent, (TRACESTATE, self.state)) if self.state else (parent,)


def new_trace(ratio: float, hexadecimal: Hexadecimal = secrets.token_hex) -> TraceContext:
    """A trace of our own, of which `ratio` are sampled. Which ones, their id says: the same everywhere."""
    trace_id = _minted(16, hexadecimal)
    is_sampled = int(trace_id[-14:], 16) >= round((1.0 - ratio) * _RATIO_BITS)
    return TraceContext(trace_id, _minted(8, hexadecimal), is_sampled)


def read(parents: Sequence[str], states: Sequence[str] = ()) -> TraceContext | None:
    """The caller's span, of every `traceparent` and `tracestate` header that came. None if there is none."""
    if len(parents) != 1 or not _PARENT_LENGTH <= len(parents[0]) <= _PARENT_LENGTH_MAX:
        return None
    found = _PARENT.fullmatch(parents[0])
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED), read_state(states))


def read_state(states: Sequence[str]) -> str:
    """The headers as one; empty if they are malformed or longer than anyone has to pass on."""
    if sum(len(each) + 1 for each in states) > STATE_LENGTH_MAX + 1:
        return ""
    members = [member.strip(" \t") for header in states for member in header.split(",")]
    members = [member for member in members if member]
    found = [_MEMBER.fullmatch(member) for member in members]
    keys = {match.group(1) for match in found if match is not None}
    if len(members) > STATE_MEMBERS_MAX or len(keys) != len(members):
        return ""
    return ",".join(members)


def _minted(size_bytes: int, hexadecimal: Hexadecimal) -> str:
    """All zeros means none: that is never minted."""
    while not (minted := hexadecimal(size_bytes)).strip("0"):
        continue
    return minted
