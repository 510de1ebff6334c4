"""Who may run now, who waits, who is sent away.

Pure: events and the time come in, a new state and what to do come out. It knows nothing of sessions or
engines; `sessions.py` acts on what is decided here.

Tenants take turns, and within a tenant its principals do; each principal has a line of its own, first come,
first served. So a tenant with a hundred users gets no more turns than one with a single user. A tenant that
has as many queries running as it may is passed over until one of them ends.

At most `slots` short queries run at once: as many as all engines together have. One that has run for
`interactive_s` is promoted: it counts as long from then on and gives its slot to the next in turn, as long as
fewer than `long_max` long ones run. One that only fits engines which are busy is put off: it keeps its turn
for them, and gives its slot to the next in turn, who may fit another engine. It does not count among those
that its tenant runs; should its engine have room when its tenant has none, it is recalled: the next place of
its tenant is its.

How many may wait is bounded: in all, of a tenant, of a principal. Those put off wait, too. Whoever was let in
to wait is not sent away for those who came later. Whoever finds a place need not wait, however many do; if it
is put off, it must, and then there may be no room for it.
"""

from collections.abc import Iterable, Sized
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar, assert_never

from bailiwick.identity.principal import DEFAULT_TENANT
from bailiwick.ids import LeaseId

Item = TypeVar("Item", bound=Sized)

RETRY_AFTER_MIN_S = 1.0
RETRY_AFTER_MAX_S = 30.0


@dataclass(frozen=True, slots=True)
class Limits:
    slots: int
    long_max: int
    interactive_s: float
    queue_length_max: int
    queue_length_per_principal_max: int
    queue_wait_s: float
    queue_length_per_tenant_max: int | None = None
    running_per_tenant_max: int | None = None
    """Short and long ones together. None: no bound of its own."""


@dataclass(frozen=True, slots=True)
class Waiting:
    lease: LeaseId
    principal: str
    tenant: str
    asked_at: float
    may_wait: bool = True
    """Whether there was room for that when it came."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """Holds a place. `started_at` is None until it has a session to run in; its time counts from there."""

    lease: LeaseId
    principal: str
    tenant: str
    asked_at: float
    may_wait: bool = True
    started_at: float | None = None
    is_long: bool = False
    is_put_off: bool = False
    is_recalled: bool = False
    """Put off, and only its tenant's bound keeps it from running."""

    @property
    def counts_for_tenant(self) -> bool:
        return not self.is_put_off or self.is_recalled


Line = tuple[Waiting, ...]
"""Those of one principal, in the order in which they came."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The lines of one tenant, in the order of their turns. No line is empty."""

    tenant: str
    lines: tuple[Line, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.lines))


@dataclass(frozen=True, slots=True)
class Admission:
    """The tenants' queues in the order of their turns, and those that hold a place. No queue is empty."""

    limits: Limits
    queues: tuple[Queue, ...] = ()
    admitted: tuple[Admitted, ...] = ()

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        return tuple(one for queue in self.queues for line in queue.lines for one in line)

    def __contains__(self, lease: LeaseId) -> bool:
        return any(one.lease == lease for one in self.waiting) or any(
            one.lease == lease for one in self.admitted
        )

    @property
    def kept_waiting(self) -> tuple[Waiting | Admitted, ...]:
        """Those put off, too: they have a place only in name."""
        return (*self.waiting, *(one for one in self.admitted if one.is_put_off))

    @property
    def queue_length(self) -> int:
        return len(self.kept_waiting)

    @property
    def short_count(self) -> int:
        return sum(not one.is_long and not one.is_put_off for one in self.admitted)

    @property
    def long_count(self) -> int:
        return sum(one.is_long for one in self.admitted)

    def has_place_for(self, tenant: str) -> bool:
        """Whether one of this tenant could run at once, if it is their turn."""
        running_max = self.limits.running_per_tenant_max
        return self.short_count < self.limits.slots and (
            running_max is None
            or sum(one.tenant == tenant and one.counts_for_tenant for one in self.admitted) < running_max
        )

    def may_start(self, lease: LeaseId) -> bool:
        """Whether an admitted one may have a session now: others of its tenant may have come before it while
        it was put off.
        """
        running_max = self.limits.running_per_tenant_max
        tenant = next(one.tenant for one in self.admitted if one.lease == lease)
        running = sum(one.tenant == tenant and one.started_at is not None for one in self.admitted)
        return running_max is None or running < running_max

    def waits_for_engine(self, lease: LeaseId) -> bool:
        """Whether it is put off, and nothing else keeps it."""
        return any(one.lease == lease and one.is_put_off and not one.is_recalled for one in self.admitted)


