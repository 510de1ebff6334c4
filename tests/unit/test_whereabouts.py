"""What only one gateway has names it, and every other one says where it is, or that it is gone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from bailiwick.doors.flight_sql.outcomes import ANNOUNCED_MAX, AnnouncedIds
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import GatewayId, QueryId, new_query_id, query_id_at
from bailiwick.queries.gateways import Gateways, SharedGateways
from bailiwick.queries.memory import MemoryQueryStore
from bailiwick.queries.owners import GatewayRow
from bailiwick.queries.query import Query, State

ANN = Principal("ann", frozenset({"writer"}))
BOB = Principal("bob", frozenset({"writer"}))
HERE, THERE, GONE = GatewayId("ghere"), GatewayId("gthere"), GatewayId("ggone")
QUERY = QueryId("q1")


@dataclass
class Listed(Gateways):
    id: GatewayId | None = HERE
    living: dict[GatewayId, str] = field(default_factory=lambda: {HERE: "", THERE: "there.example:50051"})
    ended: list[QueryId] = field(default_factory=list)

    @property
    def own_id(self) -> GatewayId | None:
        return self.id

    async def addresses(self) -> Mapping[GatewayId, str]:
        return self.living

    async def end(self, query_ids: Sequence[QueryId], by: Principal) -> bool:
        del by
        self.ended += query_ids
        return True


async def refusal_of_session(whereabouts: Whereabouts, owner: GatewayId) -> BailiwickError:
    with pytest.raises(BailiwickError) as refused:
        await whereabouts.check_session(owner)
    return refused.value


async def refusal_of_result(whereabouts: Whereabouts, owner: GatewayId) -> BailiwickError:
    with pytest.raises(BailiwickError) as refused:
        await whereabouts.check_result(owner, QUERY)
    return refused.value


async def test_what_is_here_passes_also_after_this_one_has_joined_anew() -> None:
    gateways = Listed()
    whereabouts = Whereabouts(gateways)
    assert whereabouts.name() == HERE
    gateways.id, gateways.living = GatewayId("ganew"), {GatewayId("ganew"): ""}
    assert whereabouts.name() == "ganew"
    for owner in (HERE, GatewayId("ganew"), None):
        await whereabouts.check_session(owner)
        await whereabouts.check_result(owner, QUERY)


async def test_what_another_has_is_refused_for_now_and_with_its_address() -> None:
    whereabouts = Whereabouts(Listed())
    for error in (
        await refusal_of_session(whereabouts, THERE),
        await refusal_of_result(whereabouts, THERE),
    ):
        assert error.retryable
        assert error.retry_after_s is not None
        assert "there.example:50051" in error.message
        assert error.details == {"reason": "other_gateway", "gateway": "there.example:50051"}
    assert (await refusal_of_session(whereabouts, THERE)).code is Code.SESSION_EXPIRED
    assert (await refusal_of_result(whereabouts, THERE)).code is Code.INVALID_ARGUMENTS


async def test_no_address_is_made_up_for_one_that_tells_none() -> None:
    error = await refusal_of_session(Whereabouts(Listed(living={THERE: ""})), THERE)
    assert error.details == {"reason": "other_gateway"}
    assert ":" not in error.message


async def test_what_a_lost_one_had_is_refused_for_good() -> None:
    whereabouts = Whereabouts(Listed())
    session, result = (
        await refusal_of_session(whereabouts, GONE),
        await refusal_of_result(whereabouts, GONE),
    )
    assert (session.code, result.code) == (Code.SESSION_EXPIRED, Code.EXECUTION_FAILED)
    assert not session.retryable
    assert not result.retryable
    assert session.details["reason"] == result.details["reason"] == "gateway_lost"
    assert "look at the table" in result.message


async def test_the_only_gateway_names_nobody_and_tells_no_location() -> None:
    alone = Whereabouts(location="grpc+tcp://here.example:1")
    assert alone.name() is None
    assert alone.locations == ()
    assert alone.pinned_to("session") == ""
    assert await alone.ids_of(QUERY) == [QUERY]
    assert not await alone.end([QUERY], ANN)


def test_a_location_is_told_only_if_one_was_said() -> None:
    assert Whereabouts(Listed()).locations == ()
    assert Whereabouts(Listed(), "grpc+tls://a:1").locations == ("grpc+tls://a:1",)


async def test_a_read_is_found_under_the_id_that_any_living_gateway_would_give_it() -> None:
    announced = new_query_id()
    ids = await Whereabouts(Listed()).ids_of(announced)
    taken = AnnouncedIds(lambda: THERE).take(announced)
    assert announced in ids
    assert taken in ids
    assert taken != announced
    assert len(taken) == len(announced)


def test_an_announced_id_is_told_from_the_ticket_once_and_never_used_again() -> None:
    ids = AnnouncedIds(lambda: HERE)
    announced = new_query_id()
    first = ids.take(announced)
    assert first == query_id_at(announced, HERE)
    assert ids.take(announced) not in (announced, first)
    for _ in range(ANNOUNCED_MAX):
        ids.take(new_query_id())
    assert ids.take(announced) not in (announced, first)
    own = ids.announce()
    assert ids.take(own) == own
    assert ids.take(own) not in (own, query_id_at(own, HERE))


@dataclass
class Wishes:
    store: MemoryQueryStore = field(default_factory=MemoryQueryStore)
    wished: list[tuple[QueryId, str]] = field(default_factory=list)

    def gateways(self) -> SharedGateways:
        async def living() -> Sequence[GatewayRow]:
            return [GatewayRow(THERE, "home", "there.example:1", 0.0, 0.0, 7)]

        async def wish(query_id: QueryId, by: str) -> None:
            self.wished.append((query_id, by))

        return SharedGateways(lambda: HERE, living, self.store, wish)

    async def run(self, state: State) -> QueryId:
        query_id = new_query_id()
        await self.store.save([Query(query_id, "ann", "default", "flight_sql", "SELECT 1", 1.0, state)])
        return query_id


async def test_a_running_query_of_another_is_wished_ended_by_whoever_may() -> None:
    world = Wishes()
    gateways, running = world.gateways(), await world.run(State.RUNNING)
    assert await gateways.addresses() == {THERE: "there.example:1"}
    assert not await gateways.end([running], BOB)
    assert world.wished == []
    assert await gateways.end([new_query_id(), running], ANN)
    assert world.wished == [(running, "ann")]


async def test_what_has_ended_or_was_never_begun_is_not_wished_ended() -> None:
    world = Wishes()
    ended = await world.run(State.FINISHED)
    assert not await world.gateways().end([ended], ANN)
    assert not await world.gateways().end([new_query_id()], ANN)
    assert world.wished == []
