"""The engines that keepers have brought to this gateway.

Heartbeats come in, `health.py` decides what they mean, and this module does it: it opens the way to a new
life, lets others know when an engine joins or leaves, asks engines whether they answer, and tells the catalog
whose credential is whose. It neither starts nor stops an engine: that is its keeper's business.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Literal, Self, assert_never

from bailiwick.clock import Clock, monotonic
from bailiwick.engines.life_keys import LifeKeys
from bailiwick.errors import BailiwickError, Code
from bailiwick.fleet import health, vitals
from bailiwick.fleet.acceptance import address_of
from bailiwick.fleet.health import Fleet
from bailiwick.fleet.link import MUTUAL_TLS, Link
from bailiwick.fleet.placement import Tried
from bailiwick.fleet.remote import EXITED, OUT_OF_MEMORY, STOPPED, RemoteEngine
from bailiwick.fleet.report import TRUSTED, EngineState, Report
from bailiwick.fleet.vitals import Condition, HealthRules
from bailiwick.ids import NodeId
from bailiwick.policy.stamp import StampKey
from bailiwick.telemetry.logs import logger

TICK_S: Final = 1.0
STOPPED_LIVES_MAX: Final = 256

EndReason = Literal["out_of_memory", "exited", "stopped"]
END_REASONS: Final[tuple[EndReason, ...]] = (OUT_OF_MEMORY, EXITED, STOPPED)

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class CatalogUris:
    """Where engines find the catalog: those of this machine, and the others."""

    loopback: str
    encrypted: str | None = None
    """By HTTPS. Without one, engines of other machines are refused."""


@dataclass(frozen=True, slots=True)
class Called:
    """How a heartbeat came, besides what it says."""

    peer_is_loopback: bool
    link: str
    """What the keeper speaks: `mutual-tls` or `plain`."""
    catalog_uri: str = ""
    """The catalog that the engine was started with; empty if it was not started yet."""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What the keeper is told when its report was taken."""

    catalog_uri: str
    """Where its engine must look for the catalog. One that was started with another is of no use here."""
    interval_s: float
    is_drain_asked: bool
    """Whether the engine is to end what it has begun, and then to be started anew."""
    in_use: int
    """How many queries have a place on it now."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One engine as it is known, for people."""

    report: Report
    condition: Condition
    why: str
    """Why it is not used; empty if it is."""
    lives: int
    unheard_s: float


