"""Sessions are warm before the start returns, and warming gives way to whoever asks."""

import asyncio
from contextlib import AsyncExitStack

from pool_house import ANN, held, pool_of, pool_with, wait_until

from bailiwick.engines.config import PoolConfig
from bailiwick.engines.warmup import FIRST_STATEMENTS, USUAL_STATEMENTS, WARMUP_PRINCIPAL, Warmup
from bailiwick.policy.access import Access
from bailiwick.policy.model import EMPTY
from bailiwick.testing.engines import Answer, ScriptedEngine, unproved


async def test_as_many_sessions_as_slots_are_warm_before_the_start_returns() -> None:
    engine = ScriptedEngine()
    async with pool_of(
        engine, slots=3, warmup=Warmup(extra_statements=("SELECT * FROM t",), rounds=1)
    ) as pool:
        await wait_until(lambda: pool.idle_count == 3)
        assert [one.sql for one in engine.executed if one.handle == "scripted-handle-0"] == [
            *USUAL_STATEMENTS,
            "SELECT * FROM t",
        ]
    assert engine.open_handles == set()


async def test_a_session_that_warms_up_has_a_lease_of_its_own_that_ends_before_it_is_lent() -> None:
    gate = asyncio.Event()
    engine = ScriptedEngine({"SELECT 1": Answer(hold=gate)})
    pool = pool_with(engine, PoolConfig(sessions=1), warmup=Warmup(rounds=1), prove=unproved)
    starting = asyncio.create_task(pool.start(timeout_s=5))
    await wait_until(lambda: engine.executed)
    warming = engine.executed[0]
    assert pool.holder(warming.handle, warming.lease) == Access(WARMUP_PRINCIPAL, EMPTY)
    gate.set()
    await starting
    assert pool.holder(warming.handle, warming.lease) is None
    await pool.stop()


async def test_the_start_waits_for_the_first_statements_and_a_query_ends_the_others() -> None:
    first, others = asyncio.Event(), asyncio.Event()
    engine = ScriptedEngine(
        {FIRST_STATEMENTS[0]: Answer(hold=first), USUAL_STATEMENTS[2]: Answer(hold=others)}
    )
    pool = pool_with(engine, PoolConfig(sessions=1), warmup=Warmup(rounds=1), prove=unproved)
    starting = asyncio.create_task(pool.start(timeout_s=5))
    await wait_until(lambda: engine.executed)
    assert not starting.done()
    first.set()
    await starting
    assert pool.idle_count == 0
    waiting = asyncio.create_task(held(stack := AsyncExitStack(), pool))
    await wait_until(lambda: pool.queue_length == 1)
    others.set()
    await waiting
    assert [one.sql for one in engine.executed] == list(USUAL_STATEMENTS[:3])
    await stack.aclose()
    await pool.stop()


async def test_a_query_that_waits_gets_a_cold_session_rather_than_none() -> None:
    gate = asyncio.Event()
    engine = ScriptedEngine()
    async with pool_of(engine, slots=1, warmup=Warmup(rounds=1)) as pool:
        engine.answers["SELECT 1"] = Answer(hold=gate)
        async with pool.lease(ANN) as lease:
            lease.spoil("a test")
        waiting = asyncio.create_task(held(stack := AsyncExitStack(), pool))
        await wait_until(lambda: len(engine.sessions) == 2)
        await waiting
        assert "SELECT 1" not in [one.sql for one in engine.executed if one.handle == "scripted-handle-1"]
        await stack.aclose()
