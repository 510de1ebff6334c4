"""Who calls, and in which session: the principal is proved on every call, the session only carries settings.

A call without a session is offered one, as a token in the `authorization` header of the answer, which most
drivers adopt, and as the cookie `arrow_flight_session_id`, which others keep. Either alone will do. So two
connections that were given the same credential have two sessions, and neither changes the other's schema.
A session is in the memory of one gateway; another one says so and offers none in its place.

A caller may act for somebody else where a rule allows it: the header `x-bailiwick-on-behalf-of` says for
whom. A session that began so goes on so; its token needs no header beside it, and is good for nothing else:
neither for another subject nor for the actor's own affairs. A session of the actor's own is left aside when
the header is there, and another is offered.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from http.cookies import CookieError, SimpleCookie

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.clock import Clock, steady
from bailiwick.doors.flight_sql.authentication import password_of
from bailiwick.doors.flight_sql.drivers import PLAIN, Driver, driver_of
from bailiwick.doors.flight_sql.session_tokens import SessionToken, SessionTokens, Standing
from bailiwick.doors.flight_sql.whereabouts import Whereabouts
from bailiwick.doors.flight_sql.wishes import NO_WISHES, Wishes, wishes_of
from bailiwick.doors.grpc_credentials import (
    Context,
    authorization,
    failed,
    has_authorization,
    on_behalf_of,
    peer_of,
    place_of,
)
from bailiwick.engines.parameters import Row
from bailiwick.identity.authenticator import Authenticator, Peer
from bailiwick.identity.principal import Principal
from bailiwick.identity.seals import Seal
from bailiwick.queries.client_sessions import ClientSession, ClientSessions, SessionSettings, expired
from bailiwick.queries.statement import Statement
from bailiwick.secrets import Secret

DOOR = "flight_sql"
COOKIE = "arrow_flight_session_id"
COOKIE_HEADER_CHARS_MAX = 8_192

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Caller:
    principal: Principal
    session: ClientSession
    greeting: Headers = field(default=(), repr=False)
    """Headers for the answer: a session that is offered, or a newer token of the one in use."""
    driver: Driver = PLAIN
    wishes: Wishes = NO_WISHES
    """What this call says about its statement."""

    @property
    def settings(self) -> SessionSettings:
        return self.session.settings

    def statement(self, sql: str, parameters: Row = ()) -> Statement:
        """`sql` as this caller means it now."""
        return self.meant(sql, parameters, self.settings)

    def meant(self, sql: str, parameters: Row, settings: SessionSettings) -> Statement:
        """`sql` as this caller meant it when these were the session's settings."""
        statement = self.wishes.over(settings).statement(sql, self.principal, DOOR)
        return replace(
            statement,
            parameters=parameters,
            compressed=self.driver.reads_compressed,
            submission=self.wishes.key,
        )


class Greeting:
    """The first headers of one answer, sent once. gRPC sends empty ones by itself if it must write before."""

    def __init__(self, context: Context, headers: Headers) -> None:
        self._context = context
        self._headers = headers
        self._is_sent = False

    async def send(self, *more: tuple[str, str]) -> None:
        """Send what the caller is to know, and `more`. A second call does nothing."""
        if self._is_sent:
            return
        self._is_sent = True
        if self._headers or more:
            await self._context.send_initial_metadata((*self._headers, *more))


