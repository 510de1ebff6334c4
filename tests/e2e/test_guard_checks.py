"""Rules are checked by what enforces them, and an engine that enforces nothing is not used."""

from pathlib import Path

import pytest
import pytest_asyncio
from guarded_lake import ORDERS, GuardedLake, guarded_lake

from bailiwick.catalog import canary
from bailiwick.engines import launch
from bailiwick.engines.canary import check_guard
from bailiwick.engines.config import EngineConfig
from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.access import Access
from bailiwick.policy.expressions import Checked, ExpressionKind
from bailiwick.policy.model import EMPTY
from bailiwick.testing.engine import RunningEngine, running_engine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TABLE = tuple(ORDERS.split("."))
CANARY = Access(canary.PRINCIPAL, EMPTY)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lake(running: RunningEngine) -> GuardedLake:
    return await guarded_lake(running)


async def checked(
    lake: GuardedLake, sql: str, kind: ExpressionKind = ExpressionKind.FILTER, value_type: str | None = None
) -> Checked:
    return await lake.session.check_expression(
        None if value_type else TABLE,
        kind,
        None,
        sql,
        value_type,
        lease=lake.running.leases.give(lake.session),
        timeout_s=60,
    )


async def test_a_check_tells_columns_tables_functions_and_type(lake: GuardedLake) -> None:
    found = await checked(
        lake,
        "lower(region) = 'eu' OR addr.city = 'Bern' OR EXISTS"
        " (SELECT 1 FROM lake.sales.allowed a WHERE a.who = current_user() AND a.region = orders.region)",
    )
    assert set(found.columns) == {"region", "addr.city"}
    assert found.tables == ("lake.sales.allowed",)
    assert {"lower", "current_user"} <= set(found.functions)
    assert found.type == "boolean"


async def test_masks_are_told_their_type(lake: GuardedLake) -> None:
    assert (await checked(lake, "sha2(ssn, 256)", ExpressionKind.MASK)).type == "string"
    found = await checked(lake, "CAST(value AS STRING)", ExpressionKind.MASK, "decimal(10, 2)")
    assert (found.columns, found.type) == (("value",), "string")


@pytest.mark.parametrize(
    ("sql", "code", "says"),
    [
        ("nowhere = 1", Code.COLUMN_NOT_FOUND, "nowhere"),
        ("region = ", Code.SYNTAX_ERROR, ""),
        ("region", Code.TYPE_MISMATCH, ""),
        ("no_such_function(region)", Code.INVALID_ARGUMENTS, "no_such_function"),
        ("lake.system.bucket(1, region) = 1", Code.INVALID_ARGUMENTS, "of Spark"),
        ("reflect('java.lang.System', 'exit') = region", Code.INVALID_ARGUMENTS, "reflect"),
        ("region IN (SELECT region FROM allowed)", Code.INVALID_ARGUMENTS, "in full"),
        ("region IN (SELECT region FROM sales.allowed)", Code.INVALID_ARGUMENTS, "in full"),
        ("region IN (SELECT region FROM lake.sales.nowhere)", Code.TABLE_NOT_FOUND, "nowhere"),
        ("rand() < 0.5", Code.INVALID_ARGUMENTS, "same way"),
        ("count(*) > 1", Code.SEMANTIC_ERROR, ""),
        ("row_number() OVER (ORDER BY id) = 1", Code.SEMANTIC_ERROR, ""),
        ("input_file_name() = ''", Code.INVALID_ARGUMENTS, "input_file_name"),
        ("value = 'x'", Code.COLUMN_NOT_FOUND, "value"),
        ("region = ?", Code.INVALID_ARGUMENTS, ""),
        ("_file = 'x'", Code.COLUMN_NOT_FOUND, "_file"),
    ],
)
async def test_what_cannot_be_a_rule_is_refused_with_a_reason(
    lake: GuardedLake, sql: str, code: Code, says: str
) -> None:
    with pytest.raises(BailiwickError) as caught:
        await checked(lake, sql)
    assert caught.value.code is code, caught.value
    assert says in caught.value.message


async def test_a_guarded_session_passes_the_canary(lake: GuardedLake) -> None:
    session = await lake.running.session()
    await check_guard(session, lake.running.leases.give(session, CANARY))


async def test_the_canarys_table_is_there_for_the_canary_alone(lake: GuardedLake) -> None:
    with pytest.raises(BailiwickError) as caught:
        await lake.rows("SELECT * FROM lake.bailiwick_canary.unstamped")
    assert caught.value.code is Code.TABLE_NOT_FOUND


async def test_an_engine_without_the_guard_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_EXTENSIONS", launch._EXTENSIONS[:1])
    async with running_engine(tmp_path, EngineConfig(memory="1g")) as engine:
        session = await engine.session()
        with pytest.raises(BailiwickError, match="guard is not at work") as caught:
            await check_guard(session, engine.leases.give(session, CANARY))
        assert caught.value.code is Code.CIRCUIT_BREAKER_OPEN
        assert not caught.value.retryable
