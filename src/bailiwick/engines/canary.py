"""Whether an engine refuses what it must: asked of each new session before anyone uses it.

Spark goes on without an extension that it cannot load, and then serves everything to everybody. So each
session is asked for a table that carries no stamp. Only the guard's own refusal will do: an answer or another
error means that the guard is not there, and the session is not used.
"""

from typing import Final

from bailiwick.engines.engine import EngineSession
from bailiwick.engines.launch import CATALOG
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, new_operation_id
from bailiwick.telemetry.logs import logger

STATEMENT: Final = f"TABLE {CATALOG}.bailiwick_canary.unstamped"
"""The catalog serves this table, without a stamp, to the canary alone."""

PRINCIPAL: Final = Principal("bailiwick-canary", frozenset({"bailiwick-canary"}))
"""Whom the catalog sees. Made by the gateway alone, and granted nothing."""

UNGUARDED: Final = "unguarded"
"""The reason in the error's details."""

_REFUSED_AS: Final = "unstamped"

_log = logger(__name__)


async def check_guard(session: EngineSession, lease: LeaseId) -> None:
    """Return if the guard of this session is at work; `lease` is the canary's. Raises CIRCUIT_BREAKER_OPEN.

    EngineLost if the engine goes away meanwhile.
    """
    try:
        async for _ in session.execute(STATEMENT, operation=new_operation_id(), lease=lease):
            pass
    except BailiwickError as error:
        if error.code is Code.ACCESS_DENIED and error.details.get("reason") == _REFUSED_AS:
            return
        raise _not_guarded(f"it answered {error.code}", error.cause_text) from error
    raise _not_guarded("it read the table", None)


def _not_guarded(what: str, cause: str | None) -> BailiwickError:
    _log.error("an engine is not used: it does not refuse a table without a stamp", seen=what, cause=cause)
    return BailiwickError(
        Code.CIRCUIT_BREAKER_OPEN,
        "The engine is not used, because its guard is not at work: asked for a table that it must refuse, "
        f"{what}. Look whether the engine's log names io.bailiwick.Guard.",
        retryable=False,
        details={"reason": UNGUARDED},
        cause_text=cause,
    )
