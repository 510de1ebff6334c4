"""An engine whose guard is not at work is not used, and it is said why."""

import pytest
from pool_house import pool_with

from bailiwick.engines.canary import STATEMENT, check_guard
from bailiwick.engines.config import PoolConfig
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import new_lease_id
from bailiwick.testing.engines import Answer, ScriptedEngine

REFUSED = BailiwickError(Code.ACCESS_DENIED, "no stamp", details={"reason": "unstamped"})


async def test_a_session_that_refuses_the_canary_is_used() -> None:
    pool = pool_with(ScriptedEngine({STATEMENT: Answer(error=REFUSED)}), PoolConfig(sessions=1))
    await pool.start(timeout_s=5)
    assert pool.idle_count == 1
    await pool.stop()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer(), id="it reads the table"),
        pytest.param(Answer(error=BailiwickError(Code.ACCESS_DENIED, "no")), id="somebody else refuses"),
        pytest.param(Answer(error=BailiwickError(Code.TABLE_NOT_FOUND, "what table?")), id="it is not found"),
    ],
)
async def test_any_other_answer_keeps_the_engine_from_being_used(answer: Answer) -> None:
    engine = ScriptedEngine({STATEMENT: answer})
    with pytest.raises(BailiwickError, match="its guard is not at work") as refused:
        await check_guard(await engine.open_session(), new_lease_id())
    assert (refused.value.code, refused.value.retryable) == (Code.CIRCUIT_BREAKER_OPEN, False)
    pool = pool_with(engine, PoolConfig(sessions=1))
    with pytest.raises(BailiwickError, match="its guard is not at work"):
        await pool.start(timeout_s=5)
    assert pool.idle_count == 0
    await pool.stop()
