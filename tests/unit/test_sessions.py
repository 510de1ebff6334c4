"""Leases and the warm pool, held against an engine that the test scripts."""

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest
from pool_house import ANN, BOB, MovedClock, asking, held, pool_of, pool_with, run, wait_until

from bailiwick.engines.config import PoolConfig
from bailiwick.engines.engine import EngineLost
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import QueryId, new_operation_id
from bailiwick.policy.access import Access
from bailiwick.policy.model import EMPTY
from bailiwick.testing.engines import Answer, ScriptedEngine


async def test_a_session_is_lent_to_one_query_at_a_time() -> None:
    engine = ScriptedEngine()
    async with pool_of(engine, slots=2) as pool, AsyncExitStack() as stack:
        first, second = await held(stack, pool), await held(stack, pool)
        assert first.session.handle != second.session.handle
        third = asyncio.create_task(held(stack, pool))
        await wait_until(lambda: pool.queue_length == 1)
        assert not third.done()
        await stack.aclose()
        assert (await third).session.handle in {first.session.handle, second.session.handle}
        await stack.aclose()


async def test_the_catalog_knows_a_lease_exactly_while_it_lasts() -> None:
    engine = ScriptedEngine()
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN) as lease:
            handle = lease.session.handle
            assert pool.holder(handle, lease.id) == Access(ANN, EMPTY)
            assert pool.holder(handle, "L-of-someone-else") is None
            assert pool.holder("another-session", lease.id) is None
        assert pool.holder(handle, lease.id) is None
        async with pool.lease(BOB) as next_lease:
            assert next_lease.session.handle == handle
            assert pool.holder(handle, next_lease.id) == Access(BOB, EMPTY)
            assert pool.holder(handle, lease.id) is None


async def test_the_holder_of_a_lease_can_be_asked_from_another_thread() -> None:
    engine = ScriptedEngine()
    seen: list[Access | None] = []
    async with pool_of(engine, slots=1) as pool, pool.lease(ANN) as lease:
        thread = threading.Thread(target=lambda: seen.append(pool.holder(lease.session.handle, lease.id)))
        thread.start()
        await asyncio.to_thread(thread.join)
    assert seen == [Access(ANN, EMPTY)]


async def test_a_spoiled_session_is_closed_and_replaced() -> None:
    engine = ScriptedEngine()
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN) as lease:
            handle = lease.session.handle
            lease.spoil("left something behind")
        await wait_until(lambda: pool.idle_count == 1)
        assert handle not in engine.open_handles
        async with pool.lease(ANN) as lease:
            assert lease.session.handle != handle


async def test_a_query_left_running_is_interrupted_and_its_session_goes_back() -> None:
    engine = ScriptedEngine({"endless": Answer(hold=asyncio.Event())})
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN) as lease:
            events = lease.session.execute("endless", operation=new_operation_id(), lease=lease.id)
            await anext(events)
            handle = lease.session.handle
        async with pool.lease(ANN) as lease:
            assert lease.session.handle == handle


async def test_a_session_whose_cancel_is_not_confirmed_is_thrown_away() -> None:
    engine = ScriptedEngine({"stubborn": Answer(hold=asyncio.Event(), ignores_interrupts=True)})
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN) as lease:
            events = lease.session.execute("stubborn", operation=new_operation_id(), lease=lease.id)
            await anext(events)
            handle = lease.session.handle
        assert pool.leased_count == 1, "its place stays taken while Spark may still be at work"
        async with pool.lease(ANN) as lease:
            assert lease.session.handle != handle
        assert handle not in engine.open_handles


@pytest.mark.parametrize(("queries_max", "age_max_s"), [(1, 3600.0), (2000, 60.0)])
async def test_a_worn_session_is_replaced(queries_max: int, age_max_s: float) -> None:
    engine, clock = ScriptedEngine(), MovedClock()
    bounds = {"session_queries_max": queries_max, "session_age_max_s": age_max_s}
    async with pool_of(engine, slots=1, clock=clock, settings=bounds) as pool:
        async with pool.lease(ANN) as lease:
            handle = lease.session.handle
        clock.now += 61
        pool.tick()
        await wait_until(lambda: pool.idle_count == 1 and len(engine.open_handles) == 1)
        async with pool.lease(ANN) as lease:
            assert lease.session.handle != handle


