"""Rules' expressions are checked by an engine, in a session that is lent for it like for any statement."""

from typing import Final

from bailiwick.engines.engine import EngineLost
from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.expressions import Checked, ExpressionKind
from bailiwick.queries.policy_answers import POLICY_READER
from bailiwick.queries.spark_side import SessionPool

CHECK_S: Final = 60.0


class EngineChecks:
    """An `ExpressionCheck`. Nothing is read: the engine only binds names and finds types."""

    def __init__(self, pool: SessionPool, *, timeout_s: float = CHECK_S) -> None:
        self._pool = pool
        self._timeout_s = timeout_s

    async def check(
        self,
        table: tuple[str, ...] | None,
        kind: ExpressionKind,
        column: str | None,
        sql: str,
        value_type: str | None,
    ) -> Checked:
        async with self._pool.lease(POLICY_READER) as lease:
            try:
                return await lease.session.check_expression(
                    table, kind, column, sql, value_type, lease=lease.id, timeout_s=self._timeout_s
                )
            except EngineLost as lost:
                lease.spoil("engine lost")
                raise BailiwickError(
                    Code.CIRCUIT_BREAKER_OPEN,
                    "The engine went away while it checked the expression. Try again.",
                    retryable=True,
                    cause_text=str(lost),
                ) from lost
