"""Statements about the gateway itself: which they are, what they may see, and what they cannot reach."""

import asyncio
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from bailiwick.engines.description import Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.abilities import Whose
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId, QueryId
from bailiwick.queries import sandbox as sandbox_module
from bailiwick.queries.query import Failure, Query, State
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.system_tables import (
    NODES_SCHEMA,
    QUERIES_SCHEMA,
    Node,
    SystemTables,
    nodes_table,
    queries_table,
)

ADMIN = Principal("root", frozenset({"admin"}))
ANN = Principal("ann", frozenset({"reader"}), "acme")
NOW = 1_800_000_000.0

HISTORY = [
    Query(
        QueryId("q1"),
        "ann",
        "acme",
        "flight_sql",
        "SELECT 1",
        created_at=NOW - 10,
        started_at=NOW - 9.5,
        finished_at=NOW - 9,
        state=State.FINISHED,
        kind=Kind.READ,
        node_id=NodeId("embedded"),
        rows=1,
        bytes=100,
    ),
    Query(
        QueryId("q2"),
        "bob",
        "acme",
        "flight_sql",
        "SELECT secret",
        created_at=NOW - 5,
        state=State.FAILED,
        failure=Failure(Code.COLUMN_NOT_FOUND, "no column secret"),
        finished_at=NOW - 4,
    ),
    Query(QueryId("q3"), "ann", "acme", "flight_sql", "SELECT 2", created_at=NOW - 1, queue_position=4),
]
EMBEDDED = Node(NodeId("embedded"), "embedded", "ready", "local[2]", cores=2, started_at=NOW - 100)


async def visible(whose: Whose) -> Sequence[Query]:
    return [query for query in HISTORY if whose.covers(query.principal, query.tenant)]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


@pytest.fixture
def tables(sandbox: Sandbox) -> SystemTables:
    return SystemTables(sandbox, [queries_table(visible, lambda: NOW), nodes_table(lambda: [EMBEDDED])])


async def ask(tables: SystemTables, sql: str, who: Principal = ADMIN) -> pa.Table:
    query = await tables.route(sql)
    assert query is not None, "it was left to Spark"
    return await asyncio.wait_for(tables.answer(query, who), 20)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT 'system.runtime.queries'",
        "SELECT 1 -- FROM system.runtime.queries",
        "SELECT * FROM lake.system.t",
        "SELECT * FROM system.t",
        "SELECT * FROM systems.runtime.queries",
        "SELECT * FORM system.runtime.queries",
        "INSERT INTO lake.a.b SELECT * FROM system.runtime.queries",
        "SELECT 1; SELECT * FROM system.runtime.queries",
        "SELECT * FROM (SELECT * FROM system.runtime.queries",
        "EXPLAIN SELECT * FROM system.runtime.queries",
        "",
        "system" + "(" * 100_000,
    ],
)
async def test_what_is_not_a_query_over_system_tables_is_left_to_spark(
    tables: SystemTables, sql: str
) -> None:
    assert await tables.route(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM system.runtime.queries",
        'select count(*) from SYSTEM.Runtime."QUERIES" where true -- comment',
        "SELECT count(*) FROM `system`.runtime.queries",
        "WITH q AS (SELECT * FROM system.runtime.queries) SELECT count(*) FROM q",
        "SELECT sum(n) FROM (SELECT 1 AS n FROM system.runtime.queries)",
        "SELECT count(system.runtime.queries.query_id) FROM system.runtime.queries;",
        "SELECT count(queries.query_id) FROM system.runtime.queries",
        "SELECT count(DISTINCT q.query_id) FROM system.runtime.queries q, range(5), (VALUES (1)) v(x)",
        "SELECT count(*) FROM system.runtime.queries q LEFT JOIN system.runtime.nodes n USING (node_id)",
    ],
)
async def test_queries_over_system_tables_are_answered_here(tables: SystemTables, sql: str) -> None:
    assert (await ask(tables, sql)).column(0).to_pylist() == [3]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM system.runtime.queries JOIN lake.a.b USING (query_id)",
        "SELECT * FROM system.runtime.queries WHERE EXISTS (SELECT 1 FROM orders)",
        "SELECT * FROM system.runtime.queries, duckdb_settings()",
        "SELECT * FROM system.runtime.queries, read_csv('/etc/passwd')",
        "SELECT * FROM system.runtime.queries, '/etc/passwd'",
        "SELECT * FROM system.runtime.queries, query('SELECT 1')",
        "SELECT * FROM system.runtime.queries, information_schema.more.tables",
        "SELECT * FROM system.runtime.queries, (DESCRIBE system.runtime.nodes)",
        "DESCRIBE system.runtime.queries",
        "SELECT current_setting('memory_limit') FROM system.runtime.queries",
        "SELECT write_log(sql) FROM system.runtime.queries",
    ],
)
async def test_a_mixture_with_anything_else_is_not_supported(tables: SystemTables, sql: str) -> None:
    with pytest.raises(BailiwickError) as refused:
        await tables.route(sql)
    assert refused.value.code is Code.NOT_SUPPORTED


