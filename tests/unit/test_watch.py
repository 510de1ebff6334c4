"""Memory is watched everywhere: of the gateway, of its own engine, of those that joined. And what follows."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from pool_house import ANN, COLD, MovedClock, wait_until

from bailiwick.app.watch import MemoryLimits, Watch, give_back
from bailiwick.engines.config import PoolConfig
from bailiwick.engines.process import EngineMeasures
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet.config import FleetConfig
from bailiwick.fleet.members import Traits
from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.registry import Called, CatalogUris, Registry
from bailiwick.fleet.remote import RemoteEngine
from bailiwick.fleet.report import GENERAL, TRUSTED, EngineState, Report
from bailiwick.fleet.schedule import HEAVY_BYTES, Work
from bailiwick.fleet.sessions import SessionPool
from bailiwick.ids import new_operation_id
from bailiwick.telemetry.metrics import Metrics
from bailiwick.testing.engines import ScriptedEngine, unproved
from bailiwick.testing.scripted_fleet import RULES, ScriptedLink, report_of, restarted

HERE = Called(peer_is_loopback=True, link="plain")
ROOMY = MemoryLimits(gateway_bytes=1 << 50, engine_bytes=1 << 50)
EMPTY = EngineMeasures(0, 100, heap_after_full_gc=10, heap_max=100, active_operations=0, told_at=0.0)
FULL = replace(EMPTY, heap_after_full_gc=95)


class Process:
    """One that holds what this test holds, and says what the test wants."""

    def __init__(self, measures: EngineMeasures) -> None:
        self.pid = os.getpid()
        self.measures: EngineMeasures | None = measures
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class OwnEngine(ScriptedEngine):
    def __init__(self, measures: EngineMeasures) -> None:
        super().__init__()
        self.process = Process(measures)
        self.renewals = 0

    async def renew(self) -> None:
        self.renewals += 1
        self.process = Process(EMPTY)
        self.generation += 1


@dataclass
class Post:
    """A watch over a pool and a registry, with one clock that the test moves."""

    own: OwnEngine | None = None
    limits: MemoryLimits = ROOMY
    recycle_after_s: float = 1000.0
    clock: MovedClock = field(default_factory=MovedClock)
    link: ScriptedLink = field(default_factory=ScriptedLink)

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.pool = SessionPool(PoolConfig(), clock=self.clock, warmup=COLD, prove=unproved)
        self.registry = Registry(
            RULES,
            self.link,
            CatalogUris("http://127.0.0.1:1/iceberg"),
            on_join=self._join,
            on_leave=self.pool.roster.remove,
            in_use=self.pool.roster.running_on,
            clock=self.clock,
        )
        config = FleetConfig(recycle_after_s=self.recycle_after_s, recycle_red_s=60)
        self.watch = Watch(config, self.limits, self.pool, self.registry, self.own, self.metrics, self.clock)

    def _join(self, engine: RemoteEngine) -> None:
        self.pool.roster.add(engine, Traits(engine.report.cores))

    def look_again(self, limits: MemoryLimits) -> None:
        """Look with other bounds: the same memory is more or less of them."""
        self.watch = Watch(
            FleetConfig(), limits, self.pool, self.registry, self.own, self.metrics, self.clock
        )
        self.watch.look()

    def watermark(self) -> Watermark:
        return next(iter(self.pool.roster)).watermark


@asynccontextmanager
async def posted(post: Post) -> AsyncIterator[Post]:
    if post.own is not None:
        post.pool.roster.add(post.own, Traits(2, is_embedded=True))
    post.pool.begin()
    async with post.registry:
        try:
            yield post
        finally:
            await post.pool.stop()


async def test_the_own_engine_is_watched_like_those_that_join() -> None:
    own = OwnEngine(EMPTY)
    async with posted(Post(own)) as post:
        post.watch.look()
        assert post.watermark() is Watermark.GREEN
        own.process.measures = FULL
        post.watch.look()
        assert post.watermark() is Watermark.RED
        rendered = post.metrics.render().decode()
        assert 'bailiwick_memory_utilization_ratio{node="scripted"} 0.95' in rendered
        assert 'bailiwick_memory_utilization_ratio{node="gateway"}' in rendered


async def test_a_full_gateway_refuses_new_work_and_says_when_to_come_back() -> None:
    async with posted(Post(OwnEngine(EMPTY))) as post:
        await wait_until(lambda: post.pool.idle_count)
        post.look_again(replace(ROOMY, gateway_bytes=1))
        with pytest.raises(BailiwickError) as refused:
            async with post.pool.lease(ANN):
                pass
        assert refused.value.code is Code.RESOURCE_EXHAUSTED
        assert refused.value.retry_after_s == 5.0
        assert refused.value.details["reason"] == "gateway_memory"
        post.look_again(ROOMY)
        async with post.pool.lease(ANN):
            pass


async def test_who_waits_when_the_gateway_becomes_full_goes_on_waiting_and_runs_when_it_is_not() -> None:
    async with posted(Post(OwnEngine(EMPTY))) as post:
        await wait_until(lambda: post.pool.idle_count == 2)
        async with post.pool.lease(ANN), post.pool.lease(ANN):
            waiting = asyncio.create_task(_ask(post.pool))
            await wait_until(lambda: post.pool.queue_length)
            post.look_again(replace(ROOMY, gateway_bytes=1))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        post.look_again(ROOMY)
        post.pool.tick()
        await waiting


async def test_at_orange_heavy_work_waits_and_light_work_does_not() -> None:
    async with posted(Post(OwnEngine(EMPTY))) as post:
        await wait_until(lambda: post.pool.idle_count)
        post.pool.roster.note_pressure(Watermark.ORANGE)
        heavy = asyncio.create_task(_ask(post.pool, Work(cost_bytes=HEAVY_BYTES)))
        await _ask(post.pool)
        assert not heavy.done()
        post.pool.roster.note_pressure(Watermark.YELLOW)
        post.pool.tick()
        await heavy


async def test_an_own_engine_that_stays_full_with_nothing_at_work_is_started_anew() -> None:
    own = OwnEngine(FULL)
    async with posted(Post(own)) as post:
        for _ in range(3):
            post.watch.look()
            await post.watch.renew_own()
            assert own.renewals == 0
            post.clock.now += 29
        post.clock.now += 60 - 3 * 29
        post.watch.look()
        await post.watch.renew_own()
        assert own.renewals == 1
        post.watch.look()
        assert post.watermark() is Watermark.GREEN


async def test_an_own_engine_that_is_full_for_what_it_does_is_left_alone() -> None:
    own = OwnEngine(replace(FULL, active_operations=1))
    async with posted(Post(own)) as post:
        for _ in range(10):
            post.watch.look()
            await post.watch.renew_own()
            post.clock.now += 30
        assert own.renewals == 0


async def test_engines_are_recycled_under_load_and_no_query_fails() -> None:
    async with posted(Post(recycle_after_s=20)) as post:
        keepers = [Keeper(post, name) for name in ("a", "b")]
        loads = [asyncio.create_task(_ask_again_and_again(post.pool)) for _ in range(4)]
        async with asyncio.timeout(30):
            while any(keeper.lives < 3 for keeper in keepers):
                post.clock.now += 1
                for keeper in keepers:
                    keeper.beat()
                post.watch.look()
                for _ in range(20):
                    await asyncio.sleep(0)
        for load in loads:
            load.cancel()
        answered = await asyncio.gather(*loads, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in answered), answered
        assert all(keeper.answered_in_each_life for keeper in keepers)


async def test_the_last_engine_for_everybody_is_not_recycled_because_one_runs_code_of_users() -> None:
    async with posted(Post(recycle_after_s=20)) as post:
        keepers = [Keeper(post, "a"), Keeper(post, "b", TRUSTED), Keeper(post, "c", TRUSTED)]
        for _ in range(30):
            post.clock.now += 1
            for keeper in keepers:
                keeper.beat()
            post.watch.look()
            for _ in range(20):
                await asyncio.sleep(0)
        assert [keeper.lives for keeper in keepers] == [1, 2, 2]


class Keeper:
    """Tells of its engine, and starts another when it is told to drain and nothing runs there any more."""

    def __init__(self, post: Post, name: str, engine_class: str = GENERAL) -> None:
        self._post = post
        self._report = report_of(name, engine_class=engine_class)
        self.lives = 1
        self.answered_in_each_life = True

    def beat(self) -> None:
        answer = self._post.registry.heartbeat(self._report, HERE)
        if answer.is_drain_asked and self._report.state is EngineState.READY:
            self._report = replace(self._report, state=EngineState.DRAINING)
        elif self._report.state is EngineState.DRAINING and not answer.in_use:
            self._end(self._report)

    def _end(self, report: Report) -> None:
        engine = self._post.link.channels[report.address].engine
        self.answered_in_each_life &= bool(engine.executed)
        self._post.registry.ended(report.node_id, report.life, "stopped")
        engine.die()
        self._report = restarted(report, state=EngineState.READY)
        self.lives += 1


async def _ask_again_and_again(pool: SessionPool) -> None:
    while True:
        await _ask(pool)


async def _ask(pool: SessionPool, work: Work | None = None) -> None:
    async with pool.lease(ANN, work=work or Work()) as lease:
        async for _ in lease.session.execute("SELECT 1", operation=new_operation_id(), lease=lease.id):
            await asyncio.sleep(0)


def test_memory_can_be_given_back_at_any_time() -> None:
    give_back()
