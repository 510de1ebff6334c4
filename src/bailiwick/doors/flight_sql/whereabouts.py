"""Which gateway has what only one can have, and what a client is told at another one.

Tickets of reads and handles of prepared statements hold all that they mean, and are good at any gateway. A
session and a result that waits are in the memory of one: their tokens and tickets name it. Shown elsewhere,
they are refused with that gateway's address, if it tells one; if it is gone, the client is told so. Never is
such a thing taken for an unknown or a new one.
"""

from collections.abc import Sequence
from typing import Final

from bailiwick.errors import MAY_HAVE_HAPPENED, BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import GatewayId, QueryId, query_id_at
from bailiwick.queries.gateways import Gateways, OnlyOne

ELSEWHERE: Final = "other_gateway"
LOST: Final = "gateway_lost"
RETRY_AFTER_S: Final = 1.0
OWN_IDS_MAX: Final = 1_000


class Whereabouts:
    """`location` is the URI by which clients reach this gateway; None if that was not told."""

    def __init__(self, gateways: Gateways | None = None, location: str | None = None) -> None:
        self._gateways = gateways or OnlyOne()
        self._location = location
        self._own_ids: dict[GatewayId, None] = {}

    def name(self) -> GatewayId | None:
        """What a thing that is here is to say; None where this gateway is the only one."""
        own_id = self._gateways.own_id
        if own_id is not None:
            # One that was given up on joins anew under another id, and still has what it had.
            self._own_ids[own_id] = None
            if len(self._own_ids) > OWN_IDS_MAX:
                del self._own_ids[next(iter(self._own_ids))]
        return own_id

    def pinned_to(self, session_id: str) -> str:
        """What a client's later calls must have in common with this one to come here for certain."""
        return "" if self.name() is None else session_id

    @property
    def locations(self) -> tuple[str, ...]:
        """Where a client is to fetch what is only here; nothing where any connection leads here."""
        is_told = self._location is not None and self.name() is not None
        return (self._location,) if is_told and self._location is not None else ()

    async def check_session(self, owner: GatewayId | None) -> None:
        """SESSION_EXPIRED if the session is another gateway's; retryable while that one lives."""
        if self._is_here(owner):
            return
        address = await self._address(owner)
        if address is None:
            raise BailiwickError(
                Code.SESSION_EXPIRED,
                "The gateway that kept this session is gone, and the session with it. Connect again.",
                details={"reason": LOST},
            )
        raise BailiwickError(
            Code.SESSION_EXPIRED,
            f"Another gateway keeps this session{_at(address)}. Go there, or connect again for a new one.",
            retryable=True,
            retry_after_s=RETRY_AFTER_S,
            details=_elsewhere(address),
        )

    async def check_result(self, owner: GatewayId | None, query_id: QueryId) -> None:
        """Refuse what another gateway runs or keeps: INVALID_ARGUMENTS while it lives, else lost."""
        if self._is_here(owner):
            return
        address = await self._address(owner)
        if address is None:
            raise BailiwickError(
                Code.EXECUTION_FAILED,
                "The gateway that had this statement's result is gone. If the statement was to change "
                f"something: {MAY_HAVE_HAPPENED}",
                details={"reason": LOST},
                query_id=query_id,
            )
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"Another gateway has this statement's result{_at(address)}. Ask there.",
            retryable=True,
            retry_after_s=RETRY_AFTER_S,
            details=_elsewhere(address),
            query_id=query_id,
        )

    async def ids_of(self, announced: QueryId) -> list[QueryId]:
        """Under which a read may run, whichever gateway its ticket was shown to first."""
        if self.name() is None:
            return [announced]
        living = await self._gateways.addresses()
        return [announced, *(query_id_at(announced, gateway) for gateway in (*self._own_ids, *living))]

    async def end(self, query_ids: Sequence[QueryId], by: Principal) -> bool:
        """Have the other gateways end those of these that they run. False if there is none."""
        return self.name() is not None and await self._gateways.end(query_ids, by)

    def _is_here(self, owner: GatewayId | None) -> bool:
        """What names nobody was made while there was one gateway only: it is here or nowhere."""
        return owner is None or owner == self.name() or owner in self._own_ids

    async def _address(self, owner: GatewayId | None) -> str | None:
        """None if it is gone; "" if it does not tell."""
        addresses = await self._gateways.addresses()
        return None if owner is None else addresses.get(owner)


def _at(address: str) -> str:
    return f": {address}" if address else ""


def _elsewhere(address: str) -> dict[str, str]:
    return {"reason": ELSEWHERE, "gateway": address} if address else {"reason": ELSEWHERE}
