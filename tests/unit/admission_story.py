"""Stories for the admission machine, told by the test."""

from dataclasses import dataclass, field

from bailiwick.fleet.admission import (
    Admission,
    Admit,
    Asked,
    Event,
    Instruction,
    Left,
    Limits,
    PutOff,
    Started,
    TimePassed,
    step,
)
from bailiwick.ids import LeaseId


def limits(
    *,
    slots: int = 2,
    long_max: int = 1,
    queue_length_max: int = 10,
    queue_length_per_principal_max: int = 5,
    queue_length_per_tenant_max: int | None = None,
    running_per_tenant_max: int | None = None,
) -> Limits:
    return Limits(
        slots,
        long_max,
        10.0,
        queue_length_max,
        queue_length_per_principal_max,
        60.0,
        queue_length_per_tenant_max,
        running_per_tenant_max,
    )


@dataclass
class Story:
    """Feeds events to the machine, starts at once whom it admits, and keeps what it said.

    Whoever is in `misfits` fits none of the engines that have room: they are put off.
    """

    state: Admission
    now: float = 0.0
    said: list[Instruction] = field(default_factory=list)
    starts: bool = True
    misfits: frozenset[str] = frozenset()

    def tell(self, event: Event, *, after_s: float = 0.0) -> tuple[Instruction, ...]:
        self.now += after_s
        self.state, instructions = step(self.state, event, self.now)
        self.said.extend(instructions)
        for instruction in instructions:
            if isinstance(instruction, Admit) and self.starts:
                instructions += self._lend(instruction.lease)
        return instructions

    def _lend(self, lease: LeaseId) -> tuple[Instruction, ...]:
        principal = next(one.principal for one in self.state.admitted if one.lease == lease)
        return self.tell(PutOff(lease) if principal in self.misfits else Started(lease))

    def ask(self, name: str, principal: str = "ann", tenant: str = "acme") -> tuple[Instruction, ...]:
        return self.tell(Asked(LeaseId(name), principal, tenant))

    def leave(self, name: str) -> tuple[Instruction, ...]:
        return self.tell(Left(LeaseId(name)))

    def pass_time(self, seconds: float) -> tuple[Instruction, ...]:
        return self.tell(TimePassed(), after_s=seconds)

    @property
    def present(self) -> list[LeaseId]:
        return [one.lease for one in self.state.admitted] + [one.lease for one in self.state.waiting]

    def serve(self, until: int) -> list[str]:
        """End the latest, again and again, until so many have been admitted."""
        while len(self.admitted) < until:
            self.leave(self.admitted[-1])
        return self.admitted

    @property
    def admitted(self) -> list[str]:
        return [one.lease for one in self.said if isinstance(one, Admit)]
