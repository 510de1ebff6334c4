"""Static tokens: `bw_<id>_<secret>`, made by hand for programs, stored only as a hash, revoked by id.

They do not follow the password: changing it leaves them valid. They end when they expire, are revoked, or
their user is dropped or disabled. The secret has 200 random bits, so one round of SHA-256 is enough.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field, replace

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from bailiwick.clock import Clock, wall
from bailiwick.database import revisions, schema
from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import BearerCheck, FailureKind, RejectedToken
from bailiwick.identity.principal import Principal
from bailiwick.identity.unbroken import Unbroken
from bailiwick.identity.unovertaken import Unovertaken
from bailiwick.identity.users import UserStore, unknown_user

PREFIX = "bw_"
TOKENS_PER_USER_MAX = 100
# For so long a token that has ended is still listed, and refused by its name rather than as unknown.
KEPT_AFTER_END_S = 30 * 86_400.0

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_CHARS = 12
_SECRET_CHARS = 40
_FORM = re.compile(rf"bw_([{_ALPHABET}]{{{_ID_CHARS}}})_([{_ALPHABET}]{{{_SECRET_CHARS}}})")
_NOBODYS_HASH = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class StaticToken:
    id: str
    user_name: str
    created_at: float
    expires_at: float
    revoked_at: float | None = None
    secret_hash: str = field(default=_NOBODYS_HASH, repr=False)

    @property
    def ends_at(self) -> float:
        return min(self.expires_at, self.revoked_at if self.revoked_at is not None else self.expires_at)


class StaticTokens(BearerCheck):
    """`load` it once before use. Verifying asks memory only; changing waits for the database."""

    def __init__(self, database: Database, users: UserStore, *, now: Clock = wall) -> None:
        self._database = database
        self._users = users
        self._now = now
        self._tokens: dict[str, StaticToken] = {}
        self._changing = Unovertaken(database, revisions.TOKENS, self._read)
        self._unbroken = Unbroken()
        users.on_drop(self._forget_user)

    async def load(self) -> None:
        """Read what is kept, and drop what ended long ago."""
        forgotten = self._now() - KEPT_AFTER_END_S
        columns = schema.tokens.c
        async with self._database.asynchronous.begin() as connection:
            await connection.execute(
                delete(schema.tokens).where(
                    (columns.expires_at < forgotten) | (columns.revoked_at < forgotten)
                )
            )
        await self._changing.load()

    @property
    def revision(self) -> int:
        """Up to which change in the database, by whomever, this is known to be complete."""
        return self._changing.revision

    async def catch_up(self) -> None:
        """Take in what other gateways have changed."""
        await self._changing.catch_up()

    async def _read(self, connection: AsyncConnection) -> None:
        rows = (await connection.execute(select(schema.tokens))).mappings().all()
        self._tokens = {row["id"]: StaticToken(**row) for row in rows}

    async def close(self) -> None:
        await self._unbroken.wait()

    def find(self, token_id: str) -> StaticToken | None:
        return self._tokens.get(token_id)

    def all(self) -> tuple[StaticToken, ...]:
        return tuple(sorted(self._tokens.values(), key=lambda token: (token.user_name, token.created_at)))

    async def create(self, user_name: str, *, ttl_s: float) -> tuple[StaticToken, str]:
        """A new token and its text, which is nowhere else and cannot be had again."""
        return await self._unbroken.run(self._create(user_name, ttl_s))

    async def revoke(self, token_id: str) -> None:
        """End the token now. Ending it twice is fine."""
        await self._unbroken.run(self._revoke(token_id))

    def recognises(self, token: str) -> bool:
        return token.startswith(PREFIX)

    async def verify(self, token: str) -> Principal:
        form = _FORM.fullmatch(token)
        identifier, secret = form.groups() if form is not None else ("", "")
        known = self._tokens.get(identifier)
        expected = known.secret_hash if known is not None else _NOBODYS_HASH
        matched = hmac.compare_digest(_hash(secret), expected)
        if not matched or known is None or known.revoked_at is not None:
            raise RejectedToken(FailureKind.STATIC_TOKEN)
        user = self._users.find(known.user_name)
        if user is None or user.disabled:
            raise RejectedToken(FailureKind.STATIC_TOKEN)
        if self._now() >= known.expires_at:
            raise RejectedToken(FailureKind.EXPIRED)
        return user.principal

    async def _create(self, user_name: str, ttl_s: float) -> tuple[StaticToken, str]:
        async def create() -> tuple[StaticToken, str]:
            self._users.require(user_name)
            now = self._now()
            self._check_room(user_name, now)
            secret = _random(_SECRET_CHARS)
            token = StaticToken(_random(_ID_CHARS), user_name, now, now + ttl_s, None, _hash(secret))
            await self._insert(token)
            self._tokens[token.id] = token
            return token, f"{PREFIX}{token.id}_{secret}"

        return await self._changing.run(create)

    def _check_room(self, user_name: str, now: float) -> None:
        live = sum(
            1 for token in self._tokens.values() if token.user_name == user_name and token.ends_at > now
        )
        if live >= TOKENS_PER_USER_MAX:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"User '{user_name}' has {live} tokens, the most there may be. Revoke one first.",
                retryable=False,
            )

    async def _insert(self, token: StaticToken) -> None:
        values = {
            "id": token.id,
            "user_name": token.user_name,
            "secret_hash": token.secret_hash,
            "created_at": token.created_at,
            "expires_at": token.expires_at,
        }
        try:
            await self._changing.commit(insert(schema.tokens).values(values))
        except IntegrityError as error:
            # The user was dropped after we looked.
            raise unknown_user(token.user_name) from error

    async def _revoke(self, token_id: str) -> None:
        async def revoke() -> None:
            token = self._tokens.get(token_id)
            if token is None:
                raise unknown_token()
            if token.revoked_at is None:
                revoked = replace(token, revoked_at=self._now())
                is_it = schema.tokens.c.id == token_id
                await self._changing.commit(
                    update(schema.tokens).where(is_it).values(revoked_at=revoked.revoked_at)
                )
                if token_id in self._tokens:
                    self._tokens[token_id] = revoked

        await self._changing.run(revoke)

    def _forget_user(self, user_name: str) -> None:
        self._tokens = {key: token for key, token in self._tokens.items() if token.user_name != user_name}


def unknown_token() -> BailiwickError:
    """Does not repeat the id: people paste whole tokens where an id belongs."""
    return BailiwickError(
        Code.INVALID_ARGUMENTS,
        "There is no such token.",
        sqlstate="42704",
        details={"reason": "unknown", "kind": "token"},
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
