"""Engines that run code of users, in the pool: they serve nobody else, and tell nothing of other engines."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pool_house import ANN, BOB, COLD, asking, wait_until

from bailiwick.engines.canary import UNGUARDED
from bailiwick.engines.config import PoolConfig
from bailiwick.engines.engine import EngineSession
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.members import Prove, Traits
from bailiwick.fleet.report import TRUSTED
from bailiwick.fleet.schedule import ANYWHERE, Work
from bailiwick.fleet.sessions import SessionPool
from bailiwick.ids import LeaseId, NodeId
from bailiwick.testing.engines import ScriptedEngine, unproved

CODE = Work(engine_class=TRUSTED)
EVERYBODYS, CODERS = Traits(slots=1), Traits(slots=1, engine_class=TRUSTED)
NARROW = PoolConfig(queue_length_max=5, queue_length_per_user_max=3)
WIDE = PoolConfig(queue_length_max=1000, queue_length_per_user_max=1000, queue_length_per_tenant_max=1000)
LONG_LINE = 300
"""Too long for Python if whoever puts one off calls itself for the next."""


@asynccontextmanager
async def pool_of(
    engines: dict[ScriptedEngine, Traits], prove: Prove = unproved, config: PoolConfig | None = None
) -> AsyncIterator[SessionPool]:
    pool = SessionPool(config or PoolConfig(), warmup=COLD, prove=prove)
    for engine, traits in engines.items():
        pool.roster.add(engine, traits)
    pool.begin()
    try:
        yield pool
    finally:
        await pool.stop()


async def test_a_query_waits_beside_an_idle_engine_that_runs_code_of_users_and_that_one_serves_code() -> None:
    engines = {ScriptedEngine(name="a"): EVERYBODYS, ScriptedEngine(name="b"): CODERS}
    async with pool_of(engines) as pool, asyncio.timeout(5):
        await wait_until(lambda: pool.idle_count == 2)
        async with pool.lease(ANN) as first:
            assert first.engine.node_id == NodeId("a")
            waiting = asyncio.create_task(lent_by(pool, ANYWHERE))
            await wait_until(lambda: pool.queue_length == 1)
            assert await lent_by(pool, CODE) == NodeId("b")
            assert not waiting.done()
        assert await waiting == NodeId("a")


@pytest.mark.parametrize("engines_for_code", [0, 1])
async def test_no_more_wait_than_may_whether_an_engine_that_runs_code_of_users_idles_or_not(
    engines_for_code: int,
) -> None:
    engines = {ScriptedEngine(name="a"): Traits(slots=2)}
    engines |= {ScriptedEngine(name=f"b{number}"): CODERS for number in range(engines_for_code)}
    order, go = list[str](), asyncio.Event()
    async with pool_of(engines, config=NARROW) as pool, asyncio.timeout(5):
        await wait_until(lambda: pool.idle_count == 2 + engines_for_code)
        anns = [asking(pool, ANN, order, f"ann-{number}", go) for number in range(30)]
        await wait_until(lambda: sum(one.done() for one in anns) == 25)
        bobs = [asking(pool, BOB, order, f"bob-{number}", go) for number in range(10)]
        await wait_until(lambda: sum(one.done() for one in bobs) == 8)
        assert (len(order), pool.queue_length) == (2, 5)
        go.set()
        answers = await asyncio.gather(*anns, *bobs, return_exceptions=True)
    refusals = Counter(one.details["reason"] for one in answers if isinstance(one, BailiwickError))
    assert refusals == {"queue_full_for_user": 25, "queue_full": 8}
    assert answers.count(None) == 7


async def test_code_gets_its_engine_also_when_no_more_queries_may_wait() -> None:
    engines = {ScriptedEngine(name="a"): EVERYBODYS, ScriptedEngine(name="b"): CODERS}
    async with pool_of(engines, config=NARROW) as pool, asyncio.timeout(5):
        await wait_until(lambda: pool.idle_count == 2)
        async with pool.lease(ANN):
            waiting = [asyncio.create_task(lent_by(pool, ANYWHERE)) for _ in range(3)]
            await wait_until(lambda: pool.queue_length == 3)
            with pytest.raises(BailiwickError, match="Too many of your queries"):
                await lent_by(pool, ANYWHERE)
            assert await lent_by(pool, CODE) == NodeId("b")
        assert await asyncio.gather(*waiting) == [NodeId("a")] * 3


async def test_a_long_line_goes_on_waiting_when_an_engine_that_runs_code_of_users_falls_idle() -> None:
    engines = {ScriptedEngine(name="a"): EVERYBODYS, ScriptedEngine(name="b"): CODERS}
    async with pool_of(engines, config=WIDE) as pool, asyncio.timeout(5):
        await wait_until(lambda: pool.idle_count == 2)
        async with pool.lease(ANN):
            async with pool.lease(ANN, work=CODE):
                waiting = [asyncio.create_task(lent_by(pool, ANYWHERE)) for _ in range(LONG_LINE)]
                await wait_until(lambda: pool.queue_length == LONG_LINE)
            assert (pool.queue_length, pool.leased_count) == (LONG_LINE, 1)
        assert await waiting[0] == NodeId("a")
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_no_gateway_has_started_that_has_only_engines_for_code_of_users() -> None:
    pool = SessionPool(PoolConfig(), warmup=COLD, prove=unproved)
    pool.roster.add(ScriptedEngine(name="b"), CODERS)
    starting = asyncio.create_task(pool.start(timeout_s=None))
    await wait_until(lambda: pool.idle_count == 1)
    pool.tick()
    await asyncio.sleep(0)
    assert not starting.done()
    pool.roster.add(ScriptedEngine(name="a"), EVERYBODYS)
    async with asyncio.timeout(5):
        await starting
    await pool.stop()


async def test_where_there_are_no_others_no_query_could_run() -> None:
    async with pool_of({ScriptedEngine(name="b"): CODERS}) as pool:
        await wait_until(lambda: pool.idle_count == 1)
        assert not pool.could_run(ANYWHERE)
        assert pool.could_run(CODE)


async def test_a_guard_that_code_of_users_has_broken_tells_nothing_of_other_engines() -> None:
    broken = ScriptedEngine(name="b")

    async def prove(session: EngineSession, _lease: LeaseId) -> None:
        if session.handle in broken.open_handles:
            raise BailiwickError(
                Code.CIRCUIT_BREAKER_OPEN, "It read the table.", details={"reason": UNGUARDED}
            )

    async with pool_of({broken: CODERS}, prove) as pool:
        (member,) = pool.roster
        await wait_until(lambda: member.stock.unguarded is not None)
        assert pool.roster.unguarded is None
        assert pool.idle_count == 0


async def lent_by(pool: SessionPool, work: Work) -> NodeId:
    async with pool.lease(BOB, work=work) as lease:
        return lease.engine.node_id
