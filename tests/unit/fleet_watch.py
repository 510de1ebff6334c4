"""A fleet whose clock is in the test's hand."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from fleet_reports import OURS, report

from bailiwick.fleet.health import Event, Fleet, Heartbeat, ProbeAnswered, TimePassed, TransportFailed, step
from bailiwick.fleet.report import Report
from bailiwick.fleet.vitals import (
    Avoid,
    Condition,
    EngineHealth,
    Forget,
    HealthRules,
    Instruction,
    Join,
    Probe,
    Refuse,
    Use,
)
from bailiwick.ids import NodeId

A, B = NodeId("a"), NodeId("b")
RULES = HealthRules(OURS)


@dataclass
class Watch:
    """A fleet over time. Those in `beating` report every 5 s; all but those in `mute` answer probes."""

    fleet: Fleet = field(default_factory=lambda: Fleet(RULES))
    now: float = 1000.0
    beating: dict[NodeId, Report] = field(default_factory=dict)
    mute: set[NodeId] = field(default_factory=set)
    said: list[Instruction] = field(default_factory=list)
    all_said: list[Instruction] = field(default_factory=list)

    def tell(self, event: Event) -> tuple[Instruction, ...]:
        self.fleet, instructions = step(self.fleet, event, self.now)
        self.said.extend(instructions)
        self.all_said.extend(instructions)
        for instruction in instructions:
            if isinstance(instruction, Probe) and instruction.node_id not in self.mute:
                self.tell(ProbeAnswered(instruction.node_id, instruction.life))
        return instructions

    def beat(self, one: Report) -> tuple[Instruction, ...]:
        self.beating[one.node_id] = one
        return self.tell(Heartbeat(one))

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.tell(TimePassed())
            if self.now % 5 == 0:
                for one in self.beating.values():
                    self.tell(Heartbeat(one))

    def fall_silent(self, node_id: NodeId) -> None:
        del self.beating[node_id]

    def fail(self, node_id: NodeId = A) -> tuple[Instruction, ...]:
        return self.tell(TransportFailed(node_id, "the connection broke"))

    def of(self, node_id: NodeId = A) -> EngineHealth:
        return self.fleet.engines[node_id]

    def condition(self, node_id: NodeId = A) -> Condition:
        return self.of(node_id).condition

    def with_two(self) -> "Watch":
        """Two healthy engines, `a` and `b`."""
        self.beat(report("a"))
        self.beat(report("b"))
        self.wait(6)
        assert self.fleet.healthy == (A, B)
        return self


def assert_consistent(said: list[Instruction]) -> None:
    """Whatever a test does: nobody is used without having joined, or joins twice without being forgotten."""
    joined: set[NodeId] = set()
    for one in said:
        match one:
            case Join(made):
                assert made.node_id not in joined
                joined.add(made.node_id)
            case Use(node_id) | Probe(node_id):
                assert node_id in joined
            case Forget(node_id):
                joined.remove(node_id)
            case Avoid(why=why) | Refuse(why=why):
                assert why


@pytest.fixture(name="watch")
def watched_fleet() -> Iterator[Watch]:
    """One that nobody belongs to yet. Whatever was told of it in the end must fit together."""
    made = Watch()
    yield made
    assert_consistent(made.all_said)


@pytest.fixture(name="healthy")
def healthy_fleet(watch: Watch) -> Watch:
    return watch.with_two()
