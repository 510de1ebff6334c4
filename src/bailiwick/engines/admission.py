"""Who may run now, who waits, who is sent away.

Pure: events and the time come in, a new state and what to do come out. It knows nothing of sessions or
engines; `sessions.py` acts on what is decided here.

Each principal has a line of its own, first come, first served; the lines take turns. At most `slots` short
queries run at once. One that has run for `interactive_s` is promoted: it counts as long from then on and
gives its slot to the next in line, as long as fewer than `long_max` long ones run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from bailiwick.ids import LeaseId

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


@dataclass(frozen=True, slots=True)
class Waiting:
    lease: LeaseId
    principal: str
    asked_at: float


@dataclass(frozen=True, slots=True)
class Admitted:
    """Holds a place. `started_at` is None until it has a session to run in; its time counts from there."""

    lease: LeaseId
    principal: str
    asked_at: float
    started_at: float | None = None
    is_long: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """The lines in the order of their turns, and those that hold a place. No line is empty."""

    limits: Limits
    lines: tuple[tuple[Waiting, ...], ...] = ()
    admitted: tuple[Admitted, ...] = ()

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        return tuple(one for line in self.lines for one in line)

    def __contains__(self, lease: LeaseId) -> bool:
        return any(one.lease == lease for one in self.waiting) or any(
            one.lease == lease for one in self.admitted
        )

    @property
    def queue_length(self) -> int:
        return sum(map(len, self.lines))

    @property
    def short_count(self) -> int:
        return len(self.admitted) - self.long_count

    @property
    def long_count(self) -> int:
        return sum(one.is_long for one in self.admitted)


@dataclass(frozen=True, slots=True)
class Asked:
    lease: LeaseId
    principal: str


@dataclass(frozen=True, slots=True)
class Started:
    """An admitted one got its session."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Left:
    """Ended, or gave up waiting. Leaving twice is fine."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


Event = Asked | Started | Left | TimePassed


class Reason(StrEnum):
    QUEUE_FULL = "queue_full"
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
        case Asked(lease, principal):
            state, instructions = _ask(state, Waiting(lease, principal, now))
        case Started(lease):
            state = _start(state, lease, now)
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
    """How many are admitted before this one, plus one; None if it does not wait."""
    for turn, line in enumerate(state.lines):
        for depth, one in enumerate(line):
            if one.lease == lease:
                others = ((index, len(other)) for index, other in enumerate(state.lines) if index != turn)
                return depth + 1 + sum(min(length, depth + (index < turn)) for index, length in others)
    return None


def _ask(state: Admission, newcomer: Waiting) -> tuple[Admission, tuple[Instruction, ...]]:
    if newcomer.lease in state:
        raise IllegalEvent(f"{newcomer.lease} asked twice")
    line = next((line for line in state.lines if line[0].principal == newcomer.principal), ())
    limits = state.limits
    # Whoever finds a free slot does not wait, however short the lines may be.
    if state.short_count < limits.slots and not state.lines:
        pass
    elif state.queue_length >= limits.queue_length_max:
        return state, (Refuse(newcomer.lease, Reason.QUEUE_FULL, _retry_after_s(state)),)
    elif len(line) >= limits.queue_length_per_principal_max:
        return state, (Refuse(newcomer.lease, Reason.QUEUE_FULL_FOR_USER, _retry_after_s(state)),)
    if line:
        lines = tuple((*one, newcomer) if one is line else one for one in state.lines)
    else:
        lines = (*state.lines, (newcomer,))
    return replace(state, lines=lines), ()


def _start(state: Admission, lease: LeaseId, now: float) -> Admission:
    if not any(one.lease == lease and one.started_at is None for one in state.admitted):
        raise IllegalEvent(f"{lease} started without a place, or twice")
    return replace(
        state,
        admitted=tuple(replace(one, started_at=now) if one.lease == lease else one for one in state.admitted),
    )


def _leave(state: Admission, lease: LeaseId) -> Admission:
    return replace(
        state,
        lines=_without_empty(tuple(one for one in line if one.lease != lease) for line in state.lines),
        admitted=tuple(one for one in state.admitted if one.lease != lease),
    )


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
    while state.lines and state.short_count < state.limits.slots:
        (first, *rest), *others = state.lines
        # Having had its turn, the line goes to the end.
        lines = _without_empty(iter((*others, tuple(rest))))
        admitted = Admitted(first.lease, first.principal, first.asked_at)
        state = replace(state, lines=lines, admitted=(*state.admitted, admitted))
        instructions.append(Admit(first.lease))
    return state, tuple(instructions)


def _without_empty(lines: Iterator[tuple[Waiting, ...]]) -> tuple[tuple[Waiting, ...], ...]:
    return tuple(line for line in lines if line)


def _retry_after_s(state: Admission) -> float:
    """A guess: the line moves by `slots` queries a second."""
    guess_s = state.queue_length / max(1, state.limits.slots)
    return min(RETRY_AFTER_MAX_S, max(RETRY_AFTER_MIN_S, guess_s))
