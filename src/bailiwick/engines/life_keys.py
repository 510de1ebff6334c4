"""What one life of an engine and the gateway share, and which sessions are that life's own.

The name of a life stands in the handle of each session that was opened in it. So the catalog sees from the
handle alone whether it comes from where it belongs: a handle that got into another engine is worth nothing
there, and one with another name in front is no handle at all.
"""

import secrets
from dataclasses import dataclass, field
from typing import Final

from bailiwick.policy.stamp import StampKey

EMBEDDED: Final = ""
"""The gateway's own engine, whose handles have no name in front."""

_HANDLE_BYTES: Final = 24
_BETWEEN: Final = "."


@dataclass(frozen=True, slots=True)
class LifeKeys:
    """A life that the gateway knows, and the key that seals its stamps."""

    life: str
    stamp_key: StampKey = field(repr=False)


def new_handle(life: str = EMBEDDED) -> str:
    """The secret of a new session in that life."""
    handle = secrets.token_urlsafe(_HANDLE_BYTES)
    return handle if life == EMBEDDED else f"{life}{_BETWEEN}{handle}"


def is_handle_of(handle: str, life: str) -> bool:
    """Whether a session with this handle can have been opened in that life."""
    return handle.rpartition(_BETWEEN)[0] == life
