"""Does what the administration statements say, for those who may.

Admins may do all of it. Everyone may change their own password, and list, create and revoke their own static
tokens. Nothing is changed on behalf of somebody else. Results are Arrow tables; those of a command that only
changes something have no columns, as with Spark's own. A token's text is in the one result that creates it
and nowhere else.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import assert_never

import pyarrow as pa
from sqlalchemy.exc import SQLAlchemyError

from bailiwick.clock import Clock, wall
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.passwords import Passwords, check_new_password
from bailiwick.identity.principal import ADMIN, DEFAULT_TENANT, READER, Principal
from bailiwick.identity.statements import (
    ChangePassword,
    ChangeRoles,
    ChangeTenant,
    Command,
    CreateToken,
    CreateUser,
    DisableUser,
    DropUser,
    EnableUser,
    RevokeToken,
    ShowTokens,
    ShowUsers,
    changes,
)
from bailiwick.identity.static_tokens import StaticToken, StaticTokens, unknown_token
from bailiwick.identity.users import UserStore, check_name, check_roles, check_tenant

FIRST_ADMIN = "admin"
DEFAULT_ROLES = frozenset({READER})
DEFAULT_TTL_S = 8 * 3600.0

Forget = Callable[[str, Principal], Awaitable[None]]
"""Take back all that a user of this name was given elsewhere, as this principal wishes."""

_UserChange = CreateUser | ChangePassword | ChangeRoles | ChangeTenant | DisableUser | EnableUser

_MOMENT = pa.timestamp("us", tz="UTC")
_USERS = pa.schema(
    [
        ("name", pa.string()),
        ("roles", pa.list_(pa.string())),
        ("tenant", pa.string()),
        ("disabled", pa.bool_()),
        ("created_at", _MOMENT),
    ]
)
_TOKENS = pa.schema(
    [
        ("id", pa.string()),
        ("user", pa.string()),
        ("state", pa.string()),
        ("created_at", _MOMENT),
        ("expires_at", _MOMENT),
        ("revoked_at", _MOMENT),
    ]
)
_NEW_TOKEN = pa.schema([("id", pa.string()), ("token", pa.string()), ("expires_at", _MOMENT)])
_NOTHING = pa.schema([])


def result_schema(command: Command) -> pa.Schema:
    """What `perform` will answer with, known before anything is done."""
    match command:
        case ShowUsers():
            return _USERS
        case ShowTokens():
            return _TOKENS
        case CreateToken():
            return _NEW_TOKEN
        case _:
            return _NOTHING


class Administration:
    def __init__(
        self,
        users: UserStore,
        tokens: StaticTokens,
        passwords: Passwords,
        *,
        static_token_ttl_max_s: float,
        forget: Forget | None = None,
        now: Clock = wall,
    ) -> None:
        """`forget` is asked before a user is dropped: the next one of that name must inherit nothing."""
        self._users = users
        self._tokens = tokens
        self._passwords = passwords
        self._ttl_max_s = static_token_ttl_max_s
        self._forget = forget
        self._now = now

    async def perform(self, command: Command, principal: Principal) -> pa.Table:
        """Do it, if `principal` may; the answer has `result_schema(command)`."""
        self.check_access(command, principal)
        try:
            return await self._perform(command, principal)
        except SQLAlchemyError as error:
            raise BailiwickError(
                Code.STORAGE_ERROR, "The change could not be stored.", cause_text=str(error)
            ) from error

    async def _perform(self, command: Command, principal: Principal) -> pa.Table:
        match command:
            case ShowUsers():
                return self._show_users()
            case ShowTokens():
                return self._show_tokens(principal)
            case CreateToken(name, ttl_s):
                return await self._create_token(name, DEFAULT_TTL_S if ttl_s is None else ttl_s)
            case RevokeToken(identifier):
                await self._revoke_token(identifier, principal)
            case DropUser(name):
                await self._drop_user(name, principal)
            case _:
                await self._change_users(command)
        return _table([], _NOTHING)

    def check_access(self, command: Command, principal: Principal) -> None:
        """Refuse what `principal` may not. Comes before any look at whether the user exists."""
        if principal.is_acted_for and changes(command):
            raise BailiwickError(
                Code.ACCESS_DENIED,
                f"{principal.actor} acts on behalf of {principal.name}. Users, passwords and tokens are not "
                "changed on behalf of others: sign in as yourself.",
                details={"reason": "on_behalf_of"},
            )
        match command:
            case ShowTokens() | RevokeToken():
                return
            case ChangePassword(name) | CreateToken(name) if name == principal.name:
                return
            case _ if not principal.is_admin:
                raise BailiwickError(
                    Code.ACCESS_DENIED,
                    f"This needs role '{ADMIN}'. Without it one may change one's own password and list, "
                    "create and revoke one's own tokens.",
                    details={"missing_role": ADMIN},
                )

    async def bootstrap(self, keep: Callable[[str], None] | None = None) -> str | None:
        """On an empty database, make the first admin and return the password drawn for it; else None.

        `keep` writes the password down. It runs in a thread and before the user exists: a crash in between
        leaves a note without a user, and the next start makes both anew; never a user whom nobody can be.
        """
        if self._users.all():
            return None
        password = _draw_password()
        if keep is not None:
            await asyncio.to_thread(keep, password)
        password_hash = await self._passwords.hash(password)
        await self._users.add(FIRST_ADMIN, roles=frozenset({ADMIN}), password_hash=password_hash)
        return password

    async def _change_users(self, command: _UserChange) -> None:
        match command:
            case CreateUser():
                await self._create_user(command)
            case ChangePassword(name, password):
                self._users.require(name)
                check_new_password(password)
                await self._users.change(name, password_hash=await self._passwords.hash(password))
            case ChangeRoles(name, roles):
                await self._users.change(name, roles=roles)
            case ChangeTenant(name, tenant):
                await self._users.change(name, tenant=tenant)
            case DisableUser(name):
                await self._users.change(name, disabled=True)
            case EnableUser(name):
                await self._users.change(name, disabled=False)
            case _:
                assert_never(command)

    async def _drop_user(self, name: str, principal: Principal) -> None:
        forget = self._forget
        await self._users.drop(name, first=None if forget is None else lambda: forget(name, principal))

    async def _create_user(self, command: CreateUser) -> None:
        roles = DEFAULT_ROLES if command.roles is None else command.roles
        tenant = DEFAULT_TENANT if command.tenant is None else command.tenant
        # All that can be refused is refused before the costly part; the store looks again.
        check_name(command.name)
        check_roles(roles)
        check_tenant(tenant)
        check_new_password(command.password)
        password_hash = await self._passwords.hash(command.password)
        await self._users.add(command.name, roles=roles, password_hash=password_hash, tenant=tenant)

    async def _create_token(self, name: str, ttl_s: float) -> pa.Table:
        if ttl_s > self._ttl_max_s:
            raise BailiwickError(
                Code.INVALID_ARGUMENTS,
                f"A token lives at most {self._ttl_max_s / 86_400:g} days here.",
                details={"reason": "ttl", "kind": "token"},
            )
        token, text = await self._tokens.create(name, ttl_s=ttl_s)
        row = {"id": token.id, "token": text, "expires_at": _moment(token.expires_at)}
        return _table([row], _NEW_TOKEN)

    async def _revoke_token(self, identifier: str, principal: Principal) -> None:
        token = self._tokens.find(identifier)
        # Somebody else's token looks like none at all.
        if token is None or not (principal.is_admin or token.user_name == principal.name):
            raise unknown_token()
        await self._tokens.revoke(identifier)

    def _show_users(self) -> pa.Table:
        rows: list[dict[str, object]] = [
            {
                "name": user.name,
                "roles": sorted(user.roles),
                "tenant": user.tenant,
                "disabled": user.disabled,
                "created_at": _moment(user.created_at),
            }
            for user in self._users.all()
        ]
        return _table(rows, _USERS)

    def _show_tokens(self, principal: Principal) -> pa.Table:
        rows: list[dict[str, object]] = [
            {
                "id": token.id,
                "user": token.user_name,
                "state": self._state(token),
                "created_at": _moment(token.created_at),
                "expires_at": _moment(token.expires_at),
                "revoked_at": None if token.revoked_at is None else _moment(token.revoked_at),
            }
            for token in self._tokens.all()
            if principal.is_admin or token.user_name == principal.name
        ]
        return _table(rows, _TOKENS)

    def _state(self, token: StaticToken) -> str:
        if token.revoked_at is not None:
            return "revoked"
        return "live" if self._now() < token.expires_at else "expired"


def _table(rows: list[dict[str, object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _draw_password() -> str:
    """125 bits, easy to read and to type: `k3x9p-…`. No character is one that a shell or SQL would mind."""
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    return "-".join("".join(secrets.choice(alphabet) for _ in range(5)) for _ in range(5))
