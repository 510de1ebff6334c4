"""Who calls, and in which session: every call is proved anew, and a session is only ever its principal's."""

import base64
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql.caller import COOKIE, Caller, Callers
from bailiwick.doors.flight_sql.session_tokens import PREFIX
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.impersonation import ON_BEHALF_OF_HEADER
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.queries.client_sessions import ClientSessions, SessionLimits, SessionSettings
from bailiwick.testing.listed_users import ListedUsers

ANN = Principal("ann", frozenset({"writer"}))
BOB = Principal("bob", frozenset({"reader"}))
SVC = Principal("svc", frozenset({"reader"}))
BOB_BY_SVC = replace(BOB, actor="svc")
SALES = SessionSettings(namespace=("sales",))
IDLE_S = 1000.0


@dataclass
class Call:
    """One call's context, as grpc.aio gives it."""

    metadata: tuple[tuple[str, str | bytes], ...] = ()
    sent: tuple[tuple[str, str], ...] = ()
    written: list[bytes] = field(default_factory=list)

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return self.metadata

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5000"

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None:
        assert not self.sent
        self.sent = metadata

    async def write(self, message: bytes) -> None:
        self.written.append(message)


class World:
    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.key = secrets.token_bytes(32)
        self.users = ListedUsers(
            {"ann": ("pw", ANN), "bob": ("pw", BOB), "svc": ("pw", SVC)},
            acting_for=frozenset({("svc", "ann"), ("svc", "bob")}),
        )
        self.restart()

    def restart(self) -> None:
        self.sessions = ClientSessions(SessionLimits(idle_s=IDLE_S), now=self.clock)
        self.callers = Callers(self.users, self.sessions, Seal(self.key), now=self.clock)

    def clock(self) -> float:
        return self.now

    async def call(self, token: str, cookie: str | None = None, subject: str | None = None) -> Caller:
        self.now += 0.01
        cookies = (("cookie", cookie),) if cookie is not None else ()
        subjects = ((ON_BEHALF_OF_HEADER, subject),) if subject is not None else ()
        return await self.callers.caller(Call((("authorization", f"Bearer {token}"), *cookies, *subjects)))

    async def refusal(self, token: str, cookie: str | None = None, subject: str | None = None) -> Code:
        with pytest.raises(BailiwickError) as refused:
            await self.call(token, cookie, subject)
        assert token not in str(refused.value)
        return refused.value.code

    async def connected(self, credential: str) -> str:
        """The token that a client with this credential goes on with."""
        return token_of(await self.call(credential))


@pytest.fixture
def world() -> World:
    return World()


def token_of(caller: Caller) -> str:
    return dict(caller.greeting)["authorization"].removeprefix("Bearer ")


def cookie_of(caller: Caller) -> str:
    return dict(caller.greeting)["set-cookie"].partition(";")[0]


async def test_a_first_call_is_offered_a_session_and_later_ones_find_it(world: World) -> None:
    token = await world.connected(world.users.issue(ANN))
    caller = await world.call(token)
    assert caller.principal == ANN
    assert caller.greeting == ()
    world.sessions.change(caller.session, SALES)
    assert (await world.call(token)).settings == SALES
    assert caller.statement("x").namespace == ("sales",)


async def test_two_connections_with_one_credential_have_two_sessions(world: World) -> None:
    credential = world.users.issue(ANN)
    one, two = await world.connected(credential), await world.connected(credential)
    world.sessions.change((await world.call(one)).session, SALES)
    assert (await world.call(two)).settings == SessionSettings()
    assert (await world.call(credential)).settings == SessionSettings()


async def test_the_token_does_not_hold_the_credential(world: World) -> None:
    credential = world.users.issue(ANN)
    token = await world.connected(credential)
    held = base64.urlsafe_b64decode(token.removeprefix(PREFIX) + "==")
    assert credential.encode() not in held
    assert b"ann" not in held


async def test_a_token_ends_at_once_with_the_credential_it_stands_for(world: World) -> None:
    credential = world.users.issue(ANN)
    token = await world.connected(credential)
    await world.call(token)
    world.users.expire(credential)
    assert await world.refusal(token) is Code.SESSION_EXPIRED


async def test_a_closed_sessions_token_is_worth_nothing(world: World) -> None:
    token = await world.connected(world.users.issue(ANN))
    caller = await world.call(token)
    world.sessions.close(caller.session)
    assert await world.refusal(token) is Code.SESSION_EXPIRED