async def test_principals_take_turns() -> None:
    engine, order = ScriptedEngine(), list[str]()
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN):
            tasks = [asking(pool, ANN, order, name) for name in ("a1", "a2")]
            await wait_until(lambda: pool.queue_length == 2)
            tasks.append(asking(pool, BOB, order, "b1"))
            await wait_until(lambda: pool.queue_length == 3)
            assert [pool.position(QueryId(name)) for name in ("a1", "b1", "a2")] == [1, 2, 3]
        await asyncio.gather(*tasks)
    assert order == ["a1", "b1", "a2"]


async def test_long_queries_do_not_keep_short_ones_waiting() -> None:
    engine, clock, order, go = ScriptedEngine(), MovedClock(), list[str](), asyncio.Event()
    async with pool_of(engine, slots=2, clock=clock, settings={"long_running_max": 2}) as pool:
        long_ones = [asking(pool, ANN, order, name, go) for name in ("long1", "long2")]
        await wait_until(lambda: len(order) == 2)
        short = asking(pool, BOB, order, "short")
        await wait_until(lambda: pool.queue_length == 1)
        clock.now += 9.9
        pool.tick()
        assert order == ["long1", "long2"]
        clock.now += 0.1
        pool.tick()
        await short
        assert order == ["long1", "long2", "short"]
        go.set()
        await asyncio.gather(*long_ones)
        assert len(engine.open_handles) <= 4


async def test_a_full_queue_refuses_at_once() -> None:
    engine = ScriptedEngine()
    async with pool_of(engine, slots=1, settings={"queue_length_max": 1}) as pool, pool.lease(ANN):
        waiting = asyncio.create_task(held(AsyncExitStack(), pool))
        await wait_until(lambda: pool.queue_length == 1)
        with pytest.raises(BailiwickError) as refused:
            await held(AsyncExitStack(), pool, BOB)
        assert refused.value.code is Code.RESOURCE_EXHAUSTED
        assert refused.value.details["reason"] == "queue_full"
        assert refused.value.retry_after_s is not None
        waiting.cancel()


async def test_who_waits_too_long_behind_others_is_told_to_come_back() -> None:
    engine, clock = ScriptedEngine(), MovedClock()
    async with (
        pool_of(engine, slots=1, clock=clock, settings={"long_running_max": 0}) as pool,
        pool.lease(ANN),
    ):
        waiting = asyncio.create_task(held(AsyncExitStack(), pool))
        await wait_until(lambda: pool.queue_length == 1)
        clock.now += 60
        pool.tick()
        with pytest.raises(BailiwickError) as refused:
            await waiting
        assert (refused.value.code, refused.value.retryable) == (Code.RESOURCE_EXHAUSTED, True)
        assert refused.value.details["reason"] == "queue_wait"


async def test_queries_wait_for_an_engine_that_is_down() -> None:
    engine = ScriptedEngine()
    async with pool_of(engine, slots=1) as pool, AsyncExitStack() as stack:
        engine.die()
        waiting = asyncio.create_task(held(stack, pool))
        await wait_until(lambda: pool.queue_length == 1)
        pool.tick()
        assert not waiting.done()
        engine.revive()
        pool.tick()
        lease = await waiting
        assert lease.session.handle == "scripted-handle-1"
        await run(lease, "SELECT 1")


async def test_without_an_engine_for_too_long_the_circuit_breaker_opens() -> None:
    engine, clock = ScriptedEngine(), MovedClock()
    async with pool_of(engine, slots=1, clock=clock) as pool:
        engine.die()
        waiting = [asyncio.create_task(held(AsyncExitStack(), pool)) for _ in range(2)]
        await wait_until(lambda: pool.queue_length == 2)
        clock.now += 60
        pool.tick()
        for task in waiting:
            with pytest.raises(BailiwickError) as refused:
                await task
            assert (refused.value.code, refused.value.retryable) == (Code.CIRCUIT_BREAKER_OPEN, True)