async def test_an_unknown_system_table_is_named(tables: SystemTables) -> None:
    with pytest.raises(BailiwickError, match=r"There is no table system\.runtime\.secrets") as refused:
        await tables.route("SELECT * FROM system.runtime.secrets")
    assert refused.value.code is Code.TABLE_NOT_FOUND


@pytest.mark.parametrize(
    ("role", "tenant", "seen"),
    [
        ("reader", "acme", ["q1", "q3"]),
        ("reader", "globex", []),
        ("operator", "acme", ["q1", "q2", "q3"]),
        ("operator", "globex", []),
        ("auditor", "globex", ["q1", "q2", "q3"]),
        ("admin", "globex", ["q1", "q2", "q3"]),
    ],
)
async def test_roles_and_tenants_say_whose_queries_are_there(
    tables: SystemTables, role: str, tenant: str, seen: list[str]
) -> None:
    ann = Principal("ann", frozenset({role}), tenant)
    sql = "SELECT query_id FROM system.runtime.queries ORDER BY 1"
    assert (await ask(tables, sql, ann)).column(0).to_pylist() == seen
    count = "SELECT count(*) FROM system.runtime.queries"
    assert (await ask(tables, count, ann)).column(0).to_pylist() == [len(seen)]


@pytest.mark.parametrize(
    ("who", "message"),
    [
        (Principal("bob", frozenset({"reader"}), "acme"), "no column secret"),
        (Principal("olga", frozenset({"operator"}), "acme"), None),
        (Principal("aude", frozenset({"auditor"})), None),
        (ADMIN, "no column secret"),
    ],
)
async def test_messages_which_may_quote_data_are_for_the_owner_and_for_admins(
    tables: SystemTables, who: Principal, message: str | None
) -> None:
    sql = "SELECT error_code, error_message FROM system.runtime.queries WHERE query_id = 'q2'"
    assert (await ask(tables, sql, who)).to_pylist() == [
        {"error_code": "COLUMN_NOT_FOUND", "error_message": message}
    ]


@pytest.mark.parametrize("role", ["operator", "auditor", "admin"])
async def test_nodes_are_there_for_those_who_look_after_them(tables: SystemTables, role: str) -> None:
    sql = "SELECT * FROM system.runtime.nodes"
    assert (await ask(tables, sql, ANN)).to_pylist() == []
    (row,) = (await ask(tables, sql, Principal("ops", frozenset({role}), "acme"))).to_pylist()
    assert (row["node_id"], row["state"], row["cores"], row["version"]) == ("embedded", "ready", 2, None)


async def test_columns_and_types_are_the_promised_ones(tables: SystemTables) -> None:
    for name, schema in (("queries", QUERIES_SCHEMA), ("nodes", NODES_SCHEMA)):
        query = await tables.route(f"SELECT * FROM system.runtime.{name}")
        assert query is not None
        assert (await tables.schema(query)).equals(schema)
        assert (await tables.answer(query, ADMIN)).schema.equals(schema)


async def test_a_query_is_shown_with_its_times_and_its_error(tables: SystemTables) -> None:
    sql = "SELECT * FROM system.runtime.queries ORDER BY query_id"
    first, second, third = (await ask(tables, sql)).to_pylist()
    assert (first["elapsed_ms"], first["rows"], first["kind"]) == (1000.0, 1, "read")
    assert first["created_at"].timestamp() == NOW - 10
    assert (second["error_code"], second["error_message"]) == ("COLUMN_NOT_FOUND", "no column secret")
    assert (third["state"], third["queue_position"], third["elapsed_ms"]) == ("queued", 4, 1000.0)