async def test_a_token_that_was_altered_is_not_ours(world: World) -> None:
    token = await world.connected(world.users.issue(ANN))
    for altered in (token[:-6] + "AAAAAA", PREFIX, PREFIX + "ä", PREFIX + "A" * 5000, token + "="):
        assert await world.refusal(altered) is Code.AUTHENTICATION_FAILED


async def test_a_token_of_another_gateway_is_not_ours(world: World) -> None:
    other = World()
    assert await world.refusal(await other.connected(other.users.issue(ANN))) is Code.AUTHENTICATION_FAILED


async def test_after_a_restart_one_signs_in_again(world: World) -> None:
    credential = world.users.issue(ANN)
    first = await world.call(credential)
    world.now += 1
    world.restart()
    assert await world.refusal(token_of(first)) is Code.SESSION_EXPIRED
    assert await world.refusal(credential, cookie_of(first)) is Code.SESSION_EXPIRED
    assert (await world.call(credential)).principal == ANN


async def test_a_client_in_use_is_given_newer_tokens_and_an_idle_one_ends(world: World) -> None:
    token = await world.connected(world.users.issue(ANN))
    world.sessions.change((await world.call(token)).session, SALES)
    renewed = 0
    for _ in range(20):
        world.now += IDLE_S * 0.4
        caller = await world.call(token)
        assert caller.settings == SALES
        if caller.greeting:
            token, renewed = token_of(caller), renewed + 1
    assert renewed >= 5
    world.now += IDLE_S + 1
    assert await world.refusal(token) is Code.SESSION_EXPIRED


async def test_a_cookie_alone_carries_the_session(world: World) -> None:
    credential = world.users.issue(ANN)
    first = await world.call(credential)
    cookie = f"other=1; {cookie_of(first)}"
    world.sessions.change((await world.call(credential, cookie)).session, SALES)
    assert (await world.call(credential, cookie)).settings == SALES
    assert (await world.call(world.users.issue(ANN), cookie)).settings == SALES


async def test_a_cookie_proves_nothing(world: World) -> None:
    cookie = cookie_of(await world.call(world.users.issue(ANN)))
    with pytest.raises(BailiwickError) as refused:
        await world.callers.caller(Call((("cookie", cookie),)))
    assert refused.value.code is Code.AUTHENTICATION_FAILED
    assert await world.refusal("nonsense", cookie) is Code.AUTHENTICATION_FAILED


async def test_a_cookie_of_another_is_refused(world: World) -> None:
    anns = await world.call(world.users.issue(ANN))
    world.sessions.change(anns.session, SALES)
    assert await world.refusal(world.users.issue(BOB), cookie_of(anns)) is Code.SESSION_EXPIRED


@pytest.mark.parametrize("cookie", [f"{COOKIE}=x", f"{COOKIE}=", f"{COOKIE}=a, {COOKIE}=b"])
async def test_a_cookie_that_is_no_session_is_said_to_be_over(world: World, cookie: str) -> None:
    assert await world.refusal(world.users.issue(ANN), cookie) is Code.SESSION_EXPIRED


@pytest.mark.parametrize("cookie", ["other=1", "", "=", "x" * 20_000])
async def test_other_cookies_are_nothing_to_us(world: World, cookie: str) -> None:
    assert (await world.call(world.users.issue(ANN), cookie)).greeting


async def test_a_password_is_traded_for_a_token_with_a_session(world: World) -> None:
    encoded = base64.b64encode(b"ann:pw").decode()
    context = Call((("authorization", f"Basic {encoded}"),))
    await world.callers.handshake(_nothing(), context)
    token = dict(context.sent)["authorization"].removeprefix("Bearer ")
    assert flight.HandshakeResponse.FromString(context.written[0]).payload.decode() == token
    caller = await world.call(token)
    assert (caller.principal, caller.greeting) == (ANN, ())


async def test_a_handshake_with_a_sessions_token_gives_the_same_back(world: World) -> None:
    token = await world.connected(world.users.issue(ANN))
    context = Call((("authorization", f"Bearer {token}"),))
    await world.callers.handshake(_nothing(), context)
    assert dict(context.sent)["authorization"] == f"Bearer {token}"


async def test_a_call_needs_a_bearer_token(world: World) -> None:
    encoded = base64.b64encode(b"ann:pw").decode()
    with pytest.raises(BailiwickError) as refused:
        await world.callers.caller(Call((("authorization", f"Basic {encoded}"),)))
    assert refused.value.code is Code.AUTHENTICATION_FAILED


async def test_a_client_that_ignores_its_sessions_leaves_nothing_behind(world: World) -> None:
    credential = world.users.issue(ANN)
    for _ in range(2000):
        await world.call(credential)
    assert len(world.sessions) == 0
    assert len(world.callers._tokens._standings) == 1


