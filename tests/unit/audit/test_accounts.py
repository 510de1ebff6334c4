"""Everything that is asked is put on record; a change that cannot be recorded is not made."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from audited import Audited, audited
from query_house import ADMIN, ANN, LAKE, House, Script, house

from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.engines.description import Description
from bailiwick.engines.description import Kind as StatementKind
from bailiwick.errors import BailiwickError, Code
from bailiwick.queries.accounts import Accounts
from bailiwick.queries.policy_decisions import Decisions
from bailiwick.queries.statement import Statement

INSERT = "INSERT INTO t VALUES (1)"
CHANGE = Script(
    description=Description(StatementKind.CHANGE, "AppendData", writes=("lake.a.t",), catalogs=LAKE)
)
QUERIES_MAX = 8


@asynccontextmanager
async def recorded(tmp_path: Path) -> AsyncIterator[tuple[House, Audited]]:
    async with audited(tmp_path, queue_length_max=2 * QUERIES_MAX) as world:
        accounts = Accounts(world.log, Decisions(), wall=lambda: 9.0)
        async with house(tmp_path, accounts=accounts) as opened:
            opened.engine.scripts[INSERT] = CHANGE
            yield opened, world


async def entries(world: Audited) -> list[AuditEntry]:
    await world.log.flush()
    return [link.entry async for link in world.log.read()]


async def test_a_read_is_recorded_once_when_it_has_ended(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (opened, world):
        await opened.ask("SELECT 1")
        (entry,) = await entries(world)
        assert (entry.kind, entry.outcome, entry.what, entry.rows) == (
            Kind.QUERY,
            Outcome.FINISHED,
            "SELECT 1",
            1,
        )
        assert (entry.principal, entry.door) == ("ann", "flight_sql")


async def test_a_change_is_recorded_before_it_starts_and_when_it_has_ended(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (opened, world):
        await opened.ask(INSERT)
        before, after = await entries(world)
        assert (before.outcome, after.outcome) == (Outcome.BEGUN, Outcome.FINISHED)
        assert before.tables_written == after.tables_written == ("lake.a.t",)
        assert before.query_id == after.query_id


async def test_a_change_that_cannot_be_recorded_does_not_reach_the_engine(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (opened, world):
        world.store.is_full = True
        refused = await opened.refusal(INSERT)
        assert (refused.code, refused.retryable) == (Code.STORAGE_ERROR, True)
        assert opened.engine.executed == []
        world.store.is_full = False
        await opened.ask(INSERT)
        assert [entry.outcome for entry in await entries(world)] == [
            Outcome.FAILED,
            Outcome.BEGUN,
            Outcome.FINISHED,
        ]


async def test_changes_of_users_are_recorded_before_they_happen_and_without_passwords(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (opened, world):
        world.store.is_full = True
        await opened.refusal("CREATE USER bob PASSWORD 'bobs secret'", ADMIN)
        assert opened.administration.performed == []
        world.store.is_full = False
        await opened.ask("CREATE USER bob PASSWORD 'bobs secret'", ADMIN)
        found = await entries(world)
        assert {entry.kind for entry in found} == {Kind.ADMINISTRATION}
        assert "bobs secret" not in str(found)


async def test_reads_go_on_while_the_disk_fails_until_the_queue_is_half_full(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (opened, world):
        world.store.is_full = True
        for _ in range(QUERIES_MAX):
            await opened.ask("SELECT 1")
        with pytest.raises(BailiwickError) as refused:
            await opened.ask("SELECT 1")
        assert refused.value.code is Code.STORAGE_ERROR
        world.store.is_full = False
        assert len(await entries(world)) == QUERIES_MAX


async def test_what_was_refused_before_it_became_a_query_is_recorded(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (opened, world):
        missing = BailiwickError(Code.TABLE_NOT_FOUND, "There is no table hidden.")
        opened.engine.scripts["SELECT * FROM hidden"] = Script(description=missing)
        for sql in ("SHOW USERS", "SELECT * FROM hidden"):
            with pytest.raises(BailiwickError):
                await opened.service.prepare(Statement(sql, ANN, "flight_sql"))
        denied, absent = await entries(world)
        assert (denied.code, denied.outcome, denied.what) == ("ACCESS_DENIED", Outcome.REFUSED, "SHOW USERS")
        assert (absent.code, absent.outcome) == ("TABLE_NOT_FOUND", Outcome.FAILED)
        assert denied.query_id
        assert denied.query_id != absent.query_id


async def test_a_failure_and_a_refusal_are_recorded_with_their_codes(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (opened, world):
        opened.engine.scripts["SELECT 1/0"] = Script(
            events=[BailiwickError(Code.DIVISION_BY_ZERO, "by zero")]
        )
        await opened.refusal("SELECT 1/0")
        await opened.refusal("SHOW USERS")
        failed, refused = await entries(world)
        assert (failed.outcome, failed.code) == (Outcome.FAILED, "DIVISION_BY_ZERO")
        assert (refused.outcome, refused.code) == (Outcome.REFUSED, "ACCESS_DENIED")