async def test_a_schema_can_be_had_without_an_answer(tables: SystemTables) -> None:
    query = await tables.route(
        "SELECT count(*) AS n, max(created_at) AS t, NULL AS x FROM system.runtime.queries"
    )
    assert query is not None
    schema = await tables.schema(query)
    assert schema == pa.schema({"n": pa.int64(), "t": pa.timestamp("us", "UTC"), "x": pa.string()})
    assert (await tables.answer(query, ADMIN)).schema == schema


async def test_answers_have_types_that_clients_read(tables: SystemTables) -> None:
    sql = (
        "SELECT NULL AS a, 'x'::ENUM('x') AS b, INTERVAL 1 DAY AS c, now() AS d, sum(rows) AS e "
        "FROM system.runtime.queries"
    )
    schema = (await ask(tables, sql)).schema
    assert schema == pa.schema(
        {
            "a": pa.string(),
            "b": pa.string(),
            "c": pa.string(),
            "d": pa.timestamp("us", "UTC"),
            "e": pa.decimal128(38, 0),
        }
    )


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT nothing FROM system.runtime.queries", Code.COLUMN_NOT_FOUND),
        ("SELECT nothing(1) FROM system.runtime.queries", Code.FUNCTION_NOT_FOUND),
        ("SELECT sql::INT FROM system.runtime.queries", Code.INVALID_CAST),
        ("SELECT state FROM system.runtime.queries GROUP BY sql", Code.SEMANTIC_ERROR),
        ("SELECT error('boo') FROM system.runtime.queries", Code.INVALID_ARGUMENTS),
        ("SELECT ? FROM system.runtime.queries", Code.INVALID_ARGUMENTS),
    ],
)
async def test_mistakes_have_our_codes(tables: SystemTables, sql: str, code: Code) -> None:
    with pytest.raises(BailiwickError) as failed:
        await ask(tables, sql)
    assert failed.value.code is code
    assert "Error:" not in failed.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM HISTORY",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM read_parquet('http://127.0.0.1/x')",
    ],
)
async def test_inside_there_is_no_way_out(sandbox: Sandbox, sql: str) -> None:
    """Routing refuses these before; this is what holds if it ever does not."""
    tree = await sandbox.parse(sql)
    assert tree is not None
    with pytest.raises(BailiwickError) as refused:
        await sandbox.query(tree, {("system_runtime", "queries"): QUERIES_SCHEMA.empty_table()})
    assert refused.value.code in (Code.ACCESS_DENIED, Code.TABLE_NOT_FOUND)
    assert "/root" not in refused.value.message


@pytest.mark.parametrize(
    "sql", ["SET threads = 8", "ATTACH 'x.db'", "INSTALL httpfs", "LOAD json", "PRAGMA version", "CALL x()"]
)
async def test_only_queries_get_in(sandbox: Sandbox, sql: str) -> None:
    assert await sandbox.parse(sql) is None


async def test_settings_cannot_be_changed_by_functions_either(sandbox: Sandbox) -> None:
    tree = await sandbox.parse("SELECT set_config('threads', '8', false)")
    assert tree is not None
    with pytest.raises(BailiwickError):
        await sandbox.query(tree, {})


async def test_a_statement_that_takes_too_long_is_interrupted_and_frees_its_thread(
    tables: SystemTables, sandbox: Sandbox
) -> None:
    endless = "SELECT count(*) FROM system.runtime.queries, range(1000000000000) r(x) WHERE x % 7 = 3"
    for _ in range(sandbox_module.THREADS + 1):
        query = await tables.route(endless)
        assert query is not None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(tables.answer(query, ADMIN), 0.2)
    started = time.monotonic()
    await ask(tables, "SELECT 1 FROM system.runtime.nodes")
    assert time.monotonic() - started < 5


async def test_memory_is_bounded(tables: SystemTables) -> None:
    greedy = "SELECT * FROM system.runtime.nodes, range(1000000000) r(x) ORDER BY hash(x)"
    with pytest.raises(BailiwickError) as refused:
        await ask(tables, greedy)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED


async def test_an_endless_answer_is_refused(tables: SystemTables) -> None:
    with pytest.raises(BailiwickError, match="more than") as refused:
        await ask(tables, "SELECT x FROM system.runtime.nodes, range(100000000) r(x)")
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert refused.value.retryable is False