async def test_nothing_of_it_is_shown(world: World) -> None:
    caller = await world.call(world.users.issue(ANN))
    assert token_of(caller) not in repr(caller)
    assert caller.session.id not in repr(caller)


async def test_a_caller_acts_for_another_where_a_rule_allows_it(world: World) -> None:
    credential = world.users.issue(SVC)
    assert (await world.call(credential, subject="bob")).principal == BOB_BY_SVC
    assert (await world.call(credential)).principal == SVC
    assert await world.refusal(credential, subject="root") is Code.ACCESS_DENIED
    assert await world.refusal(world.users.issue(BOB), subject="svc") is Code.ACCESS_DENIED


async def test_a_session_on_behalf_of_another_goes_on_so_without_the_header(world: World) -> None:
    token = token_of(await world.call(world.users.issue(SVC), subject="bob"))
    world.sessions.change((await world.call(token)).session, SALES)
    for subject in (None, "bob"):
        caller = await world.call(token, subject=subject)
        assert (caller.principal, caller.settings) == (BOB_BY_SVC, SALES)


async def test_a_session_on_behalf_of_another_is_good_for_nothing_else(world: World) -> None:
    credential = world.users.issue(SVC)
    token = token_of(await world.call(credential, subject="bob"))
    assert await world.refusal(token, subject="ann") is Code.AUTHENTICATION_FAILED
    assert await world.refusal(token, subject="svc") is Code.AUTHENTICATION_FAILED
    cookie = f"{COOKIE}={token}"
    assert await world.refusal(credential, cookie) is Code.SESSION_EXPIRED
    assert await world.refusal(credential, cookie, "ann") is Code.SESSION_EXPIRED
    assert await world.refusal(world.users.issue(BOB), cookie) is Code.SESSION_EXPIRED
    assert (await world.call(credential, cookie, "bob")).principal == BOB_BY_SVC


async def test_ones_own_session_is_left_aside_while_acting_for_another(world: World) -> None:
    credential = world.users.issue(SVC)
    first = await world.call(credential)
    own = token_of(first)
    world.sessions.change((await world.call(own)).session, SALES)
    for acting in (
        await world.call(own, subject="bob"),
        await world.call(credential, cookie_of(first), subject="bob"),
    ):
        assert (acting.principal, acting.settings) == (BOB_BY_SVC, SessionSettings())
        assert (await world.call(token_of(acting))).principal == BOB_BY_SVC
    assert (await world.call(own)).settings == SALES


async def test_a_closed_session_does_not_act_for_anybody_either(world: World) -> None:
    token = await world.connected(world.users.issue(SVC))
    world.sessions.close((await world.call(token)).session)
    assert await world.refusal(token, subject="bob") is Code.SESSION_EXPIRED


async def test_a_session_on_behalf_of_another_ends_with_the_rule_and_with_the_credential(
    world: World,
) -> None:
    credential = world.users.issue(SVC)
    token = token_of(await world.call(credential, subject="bob"))
    rules, world.users.acting_for = world.users.acting_for, frozenset()
    assert await world.refusal(token) is Code.ACCESS_DENIED
    world.users.acting_for = rules
    assert (await world.call(token)).principal == BOB_BY_SVC
    world.users.expire(credential)
    assert await world.refusal(token) is Code.SESSION_EXPIRED


async def test_a_password_is_traded_for_a_token_on_behalf_of_another(world: World) -> None:
    encoded = base64.b64encode(b"svc:pw").decode()
    context = Call((("authorization", f"Basic {encoded}"), (ON_BEHALF_OF_HEADER, "bob")))
    await world.callers.handshake(_nothing(), context)
    token = dict(context.sent)["authorization"].removeprefix("Bearer ")
    assert (await world.call(token)).principal == BOB_BY_SVC


@pytest.mark.parametrize("values", [("",), ("bob", "bob"), ("bob", "ann"), ("b" * 129,)])
async def test_a_header_that_names_nobody_or_several_is_refused(
    world: World, values: tuple[str, ...]
) -> None:
    headers = tuple((ON_BEHALF_OF_HEADER, value) for value in values)
    with pytest.raises(BailiwickError) as refused:
        await world.callers.caller(Call((("authorization", f"Bearer {world.users.issue(SVC)}"), *headers)))
    assert refused.value.code is Code.INVALID_ARGUMENTS


async def _nothing() -> AsyncIterator[bytes]:
    for message in list[bytes]():
        yield message