async def test_a_session_lost_with_its_engine_is_not_lent_again() -> None:
    engine = ScriptedEngine({"endless": Answer(hold=asyncio.Event())})
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN) as lease:
            running = asyncio.create_task(run(lease, "endless"))
            await wait_until(lambda: any(one.sql == "endless" for one in engine.executed))
            engine.die()
            with pytest.raises(EngineLost):
                await running
        engine.revive()
        pool.tick()
        async with pool.lease(ANN) as again:
            assert again.session.handle != lease.session.handle
            await run(again, "SELECT 1")


async def test_sessions_that_cannot_be_opened_are_tried_again() -> None:
    engine, clock = ScriptedEngine(), MovedClock()
    async with pool_of(engine, slots=1, clock=clock) as pool:
        engine.refuses_sessions = True
        async with pool.lease(ANN) as lease:
            lease.spoil("a test")
        await wait_until(lambda: pool.leased_count == 0 and pool.warming_count == 0)
        engine.refuses_sessions = False
        clock.now += 1
        pool.tick()
        async with pool.lease(ANN):
            pass


async def test_a_caller_that_is_cancelled_while_it_waits_leaves_no_trace() -> None:
    engine = ScriptedEngine()
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN):
            waiting = asyncio.create_task(held(AsyncExitStack(), pool))
            await wait_until(lambda: pool.queue_length == 1)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert pool.queue_length == 0
        assert (pool.leased_count, pool.idle_count) == (0, 1)


async def test_a_caller_cancelled_in_the_moment_of_its_turn_gives_the_session_back() -> None:
    engine = ScriptedEngine()
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN):
            first = asyncio.create_task(held(AsyncExitStack(), pool))
            await wait_until(lambda: pool.queue_length == 1)
        # Leaving granted the lease to `first`, whose task has not run since.
        assert pool.leased_count == 1
        first.cancel()
        await asyncio.wait([first])
        async with asyncio.timeout(5), pool.lease(BOB):
            pass


async def test_a_caller_cancelled_just_before_its_turn_does_not_break_the_pool() -> None:
    engine, order = ScriptedEngine(), list[str]()
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN):
            first = asking(pool, ANN, order, "first")
            second = asking(pool, ANN, order, "second")
            await wait_until(lambda: pool.queue_length == 2)
            first.cancel()
        await second
    assert order == ["second"]


async def test_draining_refuses_newcomers_and_waits_for_those_inside() -> None:
    engine, order, go = ScriptedEngine(), list[str](), asyncio.Event()
    async with pool_of(engine, slots=1) as pool:
        inside = asking(pool, ANN, order, "inside", go)
        await wait_until(lambda: order)
        queued = asking(pool, ANN, order, "queued")
        await wait_until(lambda: pool.queue_length == 1)
        assert not await pool.drain(timeout_s=0.01)
        with pytest.raises(BailiwickError) as refused:
            await held(AsyncExitStack(), pool)
        assert refused.value.details["reason"] == "shutting_down"
        go.set()
        assert await pool.drain(timeout_s=5)
        await asyncio.gather(inside, queued)
    assert order == ["inside", "queued"]


async def test_stopping_refuses_who_waits_and_closes_what_is_lent() -> None:
    engine = ScriptedEngine()
    async with pool_of(engine, slots=1) as pool:
        async with pool.lease(ANN) as lease:
            waiting = asyncio.create_task(held(AsyncExitStack(), pool))
            await wait_until(lambda: pool.queue_length == 1)
            await pool.stop()
            assert pool.holder(lease.session.handle, lease.id) is None
            assert engine.open_handles == set()
        with pytest.raises(BailiwickError):
            await waiting


async def test_a_start_without_an_engine_says_so() -> None:
    pool = pool_with(ScriptedEngine(is_up=False), PoolConfig(sessions=1))
    with pytest.raises(BailiwickError) as refused:
        await pool.start(timeout_s=0.05)
    assert refused.value.code is Code.CIRCUIT_BREAKER_OPEN
    await pool.stop()
