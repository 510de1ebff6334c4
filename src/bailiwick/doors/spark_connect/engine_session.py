"""The engine session behind one client's session: opened when first needed, and made again when it must be.

An engine may be lost, recycled, or asked to give back sessions that idle; policies and roles change; code may
come to be in the session, which runs on few engines. In each case the session's recipe is followed again, and
the client notices nothing. What cannot be made again is named, and the session ends with that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect.errors import session_changed
from bailiwick.doors.spark_connect.recipe import DropView, MakeFunction, MakeView, Recipe, Step
from bailiwick.doors.spark_connect.shared_session import Place, make_plain
from bailiwick.doors.spark_connect.unpacking import parse
from bailiwick.engines.engine import Engine, EngineSession
from bailiwick.errors import BailiwickError
from bailiwick.fleet.schedule import Work
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, new_operation_id
from bailiwick.queries.spark_side import Lease
from bailiwick.telemetry.logs import logger

PutRows = Callable[[proto.Plan], Awaitable[proto.Plan]]
_log = logger(__name__)


class Dedicated(Place, Protocol):
    """A session of one principal's own; see `fleet/dedicated.py`."""

    @property
    def session(self) -> EngineSession: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def engine_class(self) -> str | None: ...

    @property
    def is_lost(self) -> bool: ...

    @property
    def standing(self) -> LeaseId: ...

    def is_standing_current(self, principal: Principal) -> bool: ...

    def renew_standing(self, principal: Principal) -> LeaseId: ...

    async def close(self) -> None: ...


class Dedicating(Protocol):
    async def dedicate(self, principal: Principal, work: Work) -> Dedicated: ...


class OwnEngineSession:
    """Belongs to one client's session and one event loop."""

    def __init__(
        self,
        session_id: str,
        dedicating: Dedicating,
        recipe: Callable[[], Recipe],
        drop: Callable[[str], None],
        put_rows: PutRows,
    ) -> None:
        """`drop` is told of views that could not be made again after policies changed; `put_rows` puts in
        what plans only mention.
        """
        self._session_id = session_id
        self._dedicating = dedicating
        self._recipe = recipe
        self._drop = drop
        self._put_rows = put_rows
        self._dedicated: Dedicated | None = None
        self._turn = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._dedicated is not None and not self._dedicated.is_lost

    async def fit(self, principal: Principal, work: Work) -> Dedicated:
        """The engine session as the recipe says it, for `principal` as they are now.

        Raises EngineLost if an engine is lost meanwhile, INVALID_HANDLE.SESSION_CHANGED if it cannot be made.
        """
        async with self._turn:
            dedicated = self._dedicated
            if dedicated is not None and (dedicated.is_lost or dedicated.engine_class != work.engine_class):
                # What runs there may end: the engine leaves, or the session needs one of another class.
                dedicated.retire()
                dedicated = self._dedicated = None
            if dedicated is None:
                return await self._open(principal, work)
            if not dedicated.is_standing_current(principal):
                dedicated.renew_standing(principal)
                await self._renew(dedicated, principal, work)
            return dedicated

    async def give_back(self) -> None:
        """Let the engine forget it; the next use makes it again. Fine if there is none."""
        async with self._turn:
            await self._close()

    async def _open(self, principal: Principal, work: Work) -> Dedicated:
        recipe = self._recipe()
        if recipe.lost is not None:
            raise session_changed(
                self._session_id, f"The session had to be made again, and it had {recipe.lost}."
            )
        dedicated = await self._dedicating.dedicate(principal, work)
        try:
            await self._follow(dedicated, recipe, principal, work)
        except BaseException:
            await asyncio.shield(dedicated.close())
            raise
        self._dedicated = dedicated
        return dedicated

    async def _follow(self, dedicated: Dedicated, recipe: Recipe, principal: Principal, work: Work) -> None:
        if not recipe.is_empty:
            _log.info("session_made_again", user=principal.name, steps=len(recipe.steps))
        async with dedicated.lease(principal, None, work) as lease:
            await make_plain(lease)
            if recipe.confs:
                await lease.session.config(settings(recipe.confs.items()))
            for use in recipe.uses:
                await self._run(dedicated, lease, use.plan, principal)
            for step in recipe.steps:
                try:
                    await self._take(dedicated, lease, step, principal)
                except BailiwickError as error:
                    raise session_changed(
                        self._session_id,
                        f"The session moved, and {step.name} could not be made again: {error.message}",
                    ) from error

    async def _renew(self, dedicated: Dedicated, principal: Principal, work: Work) -> None:
        """Make anew the views that hold what was decided when they were made."""
        recipe = self._recipe()
        if not recipe.has_frames:
            return
        async with dedicated.lease(principal, None, work) as lease:
            for step in recipe.steps:
                try:
                    await self._take(dedicated, lease, step, principal)
                except BailiwickError as error:
                    if isinstance(step, MakeFunction):
                        raise
                    self._drop(step.name)
                    await self._take(dedicated, lease, DropView(step.name), principal)
                    error.message = (
                        f"The temporary view {step.name} is gone, policies changed: {error.message}"
                    )
                    raise

    async def _take(self, dedicated: Dedicated, lease: Lease, step: Step, principal: Principal) -> None:
        if not isinstance(step, DropView):
            makes_view = isinstance(step, MakeView) and step.is_of_frame
            await self._run(dedicated, lease, step.plan, principal, is_view=makes_view)
            return
        plan = proto.Plan()
        plan.root.catalog.drop_temp_view.view_name = step.name
        await self._run(dedicated, lease, plan.SerializeToString(), principal)

    async def _run(
        self,
        dedicated: Dedicated,
        lease: Lease,
        plan: bytes,
        principal: Principal,
        *,
        is_view: bool = False,
    ) -> None:
        responses = lease.session.execute_plan(
            await self._put_rows(parse(proto.Plan, plan)),
            operation=new_operation_id(),
            lease=lease.id,
            standing=dedicated.standing,
            principal=principal.name,
            makes_view=is_view,
        )
        async for _ in responses:
            pass

    async def _close(self) -> None:
        dedicated, self._dedicated = self._dedicated, None
        if dedicated is not None:
            await dedicated.close()


def settings(pairs: Any) -> Any:
    """A Config operation that sets these."""
    operation = proto.ConfigRequest.Operation()
    operation.set.pairs.extend(proto.KeyValue(key=key, value=value) for key, value in pairs)
    return operation
