"""Passwords: Argon2id, always in a thread of a small pool, never on the event loop.

The parameters are OWASP's: 19 MiB, two passes, one lane (23 ms where it was measured). One lane, so that the
number of threads bounds the processors that hashing takes, and little memory, so that many sign in at once.
A hash made with other parameters is made anew at the next sign-in.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import argon2
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.exc import SQLAlchemyError

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.authenticator import PasswordCheck
from bailiwick.identity.principal import Principal
from bailiwick.identity.users import UserStore

PASSWORD_CHARS_MIN = 8
PASSWORD_BYTES_MAX = 1024

Outcome = TypeVar("Outcome")


class Passwords:
    """Makes and compares hashes. Knows no users."""

    def __init__(self, *, threads: int, hasher: argon2.PasswordHasher | None = None) -> None:
        self._hasher = hasher or argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="passwords")
        # What an unknown user's password is compared with, so that the answer takes as long.
        self._nobodys_hash = self._hasher.hash(secrets.token_urlsafe())

    def close(self) -> None:
        """Blocks for the one hash that may be under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def hash(self, password: str) -> str:
        return await self._in_thread(lambda: self._hasher.hash(_encoded(password)))

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """Whether they belong together. Without a hash the same work is done, and the answer is no."""
        known = password_hash or self._nobodys_hash
        matched = await self._in_thread(lambda: self._verify(known, _encoded(password)))
        return matched and password_hash is not None

    def is_outdated(self, password_hash: str) -> bool:
        return self._hasher.check_needs_rehash(password_hash)

    def _verify(self, password_hash: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _in_thread(self, work: Callable[[], Outcome]) -> Outcome:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


class StoredPasswords(PasswordCheck):
    """The passwords of the users in our own store."""

    def __init__(self, users: UserStore, passwords: Passwords) -> None:
        self._users = users
        self._passwords = passwords

    async def verify(self, name: str, password: str) -> Principal | None:
        before = self._users.find(name)
        known = before.password_hash if before is not None else None
        if not await self._passwords.matches(known, password) or known is None:
            return None
        # Asked again: they may have been dropped, disabled or given another password while we were hashing.
        user = self._users.find(name)
        if user is None or user.disabled or user.password_hash != known:
            return None
        if self._passwords.is_outdated(known):
            # A full disk keeps nobody out: the next sign-in tries again.
            with contextlib.suppress(SQLAlchemyError):
                await self._users.rehash(name, old_hash=known, new_hash=await self._passwords.hash(password))
        return user.principal


def check_new_password(password: str) -> None:
    """Refuse what should not become a password. Existing ones are not judged."""
    if len(password) < PASSWORD_CHARS_MIN:
        raise _unfit(f"A password has at least {PASSWORD_CHARS_MIN} characters.")
    if not is_possible(password):
        raise _unfit(f"A password has at most {PASSWORD_BYTES_MAX} bytes.")


def is_possible(password: str) -> bool:
    """Whether it can be anybody's. Hashing anything longer would be work done for an attacker."""
    return len(password) <= PASSWORD_BYTES_MAX and 0 < len(_encoded(password)) <= PASSWORD_BYTES_MAX


def _encoded(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


def _unfit(message: str) -> BailiwickError:
    return BailiwickError(Code.INVALID_ARGUMENTS, message, details={"reason": "password"})
