"""A pool of scripted sessions, and ways to ask it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from bailiwick.engines.config import PoolConfig
from bailiwick.engines.engine import Engine
from bailiwick.engines.warmup import Warmup
from bailiwick.fleet.lease import Lease
from bailiwick.fleet.members import Traits
from bailiwick.fleet.sessions import SessionPool
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId, new_operation_id
from bailiwick.testing.engines import ScriptedEngine, unproved

ANN = Principal("ann", frozenset({"reader"}))
BOB = Principal("bob", frozenset({"reader"}))
COLD = Warmup(rounds=0)


class MovedClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def wait_until(condition: Callable[[], object], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  (nothing here tells us)
            await asyncio.sleep(0)


def pool_with(engine: Engine, config: PoolConfig, **settings: Any) -> SessionPool:
    """With one engine, not started."""
    pool = SessionPool(config, **settings)
    pool.roster.add(engine, Traits(slots=config.sessions or 1, is_embedded=True))
    return pool


@asynccontextmanager
async def pool_of(
    engine: ScriptedEngine,
    *,
    slots: int = 2,
    clock: MovedClock | None = None,
    warmup: Warmup = COLD,
    settings: dict[str, float] | None = None,
) -> AsyncIterator[SessionPool]:
    config = PoolConfig.model_validate({"sessions": slots, **(settings or {})})
    pool = pool_with(engine, config, clock=clock or MovedClock(), warmup=warmup, prove=unproved)
    try:
        await pool.start(timeout_s=5)
        yield pool
    finally:
        await pool.stop()


async def held(stack: AsyncExitStack, pool: SessionPool, principal: Principal = ANN) -> Lease:
    return await stack.enter_async_context(pool.lease(principal))


def asking(
    pool: SessionPool, principal: Principal, order: list[str], name: str, go: asyncio.Event | None = None
) -> asyncio.Task[None]:
    async def ask() -> None:
        async with pool.lease(principal, QueryId(name)):
            order.append(name)
            if go is not None:
                await go.wait()

    return asyncio.create_task(ask())


async def run(lease: Lease, sql: str) -> None:
    async for _ in lease.session.execute(sql, operation=new_operation_id(), lease=lease.id):
        pass