class Callers:
    def __init__(
        self,
        authenticator: Authenticator,
        sessions: ClientSessions,
        seal: Seal,
        *,
        whereabouts: Whereabouts | None = None,
        now: Clock = steady,
    ) -> None:
        self._authenticator = authenticator
        self._sessions = sessions
        self._whereabouts = whereabouts or Whereabouts()
        self._tokens = SessionTokens(seal, idle_s=sessions.idle_s, now=now, gateway=self._whereabouts.name)

    async def caller(self, context: Context) -> Caller:
        """Whose credential this call shows, and their session. Send `greeting` with the first headers."""
        caller = await self._recognised(context)
        return replace(caller, driver=_driver(context), wishes=wishes_of(context))

    async def _recognised(self, context: Context) -> Caller:
        scheme, credential = authorization(context)
        if scheme != "bearer":
            raise failed("Sign in first: this call needs a bearer token.")
        peer, subject = peer_of(context), on_behalf_of(context)
        token = self._tokens.read(credential)
        if token is not None:
            return await self._returning(token, subject, peer)
        standing = Standing(Secret(credential), subject)
        principal = await self._principal(standing, peer)
        cookie = _cookie(context)
        if cookie is not None:
            return await self._by_cookie(cookie, standing, principal, peer)
        return self._newcomer(standing, principal, peer)

    async def handshake(self, requests: AsyncIterator[bytes], context: Context) -> None:
        """Answer with a token, in the header for most drivers and in one message for the others."""
        if has_authorization(context) and authorization(context)[0] == "bearer":
            caller = await self.caller(context)
            token = _bearer(caller.greeting) or authorization(context)[1]
        else:
            subject = on_behalf_of(context)
            name, password = await password_of(requests, context)
            peer = peer_of(context)
            actor = await self._authenticator.authenticate_basic(name, password, peer=peer)
            principal = self._acting(actor, subject)
            standing = Standing(Secret(self._authenticator.issue(actor)), subject)
            caller = self._newcomer(standing, principal, peer)
            token = _bearer(caller.greeting)
        await context.send_initial_metadata(caller.greeting or _greeting(token))
        await context.write(flight.HandshakeResponse(payload=token.encode()).SerializeToString())

    async def _returning(self, token: SessionToken, subject: str | None, peer: Peer) -> Caller:
        await self._whereabouts.check_session(token.gateway)
        standing = self._tokens.standing(token)
        if subject is None or subject == standing.subject:
            return self._found(token, standing, await self._principal(standing, peer), peer)
        if standing.subject is not None:
            raise failed("This session acts for somebody else. Sign in again to act for another.")
        actor = self._found(token, standing, await self._principal(standing, peer), peer).principal
        return self._newcomer(Standing(standing.credential, subject), self._acting(actor, subject), peer)

    async def _by_cookie(self, cookie: str, standing: Standing, principal: Principal, peer: Peer) -> Caller:
        """The cookie says which session; who calls was proved by the credential beside it."""
        token = self._tokens.read(cookie)
        if token is None:
            raise expired()
        await self._whereabouts.check_session(token.gateway)
        if standing.subject is not None and self._tokens.standing(token).subject is None:
            return self._newcomer(standing, principal, peer)
        return self._found(token, standing, principal, peer)

    def _found(self, token: SessionToken, standing: Standing, principal: Principal, peer: Peer) -> Caller:
        self._tokens.check_owner(token, principal)
        session = self._sessions.find(
            token.session_id, principal, offered_at=token.issued_at, door=DOOR, client=place_of(peer)
        )
        if not self._tokens.is_due(token):
            return Caller(principal, session)
        return Caller(principal, session, _greeting(self._tokens.issue(session.id, principal, standing)))

    def _newcomer(self, standing: Standing, principal: Principal, peer: Peer) -> Caller:
        session = self._sessions.offer(principal, DOOR, place_of(peer))
        return Caller(principal, session, _greeting(self._tokens.issue(session.id, principal, standing)))

    async def _principal(self, standing: Standing, peer: Peer) -> Principal:
        credential = standing.credential.reveal()
        actor = await self._authenticator.authenticate_bearer(credential, peer=peer)
        return self._acting(actor, standing.subject)

    def _acting(self, actor: Principal, subject: str | None) -> Principal:
        return actor if subject is None else self._authenticator.act_for(actor, subject)


def _greeting(token: str) -> Headers:
    return (("authorization", f"Bearer {token}"), ("set-cookie", f"{COOKIE}={token}; HttpOnly"))


def _bearer(greeting: Headers) -> str:
    return dict(greeting).get("authorization", "").removeprefix("Bearer ")


def _cookie(context: Context) -> str | None:
    """The value of our cookie; None if there is none. Several of them are no session that one could know."""
    found = []
    for key, value in context.invocation_metadata() or ():
        if key == "cookie" and isinstance(value, str) and len(value) <= COOKIE_HEADER_CHARS_MAX:
            try:
                morsel = SimpleCookie(value).get(COOKIE)
            except CookieError:
                continue
            if morsel is not None:
                found.append(morsel.value)
    if len(set(found)) > 1:
        raise expired()
    return found[0] if found else None


def _driver(context: Context) -> Driver:
    metadata = dict(context.invocation_metadata() or ())
    return driver_of(str(metadata.get("user-agent", "")))
