"""The life of a query: what may happen to it, and what is to be done then.

    queued ──► planning ──► running ──► finishing ──► finished
     ▲ │           │           │            │
     │ └───────────┴───────────┴────────────┴──► failed, cancelled
     └─────────────┴───────────┘
        another engine tries it

Pure: it reads no clock and does nothing. An event comes in, the query as it is now and a list of
instructions come out; `running.py` acts on them. Nothing leaves a terminal state. Two parties that race (an
engine that ends while a client cancels) both get an answer: the second event finds the query ended, and
says what to clean up. An event that no race explains is a bug of ours and raises with the query's story.
"""

from dataclasses import dataclass, replace
from typing import Any, assert_never

from bailiwick.engines.description import Kind
from bailiwick.ids import NodeId, OperationId
from bailiwick.queries.query import Attempt, Failure, Moment, Query, State


@dataclass(frozen=True, slots=True)
class Admitted:
    """It has an engine session to itself, or a thread of ours."""

    at: float
    node_id: NodeId
    is_fallback: bool = False


@dataclass(frozen=True, slots=True)
class Retried:
    """Its engine was lost before anyone saw a row of it. It waits for another one."""

    at: float
    failure: Failure


@dataclass(frozen=True, slots=True)
class Started:
    """It was understood, allowed, and handed to whoever runs it. `operation` is None if that is not Spark."""

    at: float
    kind: Kind
    operation: OperationId | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """Whoever ran it is done, and all rows have arrived here."""

    at: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """The reader has everything."""

    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    at: float
    failure: Failure


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody wants it to stop, or nobody wants its result."""

    at: float
    failure: Failure


Event = Admitted | Retried | Started | Completed | Delivered | Failed | Cancelled


@dataclass(frozen=True, slots=True)
class Save:
    """Record the query. `durably`: before anything else happens."""

    durably: bool = False


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Make the engine stop; what it still sends is of no use."""

    operation: OperationId | None


@dataclass(frozen=True, slots=True)
class Discard:
    """Nobody will read what is left of the result."""


Instruction = Save | Interrupt | Discard


class IllegalStepError(Exception):
    """An event that cannot happen in this state: a bug of ours. Tells the query's story."""

    def __init__(self, query: Query, event: Event) -> None:
        story = " → ".join(f"{moment.state} ({moment.event} at {moment.at:.3f})" for moment in query.story)
        super().__init__(
            f"{query.id} is {query.state} and cannot take {type(event).__name__}; "
            f"its story: created at {query.created_at:.3f}{' → ' if story else ''}{story}"
        )
        self.query = query
        self.event = event


def step(query: Query, event: Event) -> tuple[Query, tuple[Instruction, ...]]:
    """What becomes of `query` when `event` happens, and what to do about it."""
    if query.state.is_terminal:
        return query, _too_late(query, event)
    match event:
        case Admitted(at, node_id, is_fallback):
            _require(query, event, State.QUEUED)
            changes = {"node_id": node_id, "is_fallback": is_fallback}
            return _enter(query, State.PLANNING, event, at, **changes), ()
        case Retried(at, failure):
            return _retry(query, event, at, failure)
        case Started(at, kind, operation):
            _require(query, event, State.PLANNING)
            started = _enter(query, State.RUNNING, event, at, kind=kind, operation=operation, started_at=at)
            return started, (Save(durably=kind is Kind.CHANGE),)
        case Completed(at):
            _require(query, event, State.RUNNING)
            # Whoever asked for a change is told that it happened only when that is on record.
            return _enter(query, State.FINISHING, event, at), (Save(durably=query.kind is Kind.CHANGE),)
        case Delivered(at):
            _require(query, event, State.FINISHING)
            return _end(query, State.FINISHED, event, at), (Save(),)
        case Failed(at, failure):
            failed = _end(query, State.FAILED, event, at, failure=failure)
            return failed, (*_stop(query), Discard(), Save())
        case Cancelled(at, failure):
            return _cancel(query, event, at, failure)
    assert_never(event)


def _retry(query: Query, event: Event, at: float, failure: Failure) -> tuple[Query, tuple[Instruction, ...]]:
    """Only what has changed nothing: a read, or a statement of which nothing has run yet."""
    _require(query, event, State.PLANNING, State.RUNNING)
    if query.may_have_written or query.node_id is None:
        raise IllegalStepError(query, event)
    attempt = Attempt(query.node_id, failure, max(0.0, at - query.story[-1].at))
    queued = _enter(query, State.QUEUED, event, at, node_id=None, operation=None, started_at=None)
    return replace(queued, attempts=(*query.attempts, attempt)), (Save(),)


def _cancel(query: Query, event: Event, at: float, failure: Failure) -> tuple[Query, tuple[Instruction, ...]]:
    if query.state is State.FINISHING and query.kind is Kind.CHANGE:
        # The change has happened; only its rows, if it had any, find no reader.
        return _end(query, State.FINISHED, event, at), (Discard(), Save())
    cancelled = _end(query, State.CANCELLED, event, at, failure=failure)
    return cancelled, (*_stop(query), Discard(), Save())


def _too_late(query: Query, event: Event) -> tuple[Instruction, ...]:
    """What an event still asks for when the query has ended before it came."""
    match event:
        case Completed() | Delivered() if query.state is not State.FINISHED:
            # The engine won the race against our interrupt. The caller has been told that it failed or was
            # cancelled, so nobody will ever fetch this result.
            return (Discard(),)
        case Started(operation=operation) if query.state is not State.FINISHED:
            # It was cancelled in the moment in which it was handed over.
            return (Interrupt(operation), Discard())
        case Admitted() | Retried() | Started():
            if query.state is State.FINISHED:
                raise IllegalStepError(query, event)
            return ()
        case Completed() | Delivered() | Failed() | Cancelled():
            return ()
    assert_never(event)


def _stop(query: Query) -> tuple[Instruction, ...]:
    """An engine that is done needs no interrupt; one that plans may be busy for long."""
    return () if query.state is State.FINISHING else (Interrupt(query.operation),)


def _enter(query: Query, state: State, event: Event, at: float, **changes: Any) -> Query:
    moment = Moment(state, type(event).__name__, at)
    return replace(query, state=state, story=(*query.story, moment), **changes)


def _end(query: Query, state: State, event: Event, at: float, **changes: Any) -> Query:
    return _enter(query, state, event, at, finished_at=at, **changes)


def _require(query: Query, event: Event, *states: State) -> None:
    if query.state not in states:
        raise IllegalStepError(query, event)