@dataclass(frozen=True, slots=True)
class Asked:
    lease: LeaseId
    principal: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Started:
    """An admitted one got its session."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class PutOff:
    """An admitted one that has no session yet fits none of the engines that have one."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Recalled:
    """One that was put off could have a session, if its tenant might run one more: the next place is its."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Resized:
    """An engine came or went."""

    slots: int
    long_max: int


@dataclass(frozen=True, slots=True)
class Left:
    """Ended, or gave up waiting. Leaving twice is fine."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


Event = Asked | Started | PutOff | Recalled | Resized | Left | TimePassed


class Reason(StrEnum):
    QUEUE_FULL = "queue_full"
    QUEUE_FULL_FOR_TENANT = "queue_full_for_tenant"
    QUEUE_FULL_FOR_USER = "queue_full_for_user"
    QUEUE_WAIT = "queue_wait"


@dataclass(frozen=True, slots=True)
class Admit:
    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Promote:
    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Refuse:
    lease: LeaseId
    reason: Reason
    retry_after_s: float


Instruction = Admit | Promote | Refuse


class IllegalEvent(Exception):  # noqa: N818  (an event, not an error of the caller's)
    """An event that cannot happen in this state: a bug of ours."""


def step(state: Admission, event: Event, now: float) -> tuple[Admission, tuple[Instruction, ...]]:
    """What becomes of `state` when `event` happens at `now`, and what to do about it."""
    instructions: tuple[Instruction, ...] = ()
    match event:
        case Asked(lease, principal, tenant):
            state, instructions = _ask(state, Waiting(lease, principal, tenant, now))
        case Started(lease):
            state = _start(state, lease, now)
        case PutOff(lease):
            state, instructions = _put_off(state, lease)
        case Recalled(lease):
            state = _changed(state, lease, is_recalled=True)
        case Resized(slots, long_max):
            state = replace(state, limits=replace(state.limits, slots=slots, long_max=long_max))
        case Left(lease):
            state = _leave(state, lease)
        case TimePassed():
            state, instructions = _expire(state, now)
        case _:
            assert_never(event)
    state, promotions = _promote(state, now)
    state, admissions = _admit(state)
    return state, instructions + promotions + admissions


def position(state: Admission, lease: LeaseId) -> int | None:
    """How many are admitted before this one, plus one; None if it does not wait.

    Bounds on what a tenant may run are left out of account: who is passed over comes later than this says.
    """
    for turn, queue in enumerate(state.queues):
        for line_turn, line in enumerate(queue.lines):
            for depth, one in enumerate(line):
                if one.lease == lease:
                    within = _place(line_turn, depth, map(len, queue.lines))
                    return _place(turn, within - 1, map(len, state.queues))
    return None


def _place(turn: int, depth: int, lengths: Iterable[int]) -> int:
    """When one comes that has `depth` before it in its row, and rows of these `lengths` take turns.

    >>> _place(1, 0, [3, 1, 2])
    2
    """
    others = ((index, length) for index, length in enumerate(lengths) if index != turn)
    return depth + 1 + sum(min(length, depth + (index < turn)) for index, length in others)


def _ask(state: Admission, newcomer: Waiting) -> tuple[Admission, tuple[Instruction, ...]]:
    if newcomer.lease in state:
        raise IllegalEvent(f"{newcomer.lease} asked twice")
    queue = next((one for one in state.queues if one.tenant == newcomer.tenant), Queue(newcomer.tenant))
    line = next((line for line in queue.lines if line[0].principal == newcomer.principal), ())
    reason = _no_room(state, newcomer)
    if reason is not None and not state.has_place_for(newcomer.tenant):
        return state, (Refuse(newcomer.lease, reason, _retry_after_s(state)),)
    # Whoever finds a place is in line for the rest of this step only: nobody is before them.
    newcomer = replace(newcomer, may_wait=reason is None)
    longer = replace(queue, lines=_joined(queue.lines, line, (*line, newcomer)))
    return replace(state, queues=_joined(state.queues, queue, longer)), ()


def _put_off(state: Admission, lease: LeaseId) -> tuple[Admission, tuple[Instruction, ...]]:
    """Now that it must wait after all, there must be room for it."""
    one = next(one for one in state.admitted if one.lease == lease)
    reason = None if one.may_wait else _no_room(state, one)
    if reason is not None:
        return _leave(state, lease), (Refuse(lease, reason, _retry_after_s(state)),)
    return _changed(state, lease, is_put_off=True, is_recalled=False, may_wait=True), ()


