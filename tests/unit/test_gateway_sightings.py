"""Who is dead: a count that stands still for long enough of the time in which one could look."""

import random

from bailiwick.ids import GatewayId
from bailiwick.queries.owners import STARTING_S, GatewayRow, Sightings, look

DEAD_AFTER_S = 20.0
BLIND_AFTER_S = 10.0


def row(name: str, beats: int, heartbeat_at: float = 0.0) -> GatewayRow:
    return GatewayRow(GatewayId(name), "home", "address", 0.0, heartbeat_at, beats)


def seen(before: Sightings, now: float, *rows: GatewayRow) -> tuple[Sightings, list[str]]:
    after, dead = look(before, rows, now, dead_after_s=DEAD_AFTER_S, blind_after_s=BLIND_AFTER_S)
    return after, [each.id for each in dead]


def test_a_count_that_stands_still_is_dead_after_the_time_and_not_before() -> None:
    sightings = Sightings()
    found = {}
    for now in (0.0, 5.0, 10.0, 15.0, 19.9, 20.0):
        sightings, found[now] = seen(sightings, now, row("a", 7))
    assert found == {0.0: [], 5.0: [], 10.0: [], 15.0: [], 19.9: [], 20.0: ["a"]}


def test_one_that_starts_is_waited_for_longer_but_not_for_ever() -> None:
    sightings, found_at = Sightings(), 0.0
    while not found_at:
        now = (sightings.looked_at or 0.0) + 5.0
        sightings, dead = seen(sightings, now, row("a", 0))
        found_at = now if dead else 0.0
    assert found_at == STARTING_S + 5.0


def test_a_count_that_goes_on_is_alive_whatever_its_clock_says() -> None:
    sightings = Sightings()
    for beats, heartbeat_at in enumerate((1e9, -1e9, 0.0, 1e9, 5.0, 5.0, 5.0, 5.0)):
        sightings, dead = seen(sightings, beats * 9.0, row("a", beats, heartbeat_at))
        assert dead == []


def test_one_that_has_just_started_to_look_knows_nobody_as_dead() -> None:
    assert seen(Sightings(), 1e6, row("a", 0), row("b", 9))[1] == []


def test_who_was_blind_for_long_starts_anew() -> None:
    sightings, _ = seen(Sightings(), 0.0, row("a", 7))
    sightings, dead = seen(sightings, 10.1, row("a", 7))
    assert dead == []
    sightings, dead = seen(sightings, 20.0, row("a", 7))
    assert dead == []
    sightings, _ = seen(sightings, 29.0, row("a", 7))
    assert seen(sightings, 30.1, row("a", 7))[1] == ["a"]


def test_under_any_schedule_nobody_who_beats_in_time_is_dead_and_who_stops_is_found() -> None:
    """Seeded: gateways beat at least every 8 s of the observer's sight, the observer looks every 1 to 9 s."""
    for seed in range(300):
        chance = random.Random(seed)
        sightings, now, beats, last_beat = Sightings(), 0.0, 1, 0.0
        stops_at = chance.uniform(20.0, 100.0)
        found_at: float | None = None
        while found_at is None and now < 300.0:
            now += chance.uniform(1.0, 9.0)
            while last_beat < min(now, stops_at):
                last_beat += chance.uniform(0.5, 8.0)
                beats += 1
            sightings, dead = seen(sightings, now, row("a", beats))
            if dead:
                found_at = now
        assert found_at is not None, f"seed {seed}"
        assert stops_at <= found_at <= last_beat + DEAD_AFTER_S + 2 * 9.0, f"seed {seed}"
