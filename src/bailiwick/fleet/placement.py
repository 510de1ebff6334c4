"""Where a query may run: on the engines of the fleet, on the embedded one, or either.

Pure. `require` never runs on the embedded engine, `local` nowhere else. `prefer` runs there only when no
other engine can take the query at all, and what ran there so is said wherever its result is seen. Nobody is
moved to the gateway's own machine in silence.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.report import EMBEDDED, GENERAL, TRUSTED
from bailiwick.ids import NodeId

NOTHING_REACHABLE: Final = "no_engine_reachable"
"""The `reason` in the details of the error that `nothing_reachable` makes."""

TRIED_SHOWN_MAX: Final = 20
RETRY_AFTER_S: Final = 2.0
STARTING: Final = "it is starting"


class Placement(StrEnum):
    REQUIRE = "require"
    PREFER = "prefer"
    LOCAL = "local"


_STRICTEST_FIRST: Final = (Placement.REQUIRE, Placement.PREFER, Placement.LOCAL)


@dataclass(frozen=True, slots=True)
class Tried:
    """An engine that did not take a query, and why, in words that a client may read: no host, no path."""

    node_id: NodeId
    why: str
    address: str = ""
    """For the log."""
    engine_class: str = GENERAL


def default_placement(has_remote_configured: bool) -> Placement:
    """What holds where nobody has said anything."""
    return Placement.REQUIRE if has_remote_configured else Placement.LOCAL


def effective(
    *,
    has_remote_configured: bool,
    server: Placement | None = None,
    roles: Collection[Placement] = (),
    query: Placement | None = None,
) -> Placement:
    """What holds for one query: its own word, else its roles', else the server's. Strict roles win."""
    if query is not None:
        return query
    if roles:
        return min(roles, key=_STRICTEST_FIRST.index)
    return server or default_placement(has_remote_configured)


def allows(placement: Placement | None, is_embedded: bool, has_remote_configured: bool) -> bool:
    """Whether a query of that placement may run on such an engine. None: nobody has said anything."""
    placement = placement or default_placement(has_remote_configured)
    match placement:
        case Placement.REQUIRE:
            return not is_embedded
        case Placement.PREFER:
            return True
        case Placement.LOCAL:
            return is_embedded
        case _:
            assert_never(placement)


def is_of_class(engine_class: str, wanted: str | None) -> bool:
    """Whether an engine of that class is meant. None: any but one that runs code of users."""
    return engine_class != TRUSTED if wanted is None else engine_class == wanted


def must_say_so(is_embedded: bool, has_remote_configured: bool) -> bool:
    """Whether the result must tell that it was made on the embedded engine: it might have been elsewhere."""
    return is_embedded and has_remote_configured


def nothing_reachable(
    placement: Placement, tried: Sequence[Tried], engine_class: str | None = None
) -> BailiwickError:
    """The configuration error of a query that may run nowhere. Names every engine that was tried."""
    tried = [one for one in tried if is_of_class(one.engine_class, engine_class)]
    if placement is Placement.LOCAL:
        tried = [one for one in tried if one.node_id == EMBEDDED]
    shown = "; ".join(f"{one.node_id}: {one.why}" for one in tried[:TRIED_SHOWN_MAX])
    more = f"; and {len(tried) - TRIED_SHOWN_MAX} more" if len(tried) > TRIED_SHOWN_MAX else ""
    names = ",".join(one.node_id for one in tried)
    return BailiwickError(
        Code.CIRCUIT_BREAKER_OPEN,
        f"Configuration error: placement is `{placement}`, and "
        + _finding(placement, bool(tried), engine_class)
        + (f" Tried: {shown}{more}." if tried else ""),
        # With engines that are known but down, waiting may help; with none, only people can.
        retryable=bool(tried),
        retry_after_s=RETRY_AFTER_S if tried else None,
        details={"reason": NOTHING_REACHABLE, "placement": placement.value, "tried": names},
        cause_text="; ".join(f"{one.node_id} at {one.address}: {one.why}" for one in tried) or None,
    )


def _finding(placement: Placement, has_tried: bool, engine_class: str | None) -> str:
    match placement:
        case Placement.REQUIRE | Placement.PREFER if engine_class is not None:
            return (
                f"no engine of the class `{engine_class}` can be reached. Start one with `bailiwick engine "
                f"--class {engine_class}`, or see system.runtime.nodes."
            )
        case Placement.LOCAL if has_tried:
            return "the embedded engine cannot be reached yet."
        case Placement.LOCAL:
            return "the embedded engine is not there. Enable it, or ask for `prefer` or `require`."
        case Placement.REQUIRE | Placement.PREFER if has_tried:
            return "no engine can be reached. See system.runtime.nodes, and that each engine's keeper runs."
        case Placement.REQUIRE | Placement.PREFER:
            return "no engine has joined. Start one with `bailiwick engine --gateway URL`."
    assert_never(placement)
