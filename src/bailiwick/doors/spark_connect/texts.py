"""What a text of SQL is, in the session that it was sent in: asked of Spark, and remembered for a while.

Nothing runs. The answers say whether a text only reads, what it has to do with, and whether its author may
send it at all. A text that comes with arguments or with names of frames cannot be analysed by itself: of that
only its parse is asked.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bailiwick.doors.spark_connect.session import Session
from bailiwick.doors.spark_connect.sessions import Sessions
from bailiwick.doors.spark_connect.shared_session import Place
from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries import failures
from bailiwick.queries.spark_side import SparkSide
from bailiwick.queries.verdict import decide

DESCRIPTIONS_KEPT_MAX: Final = 200
DESCRIBED_BYTES_MAX: Final = 16 << 10
"""Longer texts are asked about each time."""
_QUERY: Final = re.compile(r"[\s(]*(SELECT|WITH|FROM|VALUES|TABLE)\b", re.IGNORECASE)


class Texts:
    def __init__(self, sessions: Sessions, side: SparkSide) -> None:
        self._sessions = sessions
        self._side = side

    async def described(
        self, session: Session, principal: Principal, text: str, *, is_whole: bool = True
    ) -> Description:
        """What it is, if the principal may send it. Without `is_whole` only what its parse tells."""
        description = await self._description(session, principal, text, is_whole=is_whole)
        description = _without_views(description, session.recipe.views)
        decide(principal, description).enforce()
        return description

    async def check_reads(self, session: Session, principal: Principal, texts: Sequence[str]) -> None:
        """Refuse those that would do something, in a place where nothing may be done."""
        for text in texts:
            description = await self.described(session, principal, text, is_whole=False)
            if description.kind not in (Kind.READ, Kind.SHOWS):
                raise BailiwickError(
                    Code.NOT_SUPPORTED,
                    f"{description.command} cannot stand where only a query is looked at. Run it by itself.",
                    details={"reason": "not_a_query"},
                )

    async def _description(
        self, session: Session, principal: Principal, text: str, *, is_whole: bool
    ) -> Description:
        side = self._side
        size_bytes = len(text.encode("utf-8", "replace"))
        if size_bytes > side.limits.sql_bytes_max:
            raise failures.sql_too_long(size_bytes, side.limits.sql_bytes_max)
        versions = (principal.roles, side.policy_version(), side.catalog_version())
        # What was analysed tells all that a parse does.
        for key in ((text, True, versions), (text, is_whole, versions)):
            known = session.descriptions.get(key)
            if known is not None:
                return known
        description = await self._ask(session, principal, text, is_whole=is_whole)
        if size_bytes > DESCRIBED_BYTES_MAX:
            return description
        session.descriptions[text, is_whole, versions] = description
        if len(session.descriptions) > DESCRIPTIONS_KEPT_MAX:
            session.descriptions.popitem(last=False)
        return description

    async def _ask(self, session: Session, principal: Principal, text: str, *, is_whole: bool) -> Description:
        timeout_s = self._side.limits.timeout_s

        async def describe(place: Place) -> Description:
            async with place.lease(principal, None, self._sessions.work_for(principal)) as lease:
                if not is_whole:
                    return await lease.session.parse(
                        text, lease=lease.id, timeout_s=timeout_s, standing=place.standing
                    )
                return await lease.session.describe(
                    text,
                    lease=lease.id,
                    timeout_s=timeout_s,
                    principal=principal.name,
                    standing=place.standing,
                )

        return await self._sessions.ask_anywhere(session, principal, describe, leaves_nothing=is_query(text))


def is_query(text: str) -> bool:
    """Whether it can be nothing but a query, by its first word. What else there is may be about the session.

    >>> is_query("(SELECT 1)"), is_query("SHOW VIEWS")
    (True, False)
    """
    return _QUERY.match(text) is not None


def _without_views(description: Description, views: Sequence[str]) -> Description:
    """By its name alone a view of the session may be taken for a table, or for a catalog: it is neither.

    Nothing hangs on that: which catalogs are reached is for the guard to say.
    """
    if not views:
        return description
    return replace(
        description,
        catalogs=frozenset(name for name in description.catalogs if name.lower() not in views),
        reads=tuple(name for name in description.reads if name.strip("`").lower() not in views),
    )
