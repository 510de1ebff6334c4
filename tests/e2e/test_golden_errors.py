"""What a real Spark says when it fails, in our codes.

The engine is the embedded one with the real catalog facade, without a door in front: each door has a test of
its own over the same table.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bailiwick.catalog.memory import MemoryBackend
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.embedded import EmbeddedEngine
from bailiwick.engines.engine import EngineSession
from bailiwick.engines.spark_connect import SparkConnectChannel
from bailiwick.errors import MEANINGS, BailiwickError, Code, Position
from bailiwick.identity.principal import ADMIN, READER, Principal
from bailiwick.ids import LeaseId, new_lease_id, new_operation_id
from bailiwick.policy.access import Access
from bailiwick.policy.model import Grant, Grantee, Policies, Privilege, Securable
from golden_errors import GOLDEN, SETUP, Golden

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ATTEMPTS_MAX = 8
READERS_READ = Policies(
    grants=(Grant("g", Grantee.role(READER), Securable("lake", ("golden",)), Privilege.SELECT),)
)


class OneHolder:
    """Every lease is this one person's."""

    def __init__(self) -> None:
        self.role = ADMIN

    def holder(self, session_handle: str, lease_id: LeaseId) -> Access | None:  # noqa: ARG002
        return Access(Principal("ann", frozenset({self.role})), READERS_READ)


class Lake:
    """An engine with its catalog, and two sessions in it."""

    def __init__(
        self, data_dir: Path, holder: OneHolder, sessions: tuple[EngineSession, EngineSession]
    ) -> None:
        self.data_dir = data_dir
        self.holder = holder
        self.sessions = sessions
        self.lease = new_lease_id()

    async def run(self, sql: str, session: int = 0) -> None:
        events = self.sessions[session].execute(sql, operation=new_operation_id(), lease=self.lease)
        async for _event in events:
            continue

    async def failure(self, sql: str, session: int = 0) -> BailiwickError:
        with pytest.raises(BailiwickError) as caught:
            await self.run(sql, session)
        return caught.value


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lake(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lake]:
    data_dir = tmp_path_factory.mktemp("golden")
    holder = OneHolder()
    started: list[EmbeddedEngine] = []
    facade = FacadeServer(
        CatalogService(MemoryBackend(), data_dir / "warehouse"),
        holder,
        "credential",
        stamp_key=lambda: started[0].stamp_key,
    )
    port = facade.start()
    try:
        engine = EmbeddedEngine(
            EngineConfig(memory="1g", master="local[2]"),
            data_dir,
            catalog_uri=f"http://127.0.0.1:{port}/iceberg",
            credential="credential",
            connect=SparkConnectChannel,
        )
        started.append(engine)
        async with engine:
            opened = Lake(data_dir, holder, (await engine.open_session(), await engine.open_session()))
            for sql in SETUP:
                await opened.run(sql)
            yield opened
    finally:
        await asyncio.to_thread(facade.stop)


def test_there_are_enough_cases_and_they_reach_every_code_of_a_statement() -> None:
    assert len(GOLDEN) >= 40
    assert len({golden.sql for golden in GOLDEN}) == len(GOLDEN)
    assert len({golden.code for golden in GOLDEN}) >= 14


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.sql[:60])
async def test_a_mistake_has_its_code_and_tells_nothing_of_the_machine(lake: Lake, golden: Golden) -> None:
    error = await lake.failure(golden.sql)
    assert (error.code, error.sqlstate[: len(golden.sqlstate)]) == (golden.code, golden.sqlstate)
    assert error.retryable is MEANINGS[golden.code].retryable
    assert error.message
    assert len(error.message) <= 2_000
    assert str(lake.data_dir) not in error.message
    assert not re.search(r"\bat [\w.$]+\(|org\.apache|SQLSTATE|^\[|#\d", error.message), error.message
    assert error.cause_text


async def test_the_place_of_a_mistake_is_counted_from_one(lake: Lake) -> None:
    error = await lake.failure("SELECT id,\n  nope\nFROM lake.golden.t")
    assert error.position is not None
    assert (error.position.line, error.position.column) == (2, 3)


async def test_a_syntax_error_shows_its_place_and_of_a_long_statement_the_lines_before_it(lake: Lake) -> None:
    short = await lake.failure("SELECT 1 +\n  1 ) oops")
    assert short.message == "Syntax error at or near ')'.\n== SQL ==\nSELECT 1 +\n  1 ) oops\n----^^^"
    long = await lake.failure("SELECT 1 +\n" + "  1 +\n" * 2_000 + "  1 ) oops")
    assert long.message == "Syntax error at or near ')'.\n" + "  1 +\n" * 10 + "  1 ) oops\n----^^^"
    assert long.position == Position(2002, 5)


async def test_one_of_two_changes_at_once_wins_and_the_other_may_be_retried(lake: Lake) -> None:
    sql = "UPDATE lake.golden.t SET name = concat(name, '!')"
    for _attempt in range(ATTEMPTS_MAX):
        outcomes = await asyncio.gather(lake.run(sql, 0), lake.run(sql, 1), return_exceptions=True)
        failures = [outcome for outcome in outcomes if outcome is not None]
        if failures:
            break
    [failure] = failures
    assert isinstance(failure, BailiwickError)
    assert (failure.code, failure.retryable) == (Code.COMMIT_CONFLICT, True)
    assert failure.message == MEANINGS[Code.COMMIT_CONFLICT].sentence


async def test_what_the_catalog_forbids_is_access_denied_in_its_own_words(lake: Lake) -> None:
    lake.holder.role = READER
    try:
        error = await lake.failure("DROP TABLE lake.golden.t")
    finally:
        lake.holder.role = ADMIN
    assert error.code is Code.ACCESS_DENIED
    assert "lacks drop on table lake.golden.t" in error.message
    assert not error.message.startswith("Forbidden")


async def test_a_data_file_that_is_gone_is_a_failure_of_the_storage(lake: Lake) -> None:
    await lake.run("CREATE TABLE lake.golden.gone AS SELECT id, CAST(id AS STRING) AS name FROM range(10)")
    for path in (lake.data_dir / "warehouse" / "golden").glob("gone*/data/*.parquet"):
        path.unlink()
    error = await lake.failure("SELECT sum(length(name)) FROM lake.golden.gone")
    assert (error.code, error.message) == (Code.STORAGE_ERROR, MEANINGS[Code.STORAGE_ERROR].sentence)
    assert ".parquet" in (error.cause_text or "")
