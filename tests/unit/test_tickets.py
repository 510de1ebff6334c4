"""Tickets, handles and kept outcomes: whose they are, how long they last, how much is kept."""

import pytest

from bailiwick.doors.flight_sql.outcomes import AnnouncedIds, OutcomeLimits, Outcomes
from bailiwick.doors.flight_sql.prepared import DESCRIPTION_BELIEVED_S, Handles, PreparedStatement
from bailiwick.doors.flight_sql.tickets import Errand, LookedUp, Outcome, Read, Tickets
from bailiwick.engines.description import Kind
from bailiwick.engines.parameters import ParameterValue
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.ids import QueryId
from bailiwick.queries.client_sessions import SessionSettings

ANN = Principal("ann")
BOB = Principal("bob")
ANN_BY_BOB = Principal("ann", actor="bob")
ELSEWHERE = Principal("ann", tenant="another")


class Time:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def tickets(time: Time, key: bytes = b"k" * 32) -> Tickets:
    return Tickets(Seal(key), ticket_s=300, now=time)


@pytest.mark.parametrize(
    "errand",
    [
        Read("SELECT 'ü'", b"schema", QueryId("q1")),
        Read("SELECT 1", None, QueryId("q1")),
        Read("SELECT 1", b"", QueryId("q1")),
        Outcome(QueryId("q2")),
        Read(
            "SELECT ?",
            None,
            QueryId("q1"),
            (ParameterValue.of(7),),
            SessionSettings("lake", ("a", "b"), "Europe/Berlin", True, 1.5),
        ),
        LookedUp(b"a packed command", "UTC"),
    ],
)
def test_a_ticket_gives_back_what_was_put_in(errand: Errand) -> None:
    made = tickets(Time())
    assert made.redeem(ANN, made.issue(ANN, errand)) == errand


def test_a_ticket_survives_a_restart_with_the_same_key() -> None:
    errand = Read("SELECT 1", None, QueryId("q1"))
    assert tickets(Time()).redeem(ANN, tickets(Time()).issue(ANN, errand)) == errand


def refused(made: Tickets, principal: Principal, ticket: bytes) -> str:
    with pytest.raises(BailiwickError) as caught:
        made.redeem(principal, ticket)
    assert caught.value.code is Code.INVALID_ARGUMENTS
    assert caught.value.details == {}
    return caught.value.message


def test_every_bad_ticket_is_refused_in_the_same_words() -> None:
    time = Time()
    made = tickets(time)
    ticket = made.issue(ANN, Read("SELECT secret", None, QueryId("q1")))
    flipped = bytes([*ticket[:-1], ticket[-1] ^ 1])
    another_key = tickets(time, b"o" * 32).issue(ANN, Outcome(QueryId("q1")))
    handle = Handles(Seal(b"k" * 32), now=time).issue(ANN, PreparedStatement("x", Kind.READ, None))
    told = {
        refused(made, BOB, ticket),
        refused(made, ELSEWHERE, ticket),
        refused(made, ANN_BY_BOB, ticket),
        refused(made, ANN, flipped),
        refused(made, ANN, ticket[:-1]),
        refused(made, ANN, b""),
        refused(made, ANN, another_key),
        refused(made, ANN, handle),
    }
    time.now_s += 300
    told.add(refused(made, ANN, ticket))
    assert len(told) == 1


def test_what_is_made_on_behalf_of_another_is_good_only_on_behalf_of_them_by_the_same() -> None:
    time = Time()
    made, handles = tickets(time), Handles(Seal(b"k" * 32), now=time)
    ticket = made.issue(ANN_BY_BOB, Outcome(QueryId("q1")))
    handle = handles.issue(ANN_BY_BOB, PreparedStatement("x", Kind.READ, None))
    assert made.redeem(ANN_BY_BOB, ticket) == Outcome(QueryId("q1"))
    assert handles.open(ANN_BY_BOB, handle)[0].sql == "x"
    for other in (ANN, BOB, Principal("ann", actor="cyd"), Principal("ann", actor="")):
        refused(made, other, ticket)
        with pytest.raises(BailiwickError, match="not known here"):
            handles.open(other, handle)


def test_a_handle_is_its_principals_and_ages() -> None:
    time = Time()
    handles = Handles(Seal(b"k" * 32), now=time)
    statement = PreparedStatement("INSERT", Kind.CHANGE, b"schema", 2)
    handle = handles.issue(ANN, statement)
    assert handles.open(ANN, handle) == (statement, True)
    time.now_s += DESCRIPTION_BELIEVED_S
    assert handles.open(ANN, handle) == (statement, False)
    time.now_s += 86_400
    assert handles.open(ANN, handle) == (statement, False)
    for principal, shown in ((BOB, handle), (ANN_BY_BOB, handle), (ANN, b"forged"), (ANN, handle[:-1])):
        with pytest.raises(BailiwickError, match="not known here") as caught:
            handles.open(principal, shown)
        assert caught.value.code is Code.INVALID_ARGUMENTS


def test_an_announced_id_is_used_once() -> None:
    ids = AnnouncedIds()
    announced = ids.announce()
    assert ids.take(announced) == announced
    assert ids.take(announced) != announced
    assert AnnouncedIds().take(announced) != announced


def test_announced_ids_are_bounded() -> None:
    ids = AnnouncedIds()
    first = ids.announce()
    last = [ids.announce() for _ in range(10_000)][-1]
    assert ids.take(first) != first
    assert ids.take(last) == last


def outcomes(time: Time, limits: OutcomeLimits) -> Outcomes:
    return Outcomes(limits, keep_s=300, now=time)


def kept(store: Outcomes, *ids: str) -> list[str]:
    return [each for each in ids if store.fetch(QueryId(each)) is not None]


def test_an_outcome_can_be_fetched_again_until_it_expires() -> None:
    time = Time()
    store = outcomes(time, OutcomeLimits())
    store.keep(QueryId("a"), "ann", (b"schema", b"batch"))
    assert store.fetch(QueryId("a")) == store.fetch(QueryId("a")) == (b"schema", b"batch")
    time.now_s += 300
    assert store.fetch(QueryId("a")) is None


def test_one_principal_pushes_out_only_its_own_outcomes() -> None:
    store = outcomes(Time(), OutcomeLimits(per_principal_max=2))
    store.keep(QueryId("bobs"), "bob", (b"x",))
    for name in ("a", "b", "c", "d"):
        store.keep(QueryId(name), "ann", (b"x",))
    assert kept(store, "bobs", "a", "b", "c", "d") == ["bobs", "c", "d"]


@pytest.mark.parametrize("limits", [OutcomeLimits(total_max=2), OutcomeLimits(total_bytes_max=20)])
def test_outcomes_are_bounded_in_all(limits: OutcomeLimits) -> None:
    store = outcomes(Time(), limits)
    for number, name in enumerate(("a", "b", "c")):
        store.keep(QueryId(name), f"user {number}", (b"x" * 10,))
    assert kept(store, "a", "b", "c") == ["b", "c"]
