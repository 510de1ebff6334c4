"""Client sessions: found by their own principal only, ended for good, bounded in every way."""

import pytest

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.queries.client_sessions import (
    ENDED_REMEMBERED_MAX,
    SESSIONS_SCHEMA,
    ClientSession,
    ClientSessions,
    SessionLimits,
    SessionSettings,
)

ANN = Principal("ann")
BOB = Principal("bob")
ROOT = Principal("root", frozenset({ADMIN}))
SALES = SessionSettings(namespace=("sales",))


class World:
    def __init__(self, limits: SessionLimits | None = None) -> None:
        self.now = 1_000_000.0
        self.sessions = ClientSessions(limits, now=lambda: self.now)

    def offer(self, who: Principal = ANN) -> ClientSession:
        self.now += 0.001
        return self.sessions.offer(who, "flight_sql", "loopback")

    def come_back(self, offered: ClientSession, who: Principal = ANN) -> ClientSession:
        return self.sessions.find(
            offered.id, who, offered_at=offered.opened_at, door="flight_sql", client="loopback"
        )

    def adopted(self, who: Principal = ANN) -> ClientSession:
        return self.come_back(self.offer(who), who)

    def is_over(self, session: ClientSession, who: Principal = ANN) -> bool:
        try:
            self.come_back(session, who)
        except BailiwickError as error:
            return error.code is Code.SESSION_EXPIRED
        return False


def test_settings_are_the_sessions_own() -> None:
    world = World()
    first, second = world.adopted(), world.adopted()
    world.sessions.change(first, SALES)
    assert world.come_back(first).settings == SALES
    assert world.come_back(second).settings == SessionSettings()


def test_an_offer_that_nobody_takes_leaves_no_trace() -> None:
    world = World()
    for _ in range(10_000):
        world.offer()
    assert len(world.sessions) == 0


def test_an_offered_session_can_be_changed_before_the_client_comes_back_with_it() -> None:
    world = World()
    offered = world.offer()
    world.sessions.change(offered, SALES)
    assert world.come_back(offered).settings == SALES


def test_a_session_of_another_is_never_found() -> None:
    world = World()
    session = world.adopted()
    world.sessions.change(session, SALES)
    assert world.come_back(session, BOB).settings == SessionSettings()
    assert world.come_back(session, Principal("ann", tenant="elsewhere")).settings == SessionSettings()
    assert world.come_back(session).settings == SALES


def test_a_closed_session_stays_closed() -> None:
    world = World()
    session = world.adopted()
    world.sessions.close(session)
    world.sessions.close(session)
    assert world.is_over(session)
    with pytest.raises(BailiwickError):
        world.sessions.change(session, SALES)
    assert len(world.sessions) == 0


def test_closing_what_was_only_offered_is_fine() -> None:
    world = World()
    world.sessions.close(world.offer())
    assert len(world.sessions) == 0


def test_a_session_ends_when_it_is_idle_and_lives_while_it_is_used() -> None:
    world = World(SessionLimits(idle_s=100))
    used, idle, offered = world.adopted(), world.adopted(), world.offer()
    for _ in range(5):
        world.now += 60
        world.come_back(used)
    assert world.is_over(idle)
    assert world.is_over(offered)
    assert not world.is_over(used)


def test_a_session_of_before_the_start_is_over() -> None:
    world = World()
    session = world.adopted()
    world.now += 1
    world.sessions = ClientSessions(now=lambda: world.now)
    assert world.is_over(session)


def test_of_too_many_sessions_of_one_principal_the_one_used_longest_ago_ends() -> None:
    world = World(SessionLimits(per_principal_max=3))
    other = world.adopted(BOB)
    first, second, third = world.adopted(), world.adopted(), world.adopted()
    world.now += 1
    world.come_back(first)
    fourth = world.adopted()
    assert world.is_over(second)
    assert not any(map(world.is_over, (first, third, fourth)))
    assert not world.is_over(other, BOB)


def test_nobody_pushes_anothers_sessions_out() -> None:
    world = World(SessionLimits(total_max=10))
    bobs = world.adopted(BOB)
    for _ in range(50):
        world.adopted()
    assert len(world.sessions) == 10
    assert not world.is_over(bobs, BOB)


def test_a_flood_of_ended_sessions_brings_none_back() -> None:
    world = World(SessionLimits(per_principal_max=10))
    first = world.adopted()
    world.sessions.close(first)
    for _ in range(ENDED_REMEMBERED_MAX + 20):
        world.sessions.close(world.adopted())
    assert world.is_over(first)
    assert not world.is_over(world.offer())


def test_what_is_remembered_of_ended_sessions_goes_with_time() -> None:
    world = World(SessionLimits(idle_s=100))
    for who in (ANN, BOB):
        world.sessions.close(world.adopted(who))
    world.now += 200
    world.adopted(ROOT)
    assert len(world.sessions._shelves) == 1


async def test_rows_show_ones_own_and_to_administrators_all() -> None:
    world = World()
    session = world.adopted()
    world.adopted(BOB)
    world.sessions.change(session, SessionSettings(namespace=("sales", "e u"), time_zone="Europe/Berlin"))
    table = await world.sessions.rows(ANN)
    assert table.schema == SESSIONS_SCHEMA
    rows = table.to_pylist()
    assert [(row["principal"], row["schema"], row["time_zone"]) for row in rows] == [
        ("ann", "sales.e u", "Europe/Berlin")
    ]
    shown = (await world.sessions.rows(ROOT)).column("principal").to_pylist()
    assert sorted(shown) == ["ann", "bob"]


async def test_a_shown_id_opens_nothing() -> None:
    world = World()
    session = world.adopted()
    [row] = (await world.sessions.rows(ANN)).to_pylist()
    assert session.id.startswith(row["session_id"])
    assert len(row["session_id"]) * 3 < len(session.id)
    assert session.id not in repr(session)
