"""Admins administer, others mind their own business, and someone can always administer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import argon2
import pyarrow as pa
import pytest
from sqlalchemy import text

from bailiwick.database.database import Database
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.administration import Administration, result_schema
from bailiwick.identity.passwords import Passwords, StoredPasswords
from bailiwick.identity.principal import Principal
from bailiwick.identity.statements import parse
from bailiwick.identity.static_tokens import StaticTokens
from bailiwick.identity.users import UserStore
from bailiwick.testing.databases import opened_database

ADMIN = Principal("admin", frozenset({"admin"}))
ANN = Principal("ann", frozenset({"writer"}))
BOB = Principal("bob", frozenset({"reader"}))


@dataclass
class World:
    database: Database
    users: UserStore
    static: StaticTokens
    passwords: Passwords
    administration: Administration
    time: list[float]

    async def run(self, sql: str, principal: Principal = ADMIN) -> list[dict[str, object]]:
        command = parse(sql)
        assert command is not None
        table = await self.administration.perform(command, principal)
        assert table.schema == result_schema(command)
        rows: list[dict[str, object]] = table.to_pylist()
        return rows

    async def refused(self, sql: str, principal: Principal = ADMIN) -> BailiwickError:
        with pytest.raises(BailiwickError) as refused:
            await self.run(sql, principal)
        return refused.value

    async def signs_in(self, name: str, password: str) -> bool:
        return await StoredPasswords(self.users, self.passwords).verify(name, password) is not None


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[World]:
    time = [1_000_000.0]
    database = opened_database(tmp_path / "bailiwick.db")
    users = UserStore(database, now=lambda: time[0])
    await users.load()
    static = StaticTokens(database, users, now=lambda: time[0])
    await static.load()
    passwords = Passwords(threads=2, hasher=argon2.PasswordHasher(1, 64, 1))
    administration = Administration(
        users, static, passwords, static_token_ttl_max_s=10 * 86_400.0, now=lambda: time[0]
    )
    yield World(database, users, static, passwords, administration, time)
    await static.close()
    await users.close()
    passwords.close()
    await database.close()


@pytest.fixture
async def world(empty: World) -> World:
    await empty.administration.bootstrap()
    await empty.run("CREATE USER ann PASSWORD 'anns password' ROLES (writer)")
    await empty.run("CREATE USER bob PASSWORD 'bobs password'")
    return empty


async def test_an_empty_database_gets_an_admin_with_a_random_password(empty: World) -> None:
    kept: list[str] = []
    password = await empty.administration.bootstrap(kept.append)
    assert password is not None
    assert len(password) >= 24
    assert kept == [password]
    assert await empty.signs_in("admin", password)
    assert empty.users.require("admin").roles == {"admin"}
    assert await empty.administration.bootstrap(kept.append) is None
    assert kept == [password]


async def test_a_password_that_cannot_be_written_down_makes_no_admin(empty: World) -> None:
    def keep(password: str) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await empty.administration.bootstrap(keep)
    assert empty.users.all() == ()


async def test_a_new_user_can_sign_in_and_is_a_reader_unless_told_otherwise(world: World) -> None:
    assert await world.signs_in("ann", "anns password")
    assert world.users.require("ann").roles == {"writer"}
    assert world.users.require("bob").roles == {"reader"}


async def test_users_are_listed_without_their_hashes(world: World) -> None:
    rows = await world.run("SHOW USERS")
    created_at = datetime.fromtimestamp(1_000_000, UTC)
    assert rows == [
        {"name": name, "roles": [role], "tenant": "default", "disabled": False, "created_at": created_at}
        for name, role in (("admin", "admin"), ("ann", "writer"), ("bob", "reader"))
    ]
    assert "argon2" not in repr(world.users.all())


async def test_what_changed_is_still_so_after_a_restart(world: World) -> None:
    await world.run("ALTER USER ann PASSWORD 'another one'")
    await world.run("ALTER USER ann ROLES (reader, writer)")
    await world.run("ALTER USER bob DISABLE")
    await world.run("DROP USER bob")
    again = UserStore(world.database)
    await again.load()
    assert again.all() == world.users.all()
    assert [user.name for user in again.all()] == ["admin", "ann"]


async def test_every_built_in_role_can_be_given(world: World) -> None:
    await world.run("ALTER USER ann ROLES (operator, auditor, writer, reader)")
    assert world.users.require("ann").roles == {"operator", "auditor", "writer", "reader"}


async def test_a_user_belongs_to_a_tenant_and_can_be_moved(world: World) -> None:
    await world.run("CREATE USER cyd PASSWORD 'long enough' TENANT 'acme' ROLES (operator)")
    assert world.users.require("cyd").principal == Principal("cyd", frozenset({"operator"}), "acme")
    generation = world.users.require("ann").generation
    await world.run("ALTER USER ann TENANT 'acme'")
    again = UserStore(world.database)
    await again.load()
    assert again.require("ann").tenant == "acme"
    assert again.require("ann").roles == {"writer"}
    assert again.require("ann").generation != generation
    shown = {row["name"]: row["tenant"] for row in await world.run("SHOW USERS")}
    assert shown == {"admin": "default", "ann": "acme", "bob": "default", "cyd": "acme"}


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER USER ann PASSWORD 'another password'",
        "CREATE TOKEN FOR ann",
        "REVOKE TOKEN 'whatever'",
        "ALTER USER ann ROLES (admin)",
        "CREATE USER eve PASSWORD 'long enough'",
        "DROP USER bob",
    ],
)
@pytest.mark.parametrize("roles", [{"writer"}, {"admin"}])
async def test_nothing_is_changed_on_behalf_of_another(world: World, sql: str, roles: set[str]) -> None:
    acted_for = Principal("ann", frozenset(roles), actor="svc")
    refused = await world.refused(sql, acted_for)
    assert refused.code is Code.ACCESS_DENIED
    assert refused.details == {"reason": "on_behalf_of"}
    assert await world.run("SHOW TOKENS", acted_for) == []


async def test_a_disabled_user_cannot_sign_in_until_enabled(world: World) -> None:
    await world.run("ALTER USER bob DISABLE")
    assert not await world.signs_in("bob", "bobs password")
    await world.run("ALTER USER bob ENABLE")
    assert await world.signs_in("bob", "bobs password")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE USER eve PASSWORD 'long enough' ROLES (admin)",
        "ALTER USER admin PASSWORD 'long enough'",
        "ALTER USER nobody PASSWORD 'long enough'",
        "ALTER USER ann ROLES (admin)",
        "ALTER USER bob DISABLE",
        "ALTER USER bob ENABLE",
        "DROP USER bob",
        "DROP USER nobody",
        "SHOW USERS",
        "CREATE TOKEN FOR admin",
        "CREATE TOKEN FOR nobody",
    ],
)
async def test_only_an_admin_may_and_the_refusal_names_what_is_missing(world: World, sql: str) -> None:
    before = world.users.all()
    refused = await world.refused(sql, ANN)
    assert refused.code is Code.ACCESS_DENIED
    assert "'admin'" in refused.message
    assert refused.details == {"missing_role": "admin"}
    assert world.users.all() == before
    assert world.static.all() == ()


async def test_everyone_may_change_their_own_password(world: World) -> None:
    await world.run("ALTER USER bob PASSWORD 'bobs new one'", BOB)
    assert await world.signs_in("bob", "bobs new one")
    assert not await world.signs_in("bob", "bobs password")


async def test_everyone_may_make_list_and_revoke_their_own_tokens(world: World) -> None:
    (made,) = await world.run("CREATE TOKEN FOR bob TTL '30m'", BOB)
    await world.run("CREATE TOKEN FOR ann", ANN)
    assert made["expires_at"] == datetime.fromtimestamp(1_000_000 + 1800, UTC)
    assert (await world.static.verify(str(made["token"]))).name == "bob"
    (listed,) = await world.run("SHOW TOKENS", BOB)
    assert (listed["id"], listed["user"], listed["state"]) == (made["id"], "bob", "live")
    assert len(await world.run("SHOW TOKENS", ADMIN)) == 2
    await world.run(f"REVOKE TOKEN '{made['id']}'", BOB)
    (listed,) = await world.run("SHOW TOKENS", BOB)
    assert listed["state"] == "revoked"


async def test_anothers_token_looks_like_none_at_all(world: World) -> None:
    (made,) = await world.run("CREATE TOKEN FOR ann", ANN)
    theirs = await world.refused(f"REVOKE TOKEN '{made['id']}'", BOB)
    none = await world.refused("REVOKE TOKEN 'nonexistent'", BOB)
    assert (theirs.code, theirs.message, theirs.details) == (none.code, none.message, none.details)
    assert (await world.static.verify(str(made["token"]))).name == "ann"
    await world.run(f"REVOKE TOKEN '{made['token']}'", ADMIN)
    (listed,) = await world.run("SHOW TOKENS", ANN)
    assert listed["state"] == "revoked"


async def test_a_token_is_shown_once(world: World) -> None:
    (made,) = await world.run("CREATE TOKEN FOR ann")
    assert set(made) == {"id", "token", "expires_at"}
    secret = str(made["token"]).rpartition("_")[2]
    assert secret not in repr(await world.run("SHOW TOKENS"))
    world.time[0] += 8 * 3600.0
    (listed,) = await world.run("SHOW TOKENS")
    assert listed["state"] == "expired"


@pytest.mark.parametrize(
    ("sql", "reason", "kind"),
    [
        ("CREATE USER ann PASSWORD 'long enough'", "duplicate", "user"),
        ("CREATE USER ANN PASSWORD 'long enough'", "duplicate", "user"),
        ("CREATE USER `a b` PASSWORD 'long enough'", "name", "user"),
        ("CREATE USER `änn` PASSWORD 'long enough'", "name", "user"),
        ("CREATE USER `-ann` PASSWORD 'long enough'", "name", "user"),
        ("CREATE USER `ann\n` PASSWORD 'long enough'", "name", "user"),
        ("CREATE USER eve PASSWORD 'long enough' ROLES (emperor)", "unknown", "role"),
        ("CREATE USER eve PASSWORD 'short'", "password", None),
        ("ALTER USER ann PASSWORD 'short'", "password", None),
        ("ALTER USER ann ROLES (emperor)", "unknown", "role"),
        ("ALTER USER nobody PASSWORD 'long enough'", "unknown", "user"),
        ("ALTER USER nobody ROLES (reader)", "unknown", "user"),
        ("ALTER USER nobody TENANT 'acme'", "unknown", "user"),
        ("ALTER USER ann TENANT 'Acme'", "name", "tenant"),
        ("ALTER USER ann TENANT ''", "name", "tenant"),
        ("CREATE USER eve PASSWORD 'long enough' TENANT 'a b'", "name", "tenant"),
        ("ALTER USER nobody DISABLE", "unknown", "user"),
        ("DROP USER nobody", "unknown", "user"),
        ("CREATE TOKEN FOR nobody", "unknown", "user"),
        ("CREATE TOKEN FOR ann TTL '11d'", "ttl", "token"),
        ("REVOKE TOKEN 'nothing'", "unknown", "token"),
        ("DROP USER admin", "last_admin", "user"),
        ("ALTER USER admin ROLES (writer)", "last_admin", "user"),
        ("ALTER USER admin DISABLE", "last_admin", "user"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_its_reason(
    world: World, sql: str, reason: str, kind: str | None
) -> None:
    before = world.users.all()
    refused = await world.refused(sql)
    assert refused.code is Code.INVALID_ARGUMENTS
    assert refused.details.get("reason") == reason
    assert refused.details.get("kind") == kind
    assert world.users.all() == before


async def test_what_a_user_was_given_elsewhere_is_taken_back_before_they_go(world: World) -> None:
    asked: list[tuple[str, str, bool]] = []

    async def forget(name: str, by: Principal) -> None:
        asked.append((name, by.name, world.users.find(name) is not None))
        if name == "bob":
            raise BailiwickError(Code.STORAGE_ERROR, "The change could not be stored.")

    administration = Administration(
        world.users, world.static, world.passwords, static_token_ttl_max_s=60, forget=forget
    )
    for sql in ("DROP USER ann", "DROP USER bob", "DROP USER admin", "DROP USER nobody"):
        command = parse(sql)
        assert command is not None
        with contextlib.suppress(BailiwickError):
            await administration.perform(command, ADMIN)
    assert asked == [("ann", "admin", True), ("bob", "admin", True)]
    assert [user.name for user in world.users.all()] == ["admin", "bob"]


async def test_an_admin_may_go_when_there_is_another(world: World) -> None:
    await world.run("ALTER USER ann ROLES (admin)")
    await world.run("DROP USER admin")
    assert (await world.refused("DROP USER ann")).details["reason"] == "last_admin"


async def test_a_disabled_admin_does_not_count_as_another(world: World) -> None:
    await world.run("CREATE USER second PASSWORD 'long enough' ROLES (admin)")
    await world.run("ALTER USER second DISABLE")
    assert (await world.refused("DROP USER admin")).details["reason"] == "last_admin"


async def test_two_admins_who_drop_one_another_at_once_leave_one(world: World) -> None:
    await world.run("CREATE USER second PASSWORD 'long enough' ROLES (admin)")
    outcomes = await asyncio.gather(
        world.run("DROP USER admin"), world.run("DROP USER second"), return_exceptions=True
    )
    assert sum(isinstance(outcome, BailiwickError) for outcome in outcomes) == 1
    assert sum(user.is_active_admin for user in world.users.all()) == 1


async def test_of_two_who_create_the_same_user_one_is_refused(world: World) -> None:
    outcomes = await asyncio.gather(
        *(world.run(f"CREATE USER eve PASSWORD 'password {number}'") for number in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, BailiwickError) for outcome in outcomes) == 4


async def test_a_caller_who_hangs_up_does_not_leave_a_dropped_user_signed_in(world: World) -> None:
    """Wherever the caller goes away, memory and database agree afterwards."""
    for rounds in range(12):
        name = f"user{rounds}"
        await world.users.add(name, roles=frozenset({"reader"}), password_hash=None)
        dropping = asyncio.create_task(world.users.drop(name))
        for _ in range(rounds):
            await asyncio.sleep(0)
        dropping.cancel()
        await asyncio.gather(dropping, return_exceptions=True)
        await world.users.close()
        stored = UserStore(world.database)
        await stored.load()
        assert stored.all() == world.users.all()


async def test_a_change_that_cannot_be_stored_is_told_so_and_not_half_done(world: World) -> None:
    with world.database.synchronous.begin() as connection:
        connection.execute(
            text("CREATE TRIGGER full BEFORE UPDATE ON users BEGIN SELECT RAISE(ABORT, 'full'); END")
        )
    before = world.users.all()
    refused = await world.refused("ALTER USER ann PASSWORD 'a new password'")
    assert refused.code is Code.STORAGE_ERROR
    assert refused.cause_text is not None
    assert "argon2" not in refused.cause_text
    assert world.users.all() == before
    assert await world.signs_in("ann", "anns password")


async def test_a_command_without_rows_answers_without_columns(world: World) -> None:
    command = parse("DROP USER bob")
    assert command is not None
    table = await world.administration.perform(command, ADMIN)
    assert table.schema == pa.schema([])
    assert table.num_rows == 0
