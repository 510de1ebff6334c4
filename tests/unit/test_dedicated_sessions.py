"""Sessions that are one principal's own: what is promised to whoever keeps one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from pool_house import ANN, BOB, COLD, MovedClock, pool_with, run, wait_until

from bailiwick.engines.config import PoolConfig
from bailiwick.engines.engine import EngineLost
from bailiwick.engines.holders import Holders
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.config import DedicatedConfig
from bailiwick.fleet.dedicated import STANDING_AGE_MAX_S, DedicatedSessions
from bailiwick.fleet.members import Traits
from bailiwick.fleet.sessions import SessionPool
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.policy.model import Policies
from bailiwick.testing.engines import Answer, ScriptedEngine, unproved


@dataclass
class House:
    engine: ScriptedEngine
    pool: SessionPool
    holders: Holders
    dedicated: DedicatedSessions
    clock: MovedClock
    policies: list[Policies] = field(default_factory=lambda: [Policies(version=1)])


@asynccontextmanager
async def house(
    *, slots: int = 2, per_user: int = 8, in_all: int = 8, answers: dict[str, Answer] | None = None
) -> AsyncIterator[House]:
    policies = [Policies(version=1)]
    engine, clock, holders = ScriptedEngine(answers), MovedClock(), Holders(lambda: policies[0])
    config = PoolConfig(sessions=slots)
    pool = pool_with(engine, config, clock=clock, warmup=COLD, prove=unproved, holders=holders)
    limits = DedicatedConfig(sessions_per_user_max=per_user, sessions_max=in_all)
    dedicated = DedicatedSessions(pool, holders, limits, clock=clock)
    try:
        await pool.start(timeout_s=5)
        yield House(engine, pool, holders, dedicated, clock, policies)
    finally:
        await dedicated.close()
        await pool.stop()


async def test_a_session_is_taken_out_of_the_pool_which_opens_another() -> None:
    async with house(slots=1) as here:
        own = await here.dedicated.dedicate(ANN)
        await wait_until(lambda: here.pool.idle_count == 1)

        async with here.pool.lease(BOB) as lease:
            assert lease.session is not own.session
        assert here.pool.leased_count == 0


async def test_several_leases_run_side_by_side_in_one_session() -> None:
    async with house() as here, AsyncExitStack() as stack:
        own = await here.dedicated.dedicate(ANN)
        first = await stack.enter_async_context(own.lease(ANN, QueryId("q1")))
        second = await stack.enter_async_context(own.lease(ANN, QueryId("q2")))

        assert first.session is second.session is own.session
        assert own.lease_count == 2
        for lease in (first.id, second.id, own.standing):
            access = here.holders.holder(own.session.handle, lease)
            assert access is not None
            assert access.principal == ANN


async def test_a_lease_that_ends_leaves_the_others_and_the_standing_one() -> None:
    async with house() as here:
        own = await here.dedicated.dedicate(ANN)
        async with own.lease(ANN) as staying:
            async with own.lease(ANN) as leaving:
                pass
            assert here.holders.holder(own.session.handle, leaving.id) is None
            assert here.holders.holder(own.session.handle, staying.id) is not None
        assert here.holders.holder(own.session.handle, own.standing) is not None


async def test_leaving_stops_what_the_lease_began_and_nothing_else() -> None:
    answers = {"long": Answer(hold=asyncio.Event()), "other": Answer(hold=asyncio.Event())}
    async with house(answers=answers) as here, AsyncExitStack() as stack:
        own = await here.dedicated.dedicate(ANN)
        staying = await stack.enter_async_context(own.lease(ANN))
        other = asyncio.create_task(run(staying, "other"))
        async with own.lease(ANN) as leaving:
            long = asyncio.create_task(run(leaving, "long"))
            await wait_until(lambda: len(here.engine.executed) == 2)
        await wait_until(lambda: own.session.is_lease_settled(leaving.id))
        with pytest.raises(BailiwickError, match="cancelled"):
            await long

        assert not other.done()
        assert not own.is_lost
        hold = answers["other"].hold
        assert hold is not None
        hold.set()
        await other


async def test_work_that_does_not_stop_costs_the_session() -> None:
    answers = {"long": Answer(hold=asyncio.Event(), ignores_interrupts=True)}
    async with house(answers=answers) as here:
        own = await here.dedicated.dedicate(ANN)
        async with own.lease(ANN) as lease:
            long = asyncio.create_task(run(lease, "long"))
            await wait_until(lambda: here.engine.executed)
        await wait_until(lambda: own.is_lost)
        with pytest.raises(EngineLost):
            async with own.lease(ANN):
                pass
        await own.close()
        with pytest.raises(EngineLost):
            await long


async def test_its_work_counts_like_all_work_on_its_engine() -> None:
    async with house(slots=1) as here:
        own = await here.dedicated.dedicate(ANN)
        await wait_until(lambda: here.pool.idle_count == 1)
        async with own.lease(ANN):
            waiting = asyncio.create_task(_hold(here.pool))
            await wait_until(lambda: here.pool.queue_length == 1)
        await waiting


async def _hold(pool: SessionPool) -> None:
    async with pool.lease(BOB):
        pass


async def test_who_waits_for_a_busy_engine_does_not_keep_others_from_idle_ones() -> None:
    async with house(slots=1) as here, AsyncExitStack() as stack:
        own = await here.dedicated.dedicate(ANN)
        other = ScriptedEngine(name="other")
        here.pool.roster.add(other, Traits(slots=1))
        await wait_until(lambda: here.pool.idle_count == 2)
        await stack.enter_async_context(own.lease(ANN))
        second = asyncio.create_task(stack.enter_async_context(own.lease(ANN)))
        await wait_until(lambda: here.pool.queue_length == 1)

        async with asyncio.timeout(5), here.pool.lease(BOB) as lease:
            assert lease.engine is other
        assert not second.done()
        second.cancel()


async def test_a_user_has_so_many_sessions_and_no_more() -> None:
    async with house(per_user=1) as here:
        own = await here.dedicated.dedicate(ANN)
        with pytest.raises(BailiwickError) as refused:
            await here.dedicated.dedicate(ANN)
        assert refused.value.code is Code.RESOURCE_EXHAUSTED
        assert refused.value.details["reason"] == "sessions_per_user"

        await here.dedicated.dedicate(BOB)
        await own.close()
        await here.dedicated.dedicate(ANN)


async def test_all_together_have_so_many_sessions_and_no_more() -> None:
    async with house(in_all=1) as here:
        await here.dedicated.dedicate(ANN)
        with pytest.raises(BailiwickError) as refused:
            await here.dedicated.dedicate(BOB)
        assert refused.value.details["reason"] == "sessions"
        assert len(here.dedicated) == 1


async def test_those_who_ask_at_once_share_the_bound() -> None:
    async with house(slots=1, per_user=1) as here:
        asked = (here.dedicated.dedicate(ANN) for _ in range(3))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(answer, BailiwickError) for answer in answers) == 2


async def test_a_session_of_an_engine_that_was_started_anew_is_lost() -> None:
    async with house() as here:
        own = await here.dedicated.dedicate(ANN)
        here.engine.die()
        here.engine.revive()

        assert own.is_lost
        with pytest.raises(EngineLost):
            async with own.lease(ANN):
                pass
        assert len(here.dedicated) == 0


async def test_an_engine_that_leaves_begins_nothing_new_in_a_session_while_what_runs_may_end() -> None:
    async with house() as here:
        own = await here.dedicated.dedicate(ANN)
        async with own.lease(ANN) as lease:
            here.pool.roster.dismiss(here.engine.node_id)
            assert own.is_lost
            assert here.holders.holder(own.session.handle, lease.id) is not None
            await run(lease, "SELECT 1")


async def test_who_waits_for_a_session_that_is_lost_meanwhile_is_told() -> None:
    async with house(slots=1) as here, AsyncExitStack() as stack:
        own = await here.dedicated.dedicate(ANN)
        await stack.enter_async_context(own.lease(ANN))
        waiting = asyncio.create_task(stack.enter_async_context(own.lease(ANN)))
        await wait_until(lambda: here.pool.queue_length == 1)
        here.engine.die()
        here.engine.revive()
        await stack.aclose()
        with pytest.raises(EngineLost):
            await waiting


async def test_a_closed_session_can_neither_read_nor_commit() -> None:
    async with house() as here:
        own = await here.dedicated.dedicate(ANN)
        async with own.lease(ANN) as lease:
            await own.close()
            await own.close()
            assert here.holders.holder(own.session.handle, lease.id) is None
        assert here.holders.holder(own.session.handle, own.standing) is None
        assert own.session.handle not in here.engine.open_handles
        with pytest.raises(EngineLost):
            async with own.lease(ANN):
                pass


async def test_a_session_that_is_given_up_is_closed_when_all_have_left_it() -> None:
    async with house() as here:
        own = await here.dedicated.dedicate(ANN)
        async with own.lease(ANN) as one:
            async with own.lease(ANN):
                own.retire()
                assert own.is_lost
            assert here.holders.holder(own.session.handle, one.id) is not None
            await run(one, "SELECT 1")
        await wait_until(lambda: own.session.handle not in here.engine.open_handles)
        assert here.holders.holder(own.session.handle, own.standing) is None
        assert len(here.dedicated) == 0


async def test_a_session_that_is_given_up_and_not_used_is_closed_at_once() -> None:
    async with house() as here:
        own = await here.dedicated.dedicate(ANN)
        own.retire()
        await wait_until(lambda: own.session.handle not in here.engine.open_handles)


async def test_the_standing_lease_is_current_until_policies_roles_or_its_age_say_otherwise() -> None:
    async with house() as here:
        own = await here.dedicated.dedicate(ANN)
        assert own.is_standing_current(ANN)
        assert own.policy_version == 1

        here.policies[0] = Policies(version=2)
        assert not own.is_standing_current(ANN)
        before = own.standing
        renewed = own.renew_standing(ANN)
        assert renewed == own.standing != before
        assert own.is_standing_current(ANN)
        assert here.holders.holder(own.session.handle, before) is None

        promoted = Principal("ann", frozenset({"reader", "writer"}))
        assert not own.is_standing_current(promoted)
        own.renew_standing(promoted)
        assert own.is_standing_current(promoted)

        here.clock.now += STANDING_AGE_MAX_S
        assert not own.is_standing_current(promoted)


async def test_nobody_else_gets_a_lease_of_it() -> None:
    async with house() as here:
        own = await here.dedicated.dedicate(ANN)
        with pytest.raises(ValueError, match="one principal"):
            async with own.lease(BOB):
                pass
        with pytest.raises(ValueError, match="one principal"):
            own.renew_standing(BOB)
        assert here.pool.leased_count == 0
        async with own.lease(ANN):
            pass
