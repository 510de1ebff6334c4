"""What browsing tools are told of a table is what Spark streams of it, for every type that Spark can make."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
import pytest_asyncio

from bailiwick.catalog.arrow import sql_type
from bailiwick.catalog.inventory import Inventory
from bailiwick.doors.flight_sql import sql_info
from bailiwick.doors.flight_sql.commands import TablesQuery
from bailiwick.doors.flight_sql.lookups import Lookups
from bailiwick.doors.flight_sql.type_info import TYPES
from bailiwick.engines.engine import EngineSession
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.queries.information_schema import information_schema
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.system_tables import SystemTables
from bailiwick.testing.engine import RunningEngine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ANN = Principal("ann", frozenset({ADMIN}))

NUMBERS = itertools.count()
TYPE_NAMES = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(1,0)",
    "DECIMAL(10,2)",
    "DECIMAL(38,18)",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "STRING",
    "CHAR(3)",
    "VARCHAR(10)",
    "BINARY",
    "ARRAY<INT>",
    "ARRAY<ARRAY<STRING>>",
    "MAP<STRING, INT>",
    "MAP<INT, ARRAY<STRUCT<a: DATE>>>",
    "STRUCT<a: INT>",
    "STRUCT<a: INT NOT NULL, `b c`: STRUCT<d: TIMESTAMP NOT NULL, e: BINARY>>",
    "STRUCT<`ü`: STRING COMMENT 'umlaut'>",
)
TYPE_NAMES_OF_V3 = ("VARIANT", "ARRAY<VARIANT>", "STRUCT<v: VARIANT NOT NULL>", "VOID")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(running: RunningEngine) -> EngineSession:
    opened = await running.session()
    for namespace in ("types", "types.nested", "views"):
        await running.run(f"CREATE NAMESPACE lake.{namespace}", opened)
    return opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tables(running: RunningEngine) -> AsyncIterator[SystemTables]:
    sandbox, inventory = Sandbox(), Inventory(running.catalog)
    yield SystemTables(sandbox, information_schema(inventory, dict))
    sandbox.close()
    inventory.close()


async def announced(running: RunningEngine, schema: str, table: str) -> pa.Schema:
    """What GetTables says of it."""
    answer = await Lookups(Inventory(running.catalog)).answer(
        ANN, TablesQuery("lake", schema, table, (), include_schema=True)
    )
    (message,) = answer.column("table_schema").to_pylist()
    return pyarrow.ipc.read_schema(pa.py_buffer(message))


async def told(tables: SystemTables, sql: str) -> list[tuple[Any, ...]]:
    query = await tables.route(sql)
    assert query is not None
    return [tuple(row.values()) for row in (await tables.answer(query, ANN)).to_pylist()]


async def make(running: RunningEngine, session: EngineSession, name: str, *columns: str) -> None:
    await running.run(
        f"CREATE TABLE lake.types.{name} ({', '.join(columns)}) TBLPROPERTIES ('format-version' = '3')",
        session,
    )


@pytest.mark.parametrize("type_", [*TYPE_NAMES, *TYPE_NAMES_OF_V3, "STRING COLLATE UTF8_LCASE"])
async def test_a_type_is_announced_as_it_is_streamed(
    running: RunningEngine, session: EngineSession, type_: str
) -> None:
    name = f"t{next(NUMBERS)}"
    required = () if "VOID" in type_ else (f"b {type_} NOT NULL",)
    await make(running, session, name, f"a {type_} COMMENT 'the first'", *required)
    streamed = await running.run(f"SELECT * FROM lake.types.{name}", session)
    found = await announced(running, "types", name)
    assert found.equals(streamed.schema), f"{found}\n{streamed.schema}"
    assert found.field("a").metadata[b"ARROW:FLIGHT:SQL:REMARKS"] == b"the first"


@pytest.mark.parametrize("type_", ["TIME", "GEOMETRY(4326)", "GEOGRAPHY(4326)", "INTERVAL DAY TO SECOND"])
async def test_there_are_no_other_types_to_announce(
    running: RunningEngine, session: EngineSession, type_: str
) -> None:
    """If one of these can be made some day, the test above must know of it."""
    with pytest.raises(BailiwickError) as refused:
        await make(running, session, "none", f"a {type_}")
    assert refused.value.code is Code.NOT_SUPPORTED


async def test_a_view_is_announced_as_it_is_streamed(running: RunningEngine, session: EngineSession) -> None:
    columns = [f"c{number} {type_}" for number, type_ in enumerate(TYPE_NAMES)]
    await make(running, session, "base", *columns, "n INT NOT NULL")
    for name, query in {
        "all_of_it": "SELECT * FROM lake.types.base",
        "computed": "SELECT n + 1 AS a, count(*) AS b, cast(1 AS TINYINT) AS c, 'x' AS d, uuid() AS e, "
        "array(1, 2) AS f, now() AS g, coalesce(n, 1) AS h FROM lake.types.base GROUP BY n",
    }.items():
        await running.run(f"CREATE VIEW lake.views.{name} AS {query}", session)
        streamed = await running.run(f"SELECT * FROM lake.views.{name}", session)
        found = await announced(running, "views", name)
        assert found.equals(streamed.schema), f"{found}\n{streamed.schema}"


async def test_columns_that_changed_are_announced_as_they_are_now(
    running: RunningEngine, session: EngineSession
) -> None:
    await make(running, session, "moving", "a INT", "b STRING")
    before = await announced(running, "types", "moving")
    await running.run("ALTER TABLE lake.types.moving ADD COLUMN c DATE FIRST", session)
    await running.run("ALTER TABLE lake.types.moving ALTER COLUMN a TYPE BIGINT", session)
    streamed = await running.run("SELECT * FROM lake.types.moving", session)
    after = await announced(running, "types", "moving")
    assert before.names == ["a", "b"]
    assert after.equals(streamed.schema)


async def test_spark_understands_the_types_that_the_information_schema_names(
    running: RunningEngine, session: EngineSession, tables: SystemTables
) -> None:
    columns = [f"c{number} {type_}" for number, type_ in enumerate((*TYPE_NAMES, *TYPE_NAMES_OF_V3))]
    await make(running, session, "every", *columns)
    rows = await told(
        tables,
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'types' AND table_name = 'every' ORDER BY ordinal_position",
    )
    assert len(rows) == len(columns)
    casts = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in rows)
    again = await running.run(f"SELECT {casts}", session)
    streamed = await running.run("SELECT * FROM lake.types.every", session)
    assert [sql_type(type_) for type_ in again.schema.types] == [type_ for _, type_ in rows]
    assert again.schema.types == streamed.schema.types


async def test_a_view_is_told_with_its_text_and_a_nested_schema_with_its_dots(
    running: RunningEngine, session: EngineSession, tables: SystemTables
) -> None:
    await running.run("CREATE VIEW lake.types.nested.one AS SELECT 1 AS x", session)
    sql = "SELECT table_schema, view_definition FROM information_schema.views WHERE table_name = 'one'"
    assert await told(tables, sql) == [("types.nested", "SELECT 1 AS x")]


async def test_the_words_that_drivers_are_told_are_sparks(
    running: RunningEngine, session: EngineSession
) -> None:
    words = sql_info.spark_sql()
    keywords = await running.run("SELECT keyword FROM sql_keywords()", session)
    assert set(words["keywords"]) <= set(keywords.column(0).to_pylist())
    functions = set((await running.run("SHOW SYSTEM FUNCTIONS", session)).column(0).to_pylist())
    # These two are part of the grammar, as in the standard, and in no list of functions.
    await running.run("SELECT timestampadd(DAY, 1, now()), timestampdiff(DAY, now(), now())", session)
    functions |= {"timestampadd", "timestampdiff"}
    for kind in ("numeric_functions", "string_functions", "datetime_functions", "system_functions"):
        assert set(words[kind]) <= functions, kind


@pytest.mark.parametrize("info", TYPES, ids=lambda info: info.type_name)
async def test_spark_has_the_types_that_drivers_are_told(
    running: RunningEngine, session: EngineSession, info: Any
) -> None:
    parameters = {
        "DECIMAL": "(10, 2)",
        "CHAR": "(3)",
        "VARCHAR": "(3)",
        "ARRAY": "<INT>",
        "MAP": "<INT, INT>",
        "STRUCT": "<a: INT>",
    }
    name = info.type_name + parameters.get(info.type_name, "")
    answer = await running.run(f"SELECT CAST(NULL AS {name}) AS x", session)
    assert answer.num_rows == 1
