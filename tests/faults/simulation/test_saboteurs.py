"""The promises are watched in earnest: a gateway that does one thing wrong is found out within a few days."""

import pytest

from bailiwick.fleet import health, vitals
from bailiwick.fleet.schedule import EngineLoad
from bailiwick.ids import LeaseId
from faults.simulation.gateway import Gateway
from faults.simulation.inquiries import Inquiry, Member
from faults.simulation.run import BadDayError, run

DAYS_MAX = 60

pytestmark = pytest.mark.fault


class UsesTheUnwell(Gateway):
    """Goes on using whom health told it to avoid."""

    def obey(self, instruction: vitals.Instruction) -> None:
        if not isinstance(instruction, vitals.Avoid):
            super().obey(instruction)


class ForgetsToUseAgain(Gateway):
    """Never uses an engine again that it had to avoid once."""

    def obey(self, instruction: vitals.Instruction) -> None:
        is_second = isinstance(instruction, vitals.Use) and len(self.promises.uses[instruction.node_id]) > 1
        if not is_second:
            super().obey(instruction)


class LosesProbes(Gateway):
    """Never tells that an engine answered."""

    def tell_health(self, event: health.Event) -> None:
        if not isinstance(event, health.ProbeAnswered | health.QuerySucceeded):
            super().tell_health(event)


class KeepsPlaces(Gateway):
    """Does not give back the place of every third query."""

    def vacate(self, member: Member, lease: LeaseId) -> None:
        if hash_of(lease) % 3:
            super().vacate(member, lease)


class LetsNobodyPass(Gateway):
    """Whoever waits for an engine that is busy holds up those who could have another one."""

    def put_off(self, inquiry: Inquiry) -> None:
        pass


class CountsBadly(Gateway):
    """Thinks that every engine is idle."""

    def loads(self) -> list[EngineLoad]:
        return [_emptied(load) for load in super().loads()]


class LosesQueries(Gateway):
    """Forgets now and then what was asked."""

    def submit(self, inquiry: Inquiry) -> None:
        if hash_of(inquiry.query.id) % 5:
            super().submit(inquiry)
        else:
            self.inquiries[inquiry.query.id] = inquiry


class AnswersTwice(Gateway):
    def withdraw(self, inquiry: Inquiry) -> None:
        super().withdraw(inquiry)
        assert inquiry.query.failure is not None
        self.promises.answer(inquiry.query, inquiry.query.failure.message)


def hash_of(text: str) -> int:
    """The same in every process."""
    return sum(text.encode())


def _emptied(load: EngineLoad) -> EngineLoad:
    return EngineLoad(load.node_id, load.slots, idle_sessions=load.slots, engine_class=load.engine_class)


@pytest.mark.parametrize(
    ("saboteur", "promise"),
    [
        (UsesTheUnwell, "no engine is chosen that is not well"),
        (ForgetsToUseAgain, "used again"),
        (LosesProbes, "used again"),
        (KeepsPlaces, "nothing is left over"),
        (LetsNobodyPass, "nobody waits while an engine is free"),
        (CountsBadly, "no engine runs more than it has slots for"),
        (LosesQueries, "no query is lost"),
        (AnswersTwice, "nobody is answered twice"),
    ],
)
def test_who_breaks_a_promise_is_found_out(saboteur: type[Gateway], promise: str) -> None:
    with pytest.raises(BadDayError, match=promise) as found:
        _live_until_found(saboteur)
    assert "SIMULATION_SEED=" in str(found.value)
    assert "The story" in str(found.value)


def _live_until_found(saboteur: type[Gateway]) -> None:
    for seed in range(DAYS_MAX):
        run(seed, saboteur)
