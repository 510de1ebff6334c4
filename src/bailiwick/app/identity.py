"""Who may come in, put together: users, passwords, tokens."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bailiwick.app.policy import Governance
from bailiwick.config import Config
from bailiwick.database import revisions
from bailiwick.database.changes import ChangeFeed
from bailiwick.database.database import Database
from bailiwick.identity.administration import Administration
from bailiwick.identity.audited import AuditedAuthenticator
from bailiwick.identity.authenticator import Authenticator, FailureKind
from bailiwick.identity.chain import Chain
from bailiwick.identity.fresh import FreshAuthenticator
from bailiwick.identity.keys import load_or_create_key
from bailiwick.identity.passwords import Passwords, StoredPasswords
from bailiwick.identity.people import People
from bailiwick.identity.static_tokens import StaticTokens
from bailiwick.identity.tokens import SignedTokens
from bailiwick.identity.users import UserStore
from bailiwick.policy.departing import forget_user
from bailiwick.secrets import Secret, write_secret
from bailiwick.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Identity:
    authenticator: Authenticator
    people: People
    administration: Administration
    admin_password: str | None = field(repr=False)
    """Drawn just now, on an empty directory; otherwise nobody but its owner knows it."""


async def open_identity(
    stack: AsyncExitStack,
    config: Config,
    data_dir: Path,
    database: Database,
    governance: Governance,
    metrics: Metrics,
    feed: ChangeFeed,
) -> Identity:
    settings = config.identity
    users = UserStore(database)
    await users.load()
    stack.push_async_callback(users.close)
    static = StaticTokens(database, users)
    await static.load()
    stack.push_async_callback(static.close)
    passwords = Passwords(threads=settings.hashing_threads)
    stack.callback(passwords.close)
    feed.follow(revisions.USERS, users)
    feed.follow(revisions.TOKENS, static)
    keys_dir = config.server.keys_dir or data_dir / "keys"
    key = await asyncio.to_thread(load_or_create_key, keys_dir / "token-signing")
    people = People(users, expand=governance.all_roles, impersonations=governance)
    chain = Chain(
        StoredPasswords(users, passwords),
        SignedTokens(key, users, life_s=settings.token_s),
        [static],
        people=people,
        failure_delay_s=settings.failure_delay_s,
        hashing_threads=settings.hashing_threads,
        on_failure=lambda kind: metrics.login_failed("password" if kind is FailureKind.PASSWORD else "token"),
    )
    stack.push_async_callback(chain.close)
    administration = Administration(
        users,
        static,
        passwords,
        static_token_ttl_max_s=settings.static_token_ttl_max_s,
        forget=lambda name, by: forget_user(governance.policies, name, by),
    )
    drawn = await administration.bootstrap(
        lambda password: write_secret(data_dir / "admin-password", Secret(password))
    )
    authenticator = AuditedAuthenticator(chain, governance.audit)
    return Identity(FreshAuthenticator(authenticator, feed.ensure_fresh), people, administration, drawn)