def _no_room(state: Admission, newcomer: Waiting | Admitted) -> Reason | None:
    """Why one more may not wait; None if it may."""
    limits = state.limits
    before = state.kept_waiting
    of_tenant = [one for one in before if one.tenant == newcomer.tenant]
    if len(before) >= limits.queue_length_max:
        return Reason.QUEUE_FULL
    tenant_max = limits.queue_length_per_tenant_max
    if tenant_max is not None and len(of_tenant) >= tenant_max:
        return Reason.QUEUE_FULL_FOR_TENANT
    of_principal = sum(one.principal == newcomer.principal for one in of_tenant)
    return Reason.QUEUE_FULL_FOR_USER if of_principal >= limits.queue_length_per_principal_max else None


def _joined(row: tuple[Item, ...], before: Item, after: Item) -> tuple[Item, ...]:
    """The row with `after` in the place of `before`, or at the end where there was nothing before."""
    return tuple(after if one is before else one for one in row) if len(before) else (*row, after)


def _start(state: Admission, lease: LeaseId, now: float) -> Admission:
    if not any(one.lease == lease and one.started_at is None for one in state.admitted):
        raise IllegalEvent(f"{lease} started without a place, or twice")
    return _changed(state, lease, started_at=now, is_put_off=False, is_recalled=False)


def _changed(state: Admission, lease: LeaseId, **changes: Any) -> Admission:
    admitted = (replace(one, **changes) if one.lease == lease else one for one in state.admitted)
    return replace(state, admitted=tuple(admitted))


def _leave(state: Admission, lease: LeaseId) -> Admission:
    return replace(
        state,
        queues=_without_empty(
            replace(queue, lines=_without_empty(_without(line, lease) for line in queue.lines))
            for queue in state.queues
        ),
        admitted=tuple(one for one in state.admitted if one.lease != lease),
    )


def _without(line: Line, lease: LeaseId) -> Line:
    return tuple(one for one in line if one.lease != lease)


def _expire(state: Admission, now: float) -> tuple[Admission, tuple[Instruction, ...]]:
    """Send away who has waited too long, for a place or for a session to go with it."""
    oldest = now - state.limits.queue_wait_s
    late = [one.lease for one in state.waiting if one.asked_at <= oldest]
    late += [one.lease for one in state.admitted if one.started_at is None and one.asked_at <= oldest]
    refusals = tuple(Refuse(lease, Reason.QUEUE_WAIT, _retry_after_s(state)) for lease in late)
    for lease in late:
        state = _leave(state, lease)
    return state, refusals


def _promote(state: Admission, now: float) -> tuple[Admission, tuple[Instruction, ...]]:
    latest_start = now - state.limits.interactive_s
    overdue = sorted(
        (one.started_at, one.lease)
        for one in state.admitted
        if not one.is_long and one.started_at is not None and one.started_at <= latest_start
    )
    chosen = [lease for _, lease in overdue[: max(0, state.limits.long_max - state.long_count)]]
    if not chosen:
        return state, ()
    admitted = tuple(replace(one, is_long=True) if one.lease in chosen else one for one in state.admitted)
    return replace(state, admitted=admitted), tuple(map(Promote, chosen))


def _admit(state: Admission) -> tuple[Admission, tuple[Instruction, ...]]:
    instructions: list[Instruction] = []
    while (queue := _next_queue(state)) is not None:
        (first, *rest), *lines = queue.lines
        # Having had their turn, the line and the tenant go to the end.
        later = replace(queue, lines=_without_empty((*lines, tuple(rest))))
        queues = _without_empty((*(one for one in state.queues if one is not queue), later))
        admitted = Admitted(first.lease, first.principal, first.tenant, first.asked_at, first.may_wait)
        state = replace(state, queues=queues, admitted=(*state.admitted, admitted))
        instructions.append(Admit(first.lease))
    return state, tuple(instructions)


def _next_queue(state: Admission) -> Queue | None:
    return next((queue for queue in state.queues if state.has_place_for(queue.tenant)), None)


def _without_empty(row: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(one for one in row if len(one))


def _retry_after_s(state: Admission) -> float:
    """A guess: the line moves by `slots` queries a second."""
    guess_s = state.queue_length / max(1, state.limits.slots)
    return min(RETRY_AFTER_MAX_S, max(RETRY_AFTER_MIN_S, guess_s))
