"""The users of this gateway: kept in the database, answered from memory.

Every call of every client asks for a user's present state, so the store holds all of them in memory and
changes both together. Where several gateways share the database, a change is made only to what is current
there, and what others change comes to memory by `catch_up` (see `database/changes.py`). Passwords are hashed
before they come here.
"""

import json
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bailiwick.clock import Clock, wall
from bailiwick.database import revisions, schema
from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import ADMIN, BUILT_IN_ROLES, DEFAULT_TENANT, Principal
from bailiwick.identity.unbroken import Unbroken
from bailiwick.identity.unovertaken import Unovertaken

NAME_CHARS_MAX = 128
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}", re.ASCII)
TENANT_CHARS_MAX = 64
TENANT = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
RESERVED = "bailiwick-"
"""What the gateway calls itself where it acts for nobody: in the catalog, in the record."""
USERS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class User:
    name: str
    roles: frozenset[str]
    """Those given to the user: built-in ones. What they have besides comes with these, and by policy."""
    tenant: str
    created_at: float
    # Another number after every change that must end the signed tokens handed out before it. It is drawn, not
    # counted: a user dropped and made again must not start where the old tokens still fit.
    generation: int
    disabled: bool = False
    password_hash: str | None = field(default=None, repr=False)

    @property
    def principal(self) -> Principal:
        return Principal(self.name, self.roles, self.tenant)

    @property
    def is_active_admin(self) -> bool:
        return ADMIN in self.roles and not self.disabled


class UserStore:
    """`load` it once before use. Reading is plain and from memory; changing waits for the database."""

    def __init__(self, database: Database, *, now: Clock = wall) -> None:
        self._database = database
        self._now = now
        self._users: dict[str, User] = {}
        self._changing = Unovertaken(database, revisions.USERS, self._read)
        self._unbroken = Unbroken()
        self._on_drop: list[Callable[[str], None]] = []

    async def load(self) -> None:
        await self._changing.load()

    @property
    def revision(self) -> int:
        """Up to which change in the database, by whomever, this is known to be complete."""
        return self._changing.revision

    async def catch_up(self) -> None:
        """Take in what other gateways have changed."""
        await self._changing.catch_up()

    async def _read(self, connection: AsyncConnection) -> None:
        rows = (await connection.execute(select(schema.users))).all()
        before = self._users
        self._users = {
            row.name: User(
                name=row.name,
                roles=frozenset(json.loads(row.roles)),
                tenant=row.tenant,
                created_at=row.created_at,
                generation=row.generation,
                disabled=row.disabled,
                password_hash=row.password_hash,
            )
            for row in rows
        }
        for name in before.keys() - self._users.keys():
            self._tell_dropped(name)

    async def close(self) -> None:
        await self._unbroken.wait()

    def on_drop(self, callback: Callable[[str], None]) -> None:
        """`callback` is told the name of each user that goes, in the same step in which they go."""
        self._on_drop.append(callback)

    def find(self, name: str) -> User | None:
        return self._users.get(name)

    def require(self, name: str) -> User:
        """The user, or a typed refusal. For administration: whoever signs in must not learn who exists."""
        user = self._users.get(name)
        if user is None:
            raise unknown_user(name)
        return user

    def all(self) -> tuple[User, ...]:
        return tuple(sorted(self._users.values(), key=lambda user: user.name))

    async def add(
        self,
        name: str,
        *,
        roles: frozenset[str],
        password_hash: str | None,
        tenant: str = DEFAULT_TENANT,
    ) -> User:
        """A new user. Refused if there is one of that name, also one that differs only in case."""
        check_name(name)
        check_roles(roles)
        check_tenant(tenant)
        return await self._unbroken.run(self._add(name, roles, password_hash, tenant))

    async def change(
        self,
        name: str,
        *,
        roles: frozenset[str] | None = None,
        password_hash: str | None = None,
        disabled: bool | None = None,
        tenant: str | None = None,
    ) -> User:
        """Change what is given. Ends every signed token of the user. The last admin stays one."""
        if roles is not None:
            check_roles(roles)
        if tenant is not None:
            check_tenant(tenant)
        return await self._unbroken.run(self._change(name, roles, password_hash, disabled, tenant))

    async def rehash(self, name: str, *, old_hash: str, new_hash: str) -> None:
        """The same password, hashed anew. Does nothing if the password has been changed meanwhile."""
        await self._unbroken.run(self._rehash(name, old_hash, new_hash))

    async def drop(self, name: str, *, first: Callable[[], Awaitable[None]] | None = None) -> None:
        """The user goes, and every token of theirs. The last admin does not.

        What must be gone before them goes `first`; the user stays if that fails.
        """
        await self._unbroken.run(self._drop(name, first))

    async def _add(self, name: str, roles: frozenset[str], password_hash: str | None, tenant: str) -> User:
        async def add() -> User:
            self._check_new(name)
            user = User(name, roles, tenant, self._now(), _generation(), password_hash=password_hash)
            await self._changing.commit(insert(schema.users).values(name=name, **_columns(user)))
            self._users[name] = user
            return user

        return await self._changing.run(add)

    def _check_new(self, name: str) -> None:
        if len(self._users) >= USERS_MAX:
            raise BailiwickError(
                Code.RESOURCE_EXHAUSTED,
                f"There are {USERS_MAX} users, the most there may be.",
                retryable=False,
            )
        if any(name.casefold() == other.casefold() for other in self._users):
            raise BailiwickError(
                Code.INVALID_ARGUMENTS,
                f"User '{name}' exists already.",
                sqlstate="42710",
                details={"reason": "duplicate", "kind": "user"},
            )

    async def _change(
        self,
        name: str,
        roles: frozenset[str] | None,
        password_hash: str | None,
        disabled: bool | None,
        tenant: str | None,
    ) -> User:
        async def change() -> User:
            before = self.require(name)
            after = replace(
                before,
                roles=before.roles if roles is None else roles,
                password_hash=before.password_hash if password_hash is None else password_hash,
                disabled=before.disabled if disabled is None else disabled,
                tenant=before.tenant if tenant is None else tenant,
                generation=_generation(),
            )
            if not after.is_active_admin:
                self._keep_one_admin(before)
            await self._store(after)
            return after

        return await self._changing.run(change)

    async def _rehash(self, name: str, old_hash: str, new_hash: str) -> None:
        async def rehash() -> None:
            user = self._users.get(name)
            if user is not None and user.password_hash == old_hash:
                await self._store(replace(user, password_hash=new_hash))

        await self._changing.run(rehash)

    async def _drop(self, name: str, first: Callable[[], Awaitable[None]] | None) -> None:
        async def drop() -> None:
            self._keep_one_admin(self.require(name))
            if first is not None:
                await first()
            # The tokens go with their user, in the database as in the memory of every gateway.
            gone = delete(schema.users).where(schema.users.c.name == name)
            await self._changing.commit(gone, besides=revisions.TOKENS)
            del self._users[name]
            self._tell_dropped(name)

        await self._changing.run(drop)

    async def _store(self, user: User) -> None:
        statement = update(schema.users).where(schema.users.c.name == user.name).values(**_columns(user))
        await self._changing.commit(statement)
        self._users[user.name] = user

    def _tell_dropped(self, name: str) -> None:
        for callback in self._on_drop:
            callback(name)

    def _keep_one_admin(self, leaving: User) -> None:
        others = (user for user in self._users.values() if user.name != leaving.name)
        if leaving.is_active_admin and not any(user.is_active_admin for user in others):
            raise BailiwickError(
                Code.INVALID_ARGUMENTS,
                f"User '{leaving.name}' is the last one with role '{ADMIN}'. Give it to another user first.",
                sqlstate="55000",
                details={"reason": "last_admin", "kind": "user"},
            )


