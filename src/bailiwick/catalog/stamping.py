"""What the catalog tells an engine's guard about a table: the decision, sealed for this lease.

Here stamps are made and read back; `policy.stamp` knows what they look like, `policy.decide` what they say.
"""

from collections.abc import Callable
from typing import Final

from bailiwick.catalog.call import Call
from bailiwick.catalog.refusals import ForbiddenError
from bailiwick.clock import Clock, wall
from bailiwick.errors import BailiwickError
from bailiwick.policy import spelling
from bailiwick.policy.decide import Decision, Table
from bailiwick.policy.model import Privilege
from bailiwick.policy.stamp import STAMP_CONFIG, Stamp, StampKey

LIFETIME_S: Final = 24 * 3600.0
"""A stamp ends with its lease; this is for a lease that nobody ends."""


class Stamping:
    """`key` gives the key of the own engine's present life, or None while there is none: then no stamp is
    made, and a guard refuses the table. Calls of other engines bring their key along."""

    def __init__(self, key: Callable[[], StampKey | None], *, now: Clock = wall) -> None:
        self._key = key
        self._now = now

    def config(
        self, call: Call, table: Table, decision: Decision, prefixes: tuple[str, ...]
    ) -> dict[str, str]:
        """What a load of the table carries for the guard."""
        return self._sealed(
            call,
            Stamp(
                lease=call.lease,
                principal=call.principal.name,
                table=str(table),
                uuid=table.uuid,
                expires_at=self._now() + LIFETIME_S,
                actions=decision.privileges,
                filters=decision.filters,
                masks=decision.masks,
                prefixes=prefixes,
                policy_version=call.access.version,
            ),
        )

    def config_for_policy(self, call: Call, table: Table, prefixes: tuple[str, ...]) -> dict[str, str]:
        """The same for a table that a rule reads by its own right: all of it, and only there."""
        return self._sealed(
            call,
            Stamp(
                lease=call.lease,
                principal=call.principal.name,
                table=str(table),
                uuid=table.uuid,
                expires_at=self._now() + LIFETIME_S,
                actions=frozenset({Privilege.SELECT}),
                prefixes=prefixes,
                policy_version=call.access.version,
                for_policy=True,
            ),
        )

    def read_by_rules(self, call: Call) -> frozenset[tuple[str, ...]]:
        """The tables that the rules in the call's stamp read, by their parts. Raises ForbiddenError."""
        key = self._key_for(call)
        if key is None:
            raise _not_a_stamp()
        try:
            stamp = key.open(call.policy_stamp)
        except BailiwickError as error:
            raise _not_a_stamp() from error
        is_this_call = stamp.lease == call.lease and stamp.principal == call.principal.name
        if not is_this_call or stamp.for_policy or stamp.expires_at <= self._now():
            raise _not_a_stamp()
        return frozenset(tuple(spelling.read(name)[0]) for name in stamp.tables)

    def _sealed(self, call: Call, stamp: Stamp) -> dict[str, str]:
        key = self._key_for(call)
        return {} if key is None else {STAMP_CONFIG: key.seal(stamp)}

    def _key_for(self, call: Call) -> StampKey | None:
        return call.stamp_key if call.stamp_key is not None else self._key()


def _not_a_stamp() -> ForbiddenError:
    return ForbiddenError("the rules of a table are resolved under a stamp of this lease")
