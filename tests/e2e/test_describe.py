"""Spark says what each statement of a long list is, and carries none of them out."""

import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
import pytest_asyncio

from bailiwick.engines.description import Description
from bailiwick.engines.engine import EngineSession
from bailiwick.errors import BailiwickError, Code
from bailiwick.names import TableName
from bailiwick.testing.engine import RunningEngine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TABLES = tomllib.loads(Path(__file__).with_name("describe_cases.toml").read_text(encoding="utf-8"))
SETUP = (
    "CREATE NAMESPACE lake.db",
    "CREATE TABLE lake.db.t (id BIGINT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP)",
    "INSERT INTO lake.db.t VALUES (1, 'a', 1.5, now())",
    "CREATE TABLE lake.db.u (id BIGINT, name STRING)",
    "CREATE VIEW lake.db.v AS SELECT id, s FROM lake.db.t WHERE id > 0",
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(running: RunningEngine) -> EngineSession:
    opened = await running.session()
    for statement in SETUP:
        await running.run(statement, opened)
    await opened.use("lake", ("db",), lease=running.leases.give(opened))
    return opened


async def described(running: RunningEngine, session: EngineSession, sql: str) -> Description:
    return await session.describe(sql, lease=running.leases.give(session), timeout_s=60)


@pytest.mark.parametrize("case", TABLES["case"], ids=lambda case: case["sql"][:60])
async def test_a_statement_is_what_the_table_says(
    running: RunningEngine, session: EngineSession, case: dict[str, Any]
) -> None:
    found = await described(running, session, case["sql"])
    told = {
        "sql": case["sql"],
        "kind": str(found.kind),
        "command": found.command,
        "reads": sorted(found.reads),
        "writes": sorted(found.writes),
        "functions": list(found.functions),
        "parameters": [parameter.type or "" for parameter in found.parameters],
        "dynamic": found.dynamic_names,
        "catalogs": sorted(found.catalogs),
        "deterministic": found.deterministic,
        "schema": shown(found.schema),
    }
    assert told == {**told, **NOTHING, "catalogs": catalogs_of(case), **case}


@pytest.mark.parametrize("case", TABLES["error"], ids=lambda case: case["sql"][:60] or "nothing")
async def test_a_statement_that_makes_no_sense_is_sparks_own_error(
    running: RunningEngine, session: EngineSession, case: dict[str, str]
) -> None:
    with pytest.raises(BailiwickError) as refused:
        await described(running, session, case["sql"])
    assert refused.value.code == case["code"]


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT " + "(" * 20_000 + "1" + ")" * 20_000, id="brackets"),
        pytest.param("SELECT " + "+".join(["1"] * 20_000), id="a long sum"),
        pytest.param("SELECT " + "- " * 10_000 + "1", id="signs"),
    ],
)
async def test_a_statement_that_is_too_deep_is_told_so_and_the_engine_lives(
    running: RunningEngine, session: EngineSession, sql: str
) -> None:
    with pytest.raises(BailiwickError) as refused:
        await described(running, session, sql)
    assert refused.value.code == Code.RESOURCE_EXHAUSTED
    assert session.is_settled


async def test_describing_changed_nothing(running: RunningEngine, session: EngineSession) -> None:
    """Last in this file: every statement above has been described by now."""
    assert running.engine.generation == 1
    assert running.catalog.tables() == (TableName(("db",), "t"), TableName(("db",), "u"))
    assert running.catalog.views() == (TableName(("db",), "v"),)
    assert running.catalog.namespaces() == (("db",),)
    u = await running.run("SELECT * FROM lake.db.u", session)
    assert u.num_rows == 0
    assert u.column_names == ["id", "name"]
    assert (await running.run("SELECT count(*) FROM lake.db.t", session)).to_pylist() == [{"count(1)": 1}]


READS = [case["sql"] for case in TABLES["case"] if case["kind"] in ("read", "shows") and case.get("schema")]


@pytest.mark.parametrize("sql", [sql for sql in READS if "?" not in sql])
async def test_the_schema_that_was_told_is_the_one_that_is_streamed(
    running: RunningEngine, session: EngineSession, sql: str
) -> None:
    found = await described(running, session, sql)
    assert found.schema is not None
    streamed = await running.run(sql, session)
    assert pyarrow.ipc.read_schema(pa.BufferReader(found.schema)).equals(streamed.schema)


NOTHING: dict[str, Any] = {"reads": [], "writes": [], "functions": [], "parameters": [], "dynamic": False}


def catalogs_of(case: dict[str, Any]) -> list[str]:
    """Unless a case names them, those of its tables and functions."""
    names = [
        *case.get("reads", []),
        *case.get("writes", []),
        *(f for f in case.get("functions", []) if "." in f),
    ]
    return sorted({name.partition(".")[0] for name in names})


def shown(schema: bytes | None) -> str:
    if schema is None:
        return ""
    fields = pyarrow.ipc.read_schema(pa.BufferReader(schema))
    return "; ".join(f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in fields)
