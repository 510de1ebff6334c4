"""Why a query gets no session, in words for its caller."""

from typing import Final, assert_never

from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.admission import Reason, Refuse

FULL_RETRY_AFTER_S: Final = 5.0


def refusal(refuse: Refuse, *, is_engine_missing: bool) -> BailiwickError:
    """What to tell who was refused. Having waited in vain is another matter if no engine was there."""
    match refuse.reason:
        case Reason.QUEUE_FULL:
            return _too_many("Too many queries are waiting.", refuse)
        case Reason.QUEUE_FULL_FOR_TENANT:
            return _too_many("Too many queries of your tenant are waiting.", refuse)
        case Reason.QUEUE_FULL_FOR_USER:
            return _too_many("Too many of your queries are waiting.", refuse)
        case Reason.QUEUE_WAIT if is_engine_missing:
            return BailiwickError(
                Code.CIRCUIT_BREAKER_OPEN,
                "No engine became ready in time.",
                details={"reason": "no_healthy_engine"},
                retry_after_s=refuse.retry_after_s,
            )
        case Reason.QUEUE_WAIT:
            return _too_many("The query waited too long for its turn.", refuse)
        case _:
            assert_never(refuse.reason)


def draining() -> BailiwickError:
    return BailiwickError(
        Code.CIRCUIT_BREAKER_OPEN,
        "The gateway is shutting down.",
        details={"reason": "shutting_down"},
        retry_after_s=1.0,
    )


def gateway_full() -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        "The gateway is short of memory and takes no new queries for a moment. Come back later.",
        details={"reason": "gateway_memory"},
        retry_after_s=FULL_RETRY_AFTER_S,
    )


def _too_many(message: str, refuse: Refuse) -> BailiwickError:
    return BailiwickError(
        Code.RESOURCE_EXHAUSTED,
        message,
        details={"reason": refuse.reason.value},
        retry_after_s=refuse.retry_after_s,
    )
