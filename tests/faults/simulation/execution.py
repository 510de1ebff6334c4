"""The part of the simulated gateway that runs queries: their retries, their end, their reader."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bailiwick.engines.description import Kind
from bailiwick.errors import Code
from bailiwick.fleet import health
from bailiwick.fleet.placement import Placement
from bailiwick.ids import LeaseId, OperationId
from bailiwick.queries import machine
from bailiwick.queries.query import Failure
from faults.simulation.engines import Operation, Way
from faults.simulation.inquiries import Inquiry, Member

if TYPE_CHECKING:
    from faults.simulation.gateway import Gateway

RETRIES_MAX: Final = 2
RETRY_PAUSE_S: Final = 0.1
STREAM_IDLE_S: Final = 12.0
CLEAR_UP_MAX_S: Final = 1.5


class Execution:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clockwork = gateway.clockwork
        self.wall_jumped_s = 0.0

    @property
    def wall(self) -> float:
        return 1.7e9 + self._clockwork.now_s + self.wall_jumped_s

    def begin(self, inquiry: Inquiry, lease: LeaseId, member: Member) -> None:
        """It has a session. First its engine says what it is, then it runs it."""
        inquiry.member, inquiry.operation, inquiry.silent_s = member, None, 0.0
        is_fallback = member.is_embedded and inquiry.work.placement is Placement.PREFER
        self._clockwork.note(lease, "gets", member.node_id)
        self._apply(inquiry, machine.Admitted(self.wall, member.node_id, is_fallback))
        self._gateway.later(self._clockwork.between(0.01, 0.3), lambda: self._start(inquiry, lease))

    def _start(self, inquiry: Inquiry, lease: LeaseId) -> None:
        if not self._holds(inquiry, lease) or inquiry.member is None:
            return
        match inquiry.member.way:
            case Way.REFUSED:
                self._lose(inquiry, lease, "it refused the connection")
            case Way.SILENT:
                self._gateway.later(0.5, lambda: self._start(inquiry, lease))
            case Way.OPEN:
                self._hand_over(inquiry, lease, inquiry.member)

    def _hand_over(self, inquiry: Inquiry, lease: LeaseId, member: Member) -> None:
        inquiry.operation = OperationId(f"op-{lease}")
        self._apply(inquiry, machine.Started(self.wall, inquiry.kind, inquiry.operation))
        member.engine.execute(
            Operation(
                id=inquiry.operation,
                query_id=inquiry.query.id,
                is_change=inquiry.kind is Kind.CHANGE,
                duration_s=inquiry.duration_s,
                fails_by_itself=inquiry.fails_by_itself,
                on_rows=lambda: self._send_rows(inquiry, lease),
                on_end=lambda is_well: self._end(inquiry, lease, is_well),
                on_lost=lambda why: self._lose(inquiry, lease, why),
            )
        )

    def _send_rows(self, inquiry: Inquiry, lease: LeaseId) -> None:
        if self._holds(inquiry, lease):
            inquiry.has_rows = True
            inquiry.silent_s = 0.0
            self._gateway.promises.sent_rows(inquiry.query.id, lease)

    def _end(self, inquiry: Inquiry, lease: LeaseId, is_well: bool) -> None:
        if not self._holds(inquiry, lease) or inquiry.member is None:
            return
        member = inquiry.member
        self._tell_success(member)
        self._release(inquiry, lease, is_settled=True)
        if not is_well:
            self.fail(inquiry, Failure(Code.DIVISION_BY_ZERO, "A row divides by zero."))
            return
        self._apply(inquiry, machine.Completed(self.wall))
        self._gateway.later(self._clockwork.between(0, 2), lambda: self._deliver(inquiry))

    def _deliver(self, inquiry: Inquiry) -> None:
        if not inquiry.query.state.is_terminal:
            self._apply(inquiry, machine.Delivered(self.wall))
            self._gateway.promises.answer(inquiry.query, "rows")

    def _lose(self, inquiry: Inquiry, lease: LeaseId, why: str) -> None:
        """The engine did not bring it to its end. Perhaps another one does."""
        if not self._holds(inquiry, lease) or inquiry.member is None:
            return
        member = inquiry.member
        self._clockwork.note(lease, "loses", member.node_id, why)
        self._release(inquiry, lease, is_settled=False)
        inquiry.work = replace(inquiry.work, excluded=inquiry.work.excluded | {member.node_id})
        failure = Failure(Code.CIRCUIT_BREAKER_OPEN, f"The engine was lost: {why}.")
        self._tell_failure(member, why)
        query = inquiry.query
        if (
            len(query.attempts) >= RETRIES_MAX
            or inquiry.has_rows
            or query.may_have_written
            or not self._gateway.could_run(inquiry.work)
        ):
            self.fail(inquiry, failure)
            return
        pause_s = RETRY_PAUSE_S * 2 ** len(query.attempts)
        self._apply(inquiry, machine.Retried(self.wall, failure))
        self._gateway.later(pause_s, lambda: self._gateway.ask(inquiry))

    def fail(self, inquiry: Inquiry, failure: Failure) -> None:
        if not inquiry.query.state.is_terminal:
            self._apply(inquiry, machine.Failed(self.wall, failure))
            self._gateway.promises.answer(inquiry.query, failure.message)

    def time_out(self, inquiry: Inquiry) -> None:
        if not inquiry.query.state.is_terminal:
            self._stop(inquiry, machine.Failed(self.wall, Failure(Code.QUERY_TIMEOUT, "It timed out.")))

    def cancel(self, inquiry: Inquiry) -> None:
        if not inquiry.query.state.is_terminal:
            failure = Failure(Code.QUERY_CANCELLED, "It was cancelled.")
            self._stop(inquiry, machine.Cancelled(self.wall, failure))

    def look_for_silence(self, passed_s: float) -> None:
        """Who hears nothing from its engine for long has lost it."""
        for inquiry in list(self._gateway.inquiries.values()):
            member, lease = inquiry.member, inquiry.lease
            if member is None or lease is None:
                continue
            inquiry.silent_s = 0.0 if member.way is Way.OPEN else inquiry.silent_s + passed_s
            if inquiry.silent_s >= STREAM_IDLE_S:
                self._lose(inquiry, lease, "it gave no sign of life")

    def lose_all_on(self, member: Member) -> None:
        """The way to that life was taken down, and with it goes what still ran there."""
        for inquiry in list(self._gateway.inquiries.values()):
            if inquiry.member is member and inquiry.lease is not None:
                self._lose(inquiry, inquiry.lease, "its engine is gone")

    def _stop(self, inquiry: Inquiry, event: machine.Event) -> None:
        self._apply(inquiry, event)
        self._gateway.promises.answer(inquiry.query, type(event).__name__)
        self._gateway.withdraw(inquiry)
        if inquiry.lease is not None:
            self._release(inquiry, inquiry.lease, is_settled=False)

    def _holds(self, inquiry: Inquiry, lease: LeaseId) -> bool:
        """News of a lease that is over come too late."""
        return inquiry.lease == lease and inquiry.member is not None

    def _release(self, inquiry: Inquiry, lease: LeaseId, *, is_settled: bool) -> None:
        """The place stays taken while the engine may still be at work for it."""
        member, inquiry.member = inquiry.member, None
        if member is None:
            return
        if is_settled:
            self._gateway.vacate(member, lease)
            return
        delay_s = self._clockwork.between(0, CLEAR_UP_MAX_S)
        self._gateway.later(delay_s, lambda: self._gateway.vacate(member, lease))

    def _tell_success(self, member: Member) -> None:
        if not member.is_embedded:
            self._gateway.promises.answered(member.node_id, member.life)
            self._gateway.tell_health(health.QuerySucceeded(member.node_id, member.life))

    def _tell_failure(self, member: Member, why: str) -> None:
        if not member.is_embedded:
            self._gateway.promises.broke(member.node_id, member.life)
            self._gateway.tell_health(health.TransportFailed(member.node_id, why, member.life))

    def _apply(self, inquiry: Inquiry, event: machine.Event) -> None:
        member = inquiry.member
        before = inquiry.query
        inquiry.query, instructions = machine.step(before, event)
        self._gateway.promises.stepped(before, inquiry.query)
        for instruction in instructions:
            if isinstance(instruction, machine.Interrupt) and instruction.operation and member is not None:
                member.engine.interrupt(instruction.operation)