class Registry:
    """Use as a context. All but `keys_of` belongs to the event loop that entered it.

    `on_join` is told of a new life that may be lent from, as soon as it `is_ready`; `on_leave` when it is
    over, before the way to it is closed and before another life of that name joins. `in_use` says how many
    queries have a place on an engine.
    """

    def __init__(
        self,
        rules: HealthRules,
        link: Link,
        catalog: CatalogUris,
        *,
        on_join: Callable[[RemoteEngine], None] = lambda _engine: None,
        on_leave: Callable[[NodeId], None] = lambda _node_id: None,
        in_use: Callable[[NodeId], int] = lambda _node_id: 0,
        clock: Clock = monotonic,
    ) -> None:
        self._fleet = Fleet(rules)
        self._link = link
        self._catalog = catalog
        self._on_join = on_join
        self._on_leave = on_leave
        self._in_use = in_use
        self._clock = clock
        self._engines: dict[NodeId, RemoteEngine] = {}
        self._lives: dict[NodeId, int] = {}
        self._keys: Mapping[bytes, LifeKeys] = {}
        self._stopped: deque[str] = deque(maxlen=STOPPED_LIVES_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._spawn(self._tick_for_ever())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        engines, self._engines, self._keys = list(self._engines.values()), {}, {}
        for engine in engines:
            await engine.close()

    def heartbeat(self, report: Report, called: Called) -> HeartbeatAnswer:
        """Take a report. ACCESS_DENIED or INVALID_ARGUMENTS, with a sentence for the keeper, if refused."""
        uri = self._check(report, called)
        if called.catalog_uri not in ("", uri):
            # It was started for a gateway of before, and will be started anew: nothing may be sent there.
            report = replace(report, state=EngineState.STARTING)
        refused = self._tell(health.Heartbeat(report, called.peer_is_loopback))
        if refused is not None:
            _log.warning("engine_refused", node_id=report.node_id, reason=refused)
            raise BailiwickError(Code.ACCESS_DENIED, refused, details={"reason": "engine_refused"})
        engine = self._engines.get(report.node_id)
        if engine is not None and engine.life == report.life:
            engine.report = report
        known = self._fleet.engines.get(report.node_id)
        return HeartbeatAnswer(
            catalog_uri=uri,
            interval_s=self._fleet.rules.interval_s,
            is_drain_asked=known is not None and known.is_drain_asked,
            in_use=self._in_use(report.node_id),
        )

    def ended(self, node_id: NodeId, life: str, reason: EndReason) -> None:
        """The keeper says that this life of its engine is over. Of one that is unknown: fine.

        The name of a life is random, and its keeper tells it to nobody but us: who knows it, may end it.
        """
        engine = self._engines.get(node_id)
        if engine is not None and engine.life == life:
            engine.lose(reason)
        if reason == STOPPED:
            self._stopped.append(life)
            self._tell(health.Left(node_id, life))
        else:
            self._tell(health.TransportFailed(node_id, "its engine ended", life))

    def note_failure(self, node_id: NodeId, reason: str, life: str | None = None) -> None:
        """The way to the engine broke under a query. `reason` is a clause fit for a client."""
        self._tell(health.TransportFailed(node_id, reason, life))

    def note_success(self, node_id: NodeId, life: str | None = None) -> None:
        """The engine answered a query: with rows, or with an error that was the statement's own."""
        self._tell(health.QuerySucceeded(node_id, life))

    def ask_drain(self, node_id: NodeId) -> None:
        """Let the engine end what it has begun and be started anew; its keeper learns it by its next call."""
        self._tell(health.DrainAsked(node_id))

    def keys_of(self, credential: str) -> LifeKeys | None:
        """The life whose engine shows the catalog this credential. Any thread may ask."""
        return self._keys.get(_digest(credential))

    @property
    def engines(self) -> Mapping[NodeId, RemoteEngine]:
        """The lives that joined and are not over, whether they may be used now or not."""
        return self._engines

    @property
    def tried(self) -> tuple[Tried, ...]:
        """Those that are known and cannot be used now, and why."""
        return self._fleet.tried

    def nodes(self) -> list[NodeStatus]:
        return [
            NodeStatus(
                each.report,
                each.condition,
                each.why,
                lives=self._lives.get(name, 0),
                unheard_s=self._fleet.watched_s - each.heard_at_s,
            )
            for name, each in self._fleet.engines.items()
        ]

    def tick(self) -> None:
        """Let the passing of time have its effect. Called by itself every second."""
        self._tell(health.TimePassed())
        self._lives = {name: count for name, count in self._lives.items() if name in self._fleet.engines}

    def _check(self, report: Report, called: Called) -> str:
        """The catalog for this engine. Raises for what health need not even hear of."""
        _stamp_key(report)
        if report.life in self._stopped:
            raise _denied("This life of the engine is over.")
        if called.link != self._link.kind:
            raise _denied(_other_link(self._link.kind))
        if self._link.kind != MUTUAL_TLS and (not called.peer_is_loopback or _is_elsewhere(report.address)):
            raise _denied(
                "Engines of other machines join by mutual TLS only: give the gateway and the keeper their "
                "certificates."
            )
        known = self.keys_of(report.catalog_credential.reveal())
        if known is not None and known.life != report.life:
            raise _denied("A life of an engine must have secrets of its own.")
        if report.engine_class == TRUSTED and self._is_of_general_engine(report.node_id):
            raise _denied(
                f"The name {report.node_id} is that of an engine which runs no code of users: give this one "
                "another."
            )
        uri = self._catalog.loopback if called.peer_is_loopback else self._catalog.encrypted
        if uri is None:
            raise _denied("This gateway serves its catalog to engines of its own machine only.")
        return uri

    def _is_of_general_engine(self, node_id: NodeId) -> bool:
        """Engines that run code of users do not even follow one: else they could push others out."""
        known = self._fleet.engines.get(node_id)
        return known is not None and known.report.engine_class != TRUSTED

    def _tell(self, event: health.Event) -> str | None:
        """Let it have its consequences. Returns why a heartbeat was refused, if it was."""
        self._fleet, instructions = health.step(self._fleet, event, self._clock())
        refused: str | None = None
        for instruction in instructions:
            match instruction:
                case vitals.Join(report):
                    self._join(report)
                case vitals.Use(node_id):
                    self._use(node_id)
                case vitals.Avoid(node_id, why):
                    self._avoid(node_id, why)
                case vitals.Forget(node_id, life):
                    self._forget(node_id, life)
                case vitals.Probe(node_id, life):
                    self._probe(node_id, life)
                case vitals.Refuse(_, why):
                    refused = why
                case _:
                    assert_never(instruction)
        return refused

    def _join(self, report: Report) -> None:
        generation = self._lives.get(report.node_id, 0) + 1
        channel = self._link.open(report.address, report.engine_token.reveal())
        engine = RemoteEngine(
            report,
            channel,
            generation=generation,
            on_trouble=lambda _why: self.note_failure(
                report.node_id, "it was lost under a query", report.life
            ),
        )
        self._lives[report.node_id] = generation
        self._engines[report.node_id] = engine
        credential = _digest(report.catalog_credential.reveal())
        self._keys = {**self._keys, credential: LifeKeys(report.life, _stamp_key(report))}
        _log.info("engine_joined", node_id=report.node_id, master=report.master, cores=report.cores)
        if report.engine_class == TRUSTED:
            _log.warning("engine_runs_user_code", node_id=report.node_id)
        self._on_join(engine)

    def _use(self, node_id: NodeId) -> None:
        if engine := self._engines.get(node_id):
            _log.info("engine_used", node_id=node_id)
            engine.use()

    def _avoid(self, node_id: NodeId, why: str) -> None:
        if engine := self._engines.get(node_id):
            _log.warning("engine_avoided", node_id=node_id, reason=why)
            engine.avoid(why)

    def _forget(self, node_id: NodeId, life: str) -> None:
        engine = self._engines.get(node_id)
        if engine is None or engine.life != life:
            return
        del self._engines[node_id]
        # From here on the catalog knows nobody of that life.
        self._keys = {digest: keys for digest, keys in self._keys.items() if keys.life != life}
        engine.lose(EXITED)
        _log.info("engine_left", node_id=node_id)
        self._on_leave(node_id)
        self._spawn(engine.close())

    def _probe(self, node_id: NodeId, life: str) -> None:
        engine = self._engines.get(node_id)
        if engine is not None and engine.life == life:
            self._spawn(self._ask(engine))

    async def _ask(self, engine: RemoteEngine) -> None:
        why_not = await engine.probe(self._fleet.rules.probe_timeout_s)
        if why_not is None:
            self._tell(health.ProbeAnswered(engine.node_id, engine.life))
        else:
            self._tell(health.ProbeFailed(engine.node_id, why_not, engine.life))

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await asyncio.to_thread(self._link.look)
                self.tick()
            except Exception:
                # Whatever broke, engines must go on being watched.
                _log.exception("registry_tick_failed")

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _digest(credential: str) -> bytes:
    """Looked up instead of the credential: how long a look takes tells nothing of what is there."""
    return hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()


def _stamp_key(report: Report) -> StampKey:
    try:
        return StampKey(bytes.fromhex(report.stamp_key.reveal()))
    except ValueError:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            "The engine's report is wrong: stamp_key must be 32 bytes or more in hexadecimal digits.",
            details={"reason": "report"},
        ) from None


def _is_elsewhere(address: str) -> bool:
    try:
        return not address_of(address).is_loopback
    except ValueError:
        return False  # What is no address at all is refused by health, in its words.


def _denied(sentence: str) -> BailiwickError:
    return BailiwickError(Code.ACCESS_DENIED, sentence, details={"reason": "engine_refused"})


def _other_link(ours: str) -> str:
    if ours == MUTUAL_TLS:
        return (
            "This gateway reaches engines by mutual TLS: start the keeper with --certificate, --key and "
            "--authority."
        )
    return (
        "This gateway was given no certificate for engines, so it takes keepers without one, on its own "
        "machine only."
    )
