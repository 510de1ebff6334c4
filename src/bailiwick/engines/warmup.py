"""Statements of the usual shapes, run in a new session before anyone waits for an answer from it.

The first minute of a JVM is several times slower than later ones, and generated code is compiled anew for
each session. The statements are ours, touch no table unless the application adds one, and their rows are
dropped. After the first few a session is fit for use; the others run for as long as nobody wants it.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bailiwick.engines.engine import EngineSession
from bailiwick.engines.launch import CATALOG
from bailiwick.errors import BailiwickError
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.ids import LeaseId, new_operation_id
from bailiwick.telemetry.logs import logger

WARMUP_PRINCIPAL: Final = Principal("bailiwick-warmup", frozenset({ADMIN}))
"""Whom the catalog sees while a session warms up."""

FIRST_STATEMENTS: Final = (
    "SELECT count(*), sum(id), avg(id), min(id), max(id) FROM range(0, 20000, 1, 2) WHERE id % 3 = 1",
    "SELECT 1",
)
"""They load most of what any statement needs, and cost a third of the whole."""

USUAL_STATEMENTS: Final = (
    *FIRST_STATEMENTS,
    "SELECT id % 7 AS k, count(*) AS n, sum(id * 1.5) AS s FROM range(0, 20000, 1, 2)"
    " GROUP BY id % 7 ORDER BY n DESC, k LIMIT 5",
    "SELECT * FROM (SELECT id, rank() OVER (PARTITION BY id % 5 ORDER BY id DESC) AS r"
    " FROM range(0, 2000, 1, 2)) WHERE r <= 3",
    "SELECT a.id, concat('row ', b.id) AS name FROM range(0, 2000, 1, 2) a JOIN range(0, 200) b"
    " ON a.id % 200 = b.id WHERE b.id < 50 ORDER BY a.id LIMIT 20",
)

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Warmup:
    """What to run in each new session, how often, and how long a statement may take."""

    extra_statements: tuple[str, ...] = ()
    rounds: int = 2
    catalog: str = CATALOG
    """Made current first: most queries want it so, and then find it so."""
    statement_timeout_s: float = 60.0

    async def run(
        self,
        session: EngineSession,
        lease: LeaseId,
        *,
        is_awaited: Callable[[], bool] = lambda: False,
        on_fit: Callable[[], None] = lambda: None,
    ) -> None:
        """Run them, one after the other; stop early once someone waits for the session.

        `on_fit` is called once the first statements are done. A statement that fails is passed over: it says
        nothing about the session. Raises EngineLost or TimeoutError if the session is of no use.
        """
        await session.use(self.catalog, (), lease=lease)
        for number, sql in enumerate(self._statements()):
            if is_awaited():
                return
            if number == len(FIRST_STATEMENTS):
                on_fit()
            try:
                async with asyncio.timeout(self.statement_timeout_s):
                    async for _ in session.execute(sql, operation=new_operation_id(), lease=lease):
                        pass
            except BailiwickError as error:
                _log.warning("a warm-up statement failed", code=error.code, cause=error.cause_text)

    def _statements(self) -> Iterable[str]:
        for _ in range(self.rounds):
            yield from USUAL_STATEMENTS
            yield from self.extra_statements
