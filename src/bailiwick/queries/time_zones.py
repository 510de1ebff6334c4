"""Time zones that a client may choose: regions such as `Europe/Berlin`, `UTC`, offsets such as `+02:00`."""

import re
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bailiwick.errors import BailiwickError, Code

_OFFSET = re.compile(r"[+-](?:0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00")
# Short names (EST, CET) mean different things in different places, so only regions are taken.
_REGION = re.compile(r"(?!posix/|right/)[A-Za-z]{1,30}(?:/[A-Za-z0-9_+-]{1,30}){1,2}")
_SHOWN_CHARS_MAX = 60


def checked_time_zone(text: str) -> str:
    """`text` itself, if it names a time zone that the engine knows too; else INVALID_ARGUMENTS."""
    if text == "UTC" or _OFFSET.fullmatch(text) or (_REGION.fullmatch(text) and _is_known(text)):
        return text
    raise BailiwickError(
        Code.INVALID_ARGUMENTS,
        f"{text[:_SHOWN_CHARS_MAX]!r} is no time zone: say UTC, an offset such as +02:00, or a region "
        "such as Europe/Berlin.",
    )


@lru_cache(maxsize=1_000)
def _is_known(region: str) -> bool:
    try:
        ZoneInfo(region)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