def check_name(name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"A user's name has 1 to {NAME_CHARS_MAX} characters: letters A-Z, digits and _ . @ + -, "
            "and begins with a letter, a digit or _.",
            details={"reason": "name", "kind": "user"},
        )
    if name.lower().startswith(RESERVED):
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"Names that begin with {RESERVED} are the gateway's own. Choose another.",
            details={"reason": "reserved", "kind": "user"},
        )


def check_roles(roles: frozenset[str]) -> None:
    """Whether these can be given to a user. Roles of one's own making come by GRANT ROLE."""
    others = sorted(roles - BUILT_IN_ROLES)
    if others or not roles:
        named = f"There is no built-in role '{others[0]}'." if others else "A user has at least one role."
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"{named} The built-in roles are: {', '.join(sorted(BUILT_IN_ROLES))}. Any other is given by "
            "GRANT ROLE … TO USER ….",
            sqlstate="42704",
            details={"reason": "unknown", "kind": "role"},
        )


def check_tenant(tenant: str) -> None:
    if TENANT.fullmatch(tenant) is None:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS,
            f"A tenant's name has 1 to {TENANT_CHARS_MAX} characters: letters a-z, digits and _ . -, "
            "and begins with a letter or a digit.",
            details={"reason": "name", "kind": "tenant"},
        )


def unknown_user(name: str) -> BailiwickError:
    return BailiwickError(
        Code.INVALID_ARGUMENTS,
        f"There is no user '{name}'.",
        sqlstate="42704",
        details={"reason": "unknown", "kind": "user"},
    )


def _columns(user: User) -> dict[str, object]:
    return {
        "roles": json.dumps(sorted(user.roles)),
        "tenant": user.tenant,
        "password_hash": user.password_hash,
        "generation": user.generation,
        "disabled": user.disabled,
        "created_at": user.created_at,
    }


def _generation() -> int:
    return secrets.randbits(53)
