"""What the door remembers between GetFlightInfo and DoGet, within bounds.

A change runs at GetFlightInfo, so its outcome must wait for the ticket; a read's id is announced there and
used by the first DoGet only. Outcomes are forgotten when their tickets have expired, or when there are too
many: then the oldest go first, a principal's own before anyone else's.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from bailiwick.clock import Clock
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import GatewayId, QueryId, new_query_id, query_id_at
from bailiwick.telemetry.traces import promise

ANNOUNCED_MAX = 10_000
CARRIED_BYTES_MAX = 4_096
"""An outcome up to this size can travel in its ticket."""


@dataclass(frozen=True, slots=True)
class OutcomeLimits:
    bytes_max: int = 8 << 20
    """What one outcome may hold. Changes answer with nothing or a few rows."""
    per_principal_max: int = 100
    total_max: int = 2_000
    total_bytes_max: int = 64 << 20


@dataclass(frozen=True, slots=True)
class KeptOutcome:
    """FlightData messages, ready to send: the schema first."""

    principal: str
    messages: tuple[bytes, ...]
    expires_at: float

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.messages))


class Outcomes:
    """Outcomes of changes, waiting to be fetched, as often as one likes."""

    def __init__(self, limits: OutcomeLimits, *, keep_s: float, now: Clock) -> None:
        self._limits = limits
        self._keep_s = keep_s
        self._now = now
        self._kept: OrderedDict[QueryId, KeptOutcome] = OrderedDict()
        self._per_principal: Counter[str] = Counter()
        self._total_bytes = 0

    def keep(self, query_id: QueryId, principal: str, messages: tuple[bytes, ...]) -> None:
        outcome = KeptOutcome(principal, messages, self._now() + self._keep_s)
        self._forget_expired()
        if self._per_principal[principal] >= self._limits.per_principal_max:
            self._forget(next(id for id, kept in self._kept.items() if kept.principal == principal))
        self._kept[query_id] = outcome
        self._per_principal[principal] += 1
        self._total_bytes += outcome.size_bytes
        while len(self._kept) > self._limits.total_max or self._total_bytes > self._limits.total_bytes_max:
            self._forget(next(iter(self._kept)))

    def fetch(self, query_id: QueryId) -> tuple[bytes, ...] | None:
        self._forget_expired()
        kept = self._kept.get(query_id)
        return kept.messages if kept else None

    def extend(self, query_id: QueryId) -> float | None:
        """Keep it as long as if it were new, and say until when; None if it is gone."""
        self._forget_expired()
        kept = self._kept.get(query_id)
        if kept is None:
            return None
        self._kept[query_id] = replace(kept, expires_at=self._now() + self._keep_s)
        self._kept.move_to_end(query_id)
        return self._kept[query_id].expires_at

    def check_size(self, size_bytes: int) -> None:
        """Refuse an outcome that has grown too large to keep. The change itself has happened by then."""
        if size_bytes > self._limits.bytes_max:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"The statement ran; its answer has over {self._limits.bytes_max} bytes and was not kept.",
                retryable=False,
            )

    def _forget_expired(self) -> None:
        now = self._now()
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest].expires_at > now:
                return
            self._forget(oldest)

    def _forget(self, query_id: QueryId) -> None:
        kept = self._kept.pop(query_id)
        self._total_bytes -= kept.size_bytes
        self._per_principal[kept.principal] -= 1
        if not self._per_principal[kept.principal]:
            del self._per_principal[kept.principal]


class AnnouncedIds:
    """Ids that were announced with a ticket and not used yet. An id is used at most once.

    A ticket of another gateway's is run under an id that can be told from both, so that it can be cancelled
    anywhere; the first time only.
    """

    def __init__(self, gateway: Callable[[], GatewayId | None] = lambda: None) -> None:
        self._gateway = gateway
        self._unused: OrderedDict[QueryId, None] = OrderedDict()
        self._taken: OrderedDict[QueryId, None] = OrderedDict()
        self._forgotten_until = QueryId("")
        """Ids up to this one, which sort by time, may have been taken."""

    def announce(self) -> QueryId:
        query_id = new_query_id()
        promise(query_id)
        self._unused[query_id] = None
        if len(self._unused) > ANNOUNCED_MAX:
            self._unused.popitem(last=False)
        return query_id

    def take(self, announced: QueryId) -> QueryId:
        """`announced` itself the first time, a new id ever after (also after a restart)."""
        if announced in self._unused:
            del self._unused[announced]
            self._take(announced)
            return announced
        gateway = self._gateway()
        if gateway is None or announced in self._taken or announced <= self._forgotten_until:
            return new_query_id()
        self._take(announced)
        return query_id_at(announced, gateway)

    def _take(self, announced: QueryId) -> None:
        self._taken[announced] = None
        if len(self._taken) > ANNOUNCED_MAX:
            forgotten, _ = self._taken.popitem(last=False)
            self._forgotten_until = max(self._forgotten_until, forgotten)
