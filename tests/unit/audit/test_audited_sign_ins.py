"""Who came in and who was turned away is on record, without what they showed, and without end for nobody."""

import pytest

from bailiwick.audit.chain import kept
from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.audited import FAILURES_AT_ONCE_MAX, AuditedAuthenticator
from bailiwick.identity.authenticator import NOBODY, Authenticator, Peer
from bailiwick.identity.principal import Principal

ANN = Principal("ann", frozenset({"reader"}), "acme")
HOME = Peer("192.0.2.7")


class OneUser(Authenticator):
    """Knows ann, whose password and token are `right`."""

    async def authenticate_basic(self, name: str, password: str, *, peer: Peer = NOBODY) -> Principal:
        del peer
        if (name, password) != ("ann", "right"):
            raise BailiwickError(Code.AUTHENTICATION_FAILED, "wrong")
        return ANN

    async def authenticate_bearer(self, token: str, *, peer: Peer = NOBODY) -> Principal:
        del peer
        if token != "right":
            raise BailiwickError(Code.SESSION_EXPIRED, "over")
        return ANN

    def act_for(self, actor: Principal, subject_name: str) -> Principal:
        if subject_name != "bob":
            raise BailiwickError(Code.ACCESS_DENIED, "no rule")
        return Principal("bob", actor=actor.name)

    def issue(self, principal: Principal) -> str:
        return f"token of {principal.name}"


class Noted:
    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []

    def note(self, entry: AuditEntry) -> None:
        self.entries.append(entry)


class World:
    def __init__(self) -> None:
        self.noted = Noted()
        self.time = 100.0
        self.authenticator = AuditedAuthenticator(OneUser(), self.noted, now=lambda: self.time)

    async def fail(self, times: int = 1) -> None:
        for _ in range(times):
            with pytest.raises(BailiwickError):
                await self.authenticator.authenticate_basic("eve", "wrong secret", peer=HOME)


async def test_a_password_that_is_right_is_on_record() -> None:
    world = World()
    assert await world.authenticator.authenticate_basic("ann", "right", peer=HOME) is ANN
    assert world.noted.entries == [
        AuditEntry(100.0, Kind.SIGN_IN, "ann", "password from 192.0.2.7", Outcome.ALLOWED, tenant="acme")
    ]


async def test_failures_are_on_record_with_the_name_that_was_claimed_and_no_secret() -> None:
    world = World()
    await world.fail()
    with pytest.raises(BailiwickError):
        await world.authenticator.authenticate_bearer("stolen secret")
    by_password, by_token = world.noted.entries
    assert (by_password.principal, by_password.outcome, by_password.code) == (
        "eve",
        Outcome.REFUSED,
        "AUTHENTICATION_FAILED",
    )
    assert (by_token.principal, by_token.code) == ("unknown", "SESSION_EXPIRED")
    assert "secret" not in "".join(map(kept, world.noted.entries))


async def test_a_good_token_leaves_no_entry_of_its_own() -> None:
    world = World()
    assert await world.authenticator.authenticate_bearer("right") is ANN
    assert world.authenticator.issue(ANN) == "token of ann"
    assert world.noted.entries == []


def test_whoever_may_not_act_for_another_is_on_record_with_both_names() -> None:
    world = World()
    assert world.authenticator.act_for(ANN, "bob").actor == "ann"
    with pytest.raises(BailiwickError):
        world.authenticator.act_for(ANN, "root")
    (entry,) = world.noted.entries
    assert (entry.kind, entry.principal, entry.actor, entry.outcome) == (
        Kind.IMPERSONATION,
        "root",
        "ann",
        Outcome.REFUSED,
    )


async def test_a_flood_of_failures_does_not_fill_the_log_and_is_counted() -> None:
    world = World()
    at_once = int(FAILURES_AT_ONCE_MAX)
    await world.fail(at_once + 500)
    assert len(world.noted.entries) == at_once
    world.time += 10.0
    await world.fail()
    assert "500 failures before it" in world.noted.entries[-1].what


async def test_a_name_that_is_far_too_long_is_cut() -> None:
    world = World()
    with pytest.raises(BailiwickError):
        await world.authenticator.authenticate_basic("x" * 1_000_000, "wrong")
    assert len(world.noted.entries[0].principal) <= 128
