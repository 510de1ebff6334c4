"""The authenticator that doors are given: checks in order, failures slow and counted.

It decides nothing about credentials itself: `PasswordCheck` and the `BearerCheck`s do. It says the same words
and takes its time whatever was wrong. How attacks are slowed without locking others out: see `throttle.py`.
Who was found gets all of their roles from `people.py`, anew each time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bailiwick.clock import Clock, monotonic
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import (
    NOBODY,
    Authenticator,
    BearerCheck,
    FailureKind,
    PasswordCheck,
    Peer,
    RejectedToken,
)
from bailiwick.identity.impersonation import not_allowed
from bailiwick.identity.passwords import is_possible
from bailiwick.identity.people import People
from bailiwick.identity.principal import Principal
from bailiwick.identity.throttle import Throttle
from bailiwick.identity.tokens import SignedTokens
from bailiwick.identity.turns import Turns
from bailiwick.identity.unbroken import Unbroken
from bailiwick.identity.users import NAME_CHARS_MAX

# Wrong answers kept waiting at the same time. Beyond it they are given at once: waiting costs us memory too.
ANSWERS_HELD_MAX = 1000
SIGNING_IN_MAX = 512

OnFailure = Callable[[FailureKind], None]
Sleep = Callable[[float], Awaitable[None]]


class Chain(Authenticator):
    def __init__(
        self,
        passwords: PasswordCheck,
        signed: SignedTokens,
        others: Sequence[BearerCheck] = (),
        *,
        people: People | None = None,
        failure_delay_s: float,
        hashing_threads: int,
        on_failure: OnFailure = lambda _kind: None,
        now: Clock = monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Without `people`, everyone has the roles given to them, and nobody acts for anybody."""
        self._passwords = passwords
        self._people = people
        self._signed = signed
        self._bearers: tuple[BearerCheck, ...] = (signed, *others)
        self._throttle = Throttle(failure_delay_s)
        self._turns = Turns(hashing_threads, waiting_max=SIGNING_IN_MAX)
        self._unbroken = Unbroken()
        self._on_failure = on_failure
        self._now = now
        self._sleep = sleep
        self._held = 0

    async def close(self) -> None:
        """Wait for the passwords that are being compared."""
        await self._unbroken.wait()

    async def authenticate_basic(self, name: str, password: str, *, peer: Peer = NOBODY) -> Principal:
        # No user has a longer name; cut, so that what is remembered of failures stays small.
        name, network = name[: NAME_CHARS_MAX + 1], peer.network
        if is_possible(password):
            await self._turns.take(network)
            verdict = await self._verify_in_turn(name, password, network)
        else:
            verdict = self._wrong_password(name, network)
        if isinstance(verdict, Principal):
            return self._with_all_roles(verdict)
        await self._hold(verdict)
        raise BailiwickError(Code.AUTHENTICATION_FAILED, "The user name or the password is wrong.")

    async def authenticate_bearer(self, token: str, *, peer: Peer = NOBODY) -> Principal:
        for check in self._bearers:
            if check.recognises(token):
                try:
                    return self._with_all_roles(await check.verify(token))
                except RejectedToken as rejected:
                    raise await self._refusal(rejected, peer) from None
        raise await self._refusal(RejectedToken(FailureKind.UNKNOWN_TOKEN), peer)

    def act_for(self, actor: Principal, subject_name: str) -> Principal:
        try:
            if self._people is None:
                raise not_allowed(actor)
            return self._people.acted_for(actor, subject_name)
        except BailiwickError:
            self._on_failure(FailureKind.ON_BEHALF_OF)
            raise

    def issue(self, principal: Principal) -> str:
        return self._signed.issue(principal)

    def _with_all_roles(self, principal: Principal) -> Principal:
        return principal if self._people is None else self._people.with_all_roles(principal)

    async def _verify_in_turn(self, name: str, password: str, network: str) -> Principal | float:
        """The principal, or how long the answer is to wait. The record is looked at only now, in turn: so a
        burst of guesses is stopped by the first of them."""
        wait_s = self._throttle.turned_away_s(name, network, self._now())
        if wait_s > 0:
            self._turns.give_back()
            self._on_failure(FailureKind.TURNED_AWAY)
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                "Too many failed attempts to sign in with this user name. Try again later.",
                retryable=True,
                retry_after_s=wait_s,
            )
        # The turn is kept until the thread is done and the failure noted, also when the caller has gone away:
        # hanging up must not buy an attacker another thread or an unnoted guess.
        return await self._unbroken.run(self._verify_and_give_back(name, password, network))

    async def _verify_and_give_back(self, name: str, password: str, network: str) -> Principal | float:
        try:
            principal = await self._passwords.verify(name, password)
            return self._wrong_password(name, network) if principal is None else principal
        finally:
            self._turns.give_back()

    def _wrong_password(self, name: str, network: str) -> float:
        self._on_failure(FailureKind.PASSWORD)
        return self._throttle.failed(name, network, self._now())

    async def _refusal(self, rejected: RejectedToken, peer: Peer) -> BailiwickError:
        self._on_failure(rejected.kind)
        if not rejected.proven:
            await self._hold(self._throttle.failed(None, peer.network, self._now()))
        if rejected.kind is FailureKind.EXPIRED:
            return BailiwickError(Code.SESSION_EXPIRED, "The token has expired. Sign in again.")
        return BailiwickError(Code.AUTHENTICATION_FAILED, "The token is not valid.")

    async def _hold(self, delay_s: float) -> None:
        if delay_s <= 0 or self._held >= ANSWERS_HELD_MAX:
            return
        self._held += 1
        try:
            await self._sleep(delay_s)
        finally:
            self._held -= 1
