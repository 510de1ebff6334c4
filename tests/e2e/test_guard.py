"""What the guard lets through and what it refuses, statement by statement, in a real Spark."""

from dataclasses import replace

import pytest
import pytest_asyncio
from guarded_lake import (
    EU_ONLY,
    LAST_FOUR,
    ORDERS,
    WRITER,
    GuardedLake,
    anna,
    guarded_lake,
    mask,
    row_filter,
    tag_mask,
    tagged,
)

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.model import Privilege, Securable
from bailiwick.testing.engine import RunningEngine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

RESTRICTED = anna(EU_ONLY, LAST_FOUR)
FILTERED_WRITER = anna(EU_ONLY, privileges=WRITER)
ENTITLED = row_filter(
    "EXISTS (SELECT 1 FROM lake.sales.allowed a WHERE a.who = current_user() AND a.region = orders.region)",
    "region",
    name="entitled",
    tables=("lake.sales.allowed",),
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lake(running: RunningEngine) -> GuardedLake:
    return await guarded_lake(running)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id, ssn FROM {ORDERS}",
        "SELECT id, ssn FROM lake.sales.seen",
        f"SELECT a.id, b.ssn FROM {ORDERS} a JOIN {ORDERS} b ON a.id = b.id",
        f"WITH c AS (SELECT * FROM {ORDERS}) SELECT x.id, y.ssn FROM c x JOIN c y USING (id)",
        f"SELECT id, (SELECT max(i.ssn) FROM {ORDERS} i WHERE i.id = o.id) FROM {ORDERS} o",
        f"SELECT id, ssn FROM {ORDERS} WHERE id IN (SELECT id FROM {ORDERS})",
        f"SELECT id, ssn FROM {ORDERS} TIMESTAMP AS OF now()",
        f"FROM {ORDERS} |> SELECT id, ssn",
        f"EXECUTE IMMEDIATE 'SELECT id, ssn FROM {ORDERS}'",
        f"SELECT id, ssn FROM {ORDERS} UNION SELECT id, ssn FROM {ORDERS}",
        f"SELECT o.id, s FROM {ORDERS} o, LATERAL (SELECT o.ssn) AS x(s)",
    ],
)
async def test_hidden_rows_and_values_stay_hidden(lake: GuardedLake, sql: str) -> None:
    assert sorted(await lake.rows(sql, RESTRICTED)) == [(1, "***1111"), (3, "***3333")]


async def test_recursive_queries_see_what_others_see(lake: GuardedLake) -> None:
    sql = (
        "WITH RECURSIVE r(n, s) AS (SELECT id, ssn FROM lake.sales.orders WHERE id = 1 UNION ALL"
        " SELECT o.id, o.ssn FROM r JOIN lake.sales.orders o ON o.id > r.n)"
        " SELECT n, min(s) FROM r GROUP BY n"
    )
    assert sorted(await lake.rows(sql, RESTRICTED)) == [(1, "***1111"), (3, "***3333")]
    assert len(await lake.rows(sql)) == 3


async def test_one_without_rules_sees_the_whole_table(lake: GuardedLake) -> None:
    assert await lake.rows(f"SELECT count(*), min(ssn) FROM {ORDERS}", anna()) == [(3, "111-11-1111")]


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id FROM {ORDERS} WHERE raise_error(concat('seen ', region, ssn)) IS NULL",
        f"SELECT id FROM {ORDERS} WHERE cast(ssn AS INT) = 1",
        f"SELECT raise_error(owner) FROM {ORDERS} WHERE id = 2",
        f"SELECT id FROM {ORDERS} WHERE 1 / (amount - 2.5) > 0 AND raise_error(ssn) IS NULL",
    ],
)
@pytest.mark.parametrize("rule", [EU_ONLY, ENTITLED, row_filter("hash(region) = hash('EU')", "region")])
async def test_errors_tell_nothing_of_hidden_rows(lake: GuardedLake, sql: str, rule: object) -> None:
    try:
        await lake.rows(sql, anna(rule, LAST_FOUR))  # type: ignore[arg-type]
    except BailiwickError as error:
        told = f"{error.message} {error.cause_text}"
        assert not any(hidden in told for hidden in ("seen US", "bob", "2222", "111-11-", "333-33-")), told


async def test_current_user_is_the_one_who_asks(lake: GuardedLake) -> None:
    assert await lake.rows("SELECT current_user(), session_user", anna()) == [("anna", "anna")]


async def test_a_rule_reads_its_own_tables_which_the_reader_may_not(lake: GuardedLake) -> None:
    access = anna(ENTITLED)
    assert sorted(await lake.rows(f"SELECT id FROM {ORDERS}", access)) == [(1,), (3,)]
    with pytest.raises(BailiwickError) as caught:
        await lake.rows("SELECT * FROM lake.sales.allowed", access)
    assert caught.value.code is Code.TABLE_NOT_FOUND


async def test_what_a_rule_reads_is_not_said_to_be_read(lake: GuardedLake) -> None:
    lease = lake.running.leases.give(lake.session, anna(ENTITLED))
    described = await lake.session.describe(f"SELECT id FROM {ORDERS}", lease=lease, timeout_s=60)
    assert described.reads == (ORDERS,)
    assert described.deterministic


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"SELECT _file FROM {ORDERS}", "restricted"),
        (f"SELECT * FROM {ORDERS}.snapshots", "restricted"),
        (f"SELECT * FROM {ORDERS}.files", "restricted"),
        (f"SELECT * FROM {ORDERS}.changes", "restricted"),
        (f"SELECT id FROM {ORDERS} WITH ('scan-task-set-id' = 'x')", "restricted"),
        (f"DESCRIBE EXTENDED {ORDERS}", "restricted"),
        (f"SHOW TBLPROPERTIES {ORDERS}", "restricted"),
        (f"SHOW CREATE TABLE {ORDERS}", "restricted"),
        (f"EXPLAIN COST SELECT * FROM {ORDERS}", "restricted"),
        (f"EXPLAIN CODEGEN SELECT * FROM {ORDERS}", "restricted"),
        (f"INSERT INTO {ORDERS} SELECT * FROM {ORDERS}", "privilege"),
        (f"DELETE FROM {ORDERS} WHERE id = 1", "privilege"),
        (f"TRUNCATE TABLE {ORDERS}", "privilege"),
        ("SELECT reflect('java.lang.System', 'getProperty', 'user.home')", "not_allowed"),
        ("SELECT * FROM VALUES (java_method('java.lang.System', 'getProperty', 'user.home'))", "not_allowed"),
        ("SELECT input_file_name() FROM lake.sales.open", "not_allowed"),
        ("SELECT input_file_block_start() FROM lake.sales.open", "not_allowed"),
        (f"SELECT TRANSFORM(id) USING 'cat' FROM {ORDERS}", "not_allowed"),
        ("CALL lake.system.expire_snapshots('sales.orders')", "not_allowed"),
        ("EXPLAIN CALL lake.system.expire_snapshots('sales.orders')", "not_allowed"),
        ("SET spark.sql.ansi.enabled = false", "not_allowed"),
        ("CREATE TEMPORARY VIEW x AS SELECT 1", "not_allowed"),
        (f"CACHE TABLE {ORDERS}", "not_allowed"),
        ("SHOW TABLE EXTENDED IN lake.sales LIKE '*'", "not_allowed"),
        ("ADD JAR 'x.jar'", "not_allowed"),
        ("CREATE TABLE spark_catalog.default.x (a INT) USING parquet", "not_allowed"),
    ],
)
async def test_what_would_tell_more_is_refused(lake: GuardedLake, sql: str, reason: str) -> None:
    assert await lake.refusal(sql, RESTRICTED) == reason


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM lake.sales.open.snapshots",
        "SELECT count(DISTINCT _file) > 0 FROM lake.sales.open",
        "DESCRIBE EXTENDED lake.sales.open",
        "SHOW CREATE TABLE lake.sales.open",
        "EXPLAIN COST SELECT * FROM lake.sales.open",
        f"DESCRIBE {ORDERS}",
        f"DESCRIBE QUERY SELECT * FROM {ORDERS}",
        f"SHOW COLUMNS IN {ORDERS}",
        "SHOW TABLES IN lake.sales",
        "SHOW FUNCTIONS LIKE 'sha*'",
    ],
)
async def test_what_tells_no_more_than_is_seen_is_allowed(lake: GuardedLake, sql: str) -> None:
    assert await lake.rows(sql, RESTRICTED)


@pytest.mark.parametrize("mode", ["", "EXTENDED", "FORMATTED"])
async def test_an_explanation_names_rules_and_tells_nothing_of_them(lake: GuardedLake, mode: str) -> None:
    shown = (await lake.rows(f"EXPLAIN {mode} SELECT id, ssn FROM {ORDERS}", RESTRICTED))[0][0]
    assert "<policy eu_only>" in shown
    assert "<policy last_four>" in shown
    for hidden in ("'EU'", "= EU", "***", "right(", "allowed", "snapshotId=6", "file:"):
        assert hidden not in shown
    assert "snapshotId=<hidden>" in shown


async def test_a_missing_privilege_is_named(lake: GuardedLake) -> None:
    access = anna(privileges=(Privilege.INSERT,))
    with pytest.raises(BailiwickError, match=r"lack the privilege SELECT on lake\.sales\.orders"):
        await lake.rows(f"SELECT * FROM {ORDERS}", access)


async def test_a_rule_that_cannot_be_applied_says_nothing_but_that(lake: GuardedLake) -> None:
    for rule in (row_filter("nowhere = 1", "nowhere"), row_filter("region = 'EU'"), row_filter("rand() > 2")):
        with pytest.raises(BailiwickError) as caught:
            await lake.rows(f"SELECT * FROM {ORDERS}", anna(rule))
        assert caught.value.code is Code.ACCESS_DENIED
        assert caught.value.details["reason"] == "policy"
        assert not any(word in caught.value.message for word in ("nowhere", "region", "rand"))


async def test_a_rule_that_fails_on_a_row_hides_it(lake: GuardedLake) -> None:
    rule = row_filter("cast(ssn AS INT) > 0 OR region = 'EU'", "ssn", "region")
    assert await lake.rows(f"SELECT * FROM {ORDERS}", anna(rule)) == []


async def test_masks_reach_into_structs_and_not_null_columns(lake: GuardedLake) -> None:
    access = anna(
        mask("id", "NULL", name="no_id"),
        mask("addr.zip.a", "upper(concat(addr.zip.a, addr.city))", "addr.zip.a", "addr.city", name="zip"),
    )
    rows = await lake.rows(f"SELECT id, addr FROM {ORDERS} WHERE id IS NULL ORDER BY region, owner", access)
    assert rows == [
        (None, {"city": "Bern", "zip": {"a": "XBERN", "b": 1}}),
        (None, None),
        (None, {"city": "Boston", "zip": {"a": "YBOSTON", "b": 2}}),
    ]


async def test_a_mask_may_hide_a_field_that_is_never_null(lake: GuardedLake) -> None:
    await lake.rows("CREATE TABLE lake.sales.sure (s STRUCT<a: STRING NOT NULL, b: INT NOT NULL> NOT NULL)")
    await lake.rows("INSERT INTO lake.sales.sure VALUES (named_struct('a', 'x', 'b', 1))")
    rules = (
        replace(mask("s.a", "NULL", name="no_a"), on=Securable.parse("lake.sales.sure")),
        replace(mask("s.b", "NULL", name="no_b"), on=Securable.parse("lake.sales.sure")),
    )
    access = anna(*rules, tables=("sure",))
    assert await lake.rows("SELECT s.a, s.b + 1, s FROM lake.sales.sure", access) == [
        (None, None, {"a": None, "b": None})
    ]
    assert await lake.rows("SELECT count(*) FROM lake.sales.sure WHERE s.a IS NULL", access) == [(1,)]


async def test_a_masked_field_may_be_null_where_the_field_may(lake: GuardedLake) -> None:
    access = anna(mask("addr.zip.a", "'hidden'", name="zip"))
    batches = await lake.tables(f"SELECT addr FROM {ORDERS} ORDER BY id", access)
    for batch in batches:
        assert batch.schema.field("addr").type.field("zip").type.field("a").nullable
    assert [row["addr"] for batch in batches for row in batch.to_pylist()] == [
        {"city": "Bern", "zip": {"a": "hidden", "b": 1}},
        {"city": "Boston", "zip": {"a": "hidden", "b": 2}},
        None,
    ]


async def test_masks_by_tag_know_the_column_as_value(lake: GuardedLake) -> None:
    access = anna(
        tag_mask("concat('<', CAST(value AS STRING), '>')"),
        tagged("owner"),
        tagged("addr.city"),
        tagged("ssn"),
    )
    rows = await lake.rows(f"SELECT owner, ssn, addr.city FROM {ORDERS} WHERE id = 1", access)
    assert rows == [("<anna>", "<111-11-1111>", "<Bern>")]


async def test_fields_and_columns_are_masked_side_by_side(lake: GuardedLake) -> None:
    await lake.rows("CREATE TABLE lake.sales.sides (s STRUCT<a: STRING, b: STRING>, t STRING)")
    await lake.rows("INSERT INTO lake.sales.sides VALUES (named_struct('a', 'x', 'b', 'y'), 'z')")
    on = Securable.parse("lake.sales.sides")
    rules = [
        replace(mask(column, "'m'", name=column), on=on, name=f"m{number}")
        for number, column in enumerate(("s.a", "s.b", "t"))
    ]
    access = anna(*rules, tables=("sides",))
    assert await lake.rows("SELECT s, t FROM lake.sales.sides", access) == [({"a": "m", "b": "m"}, "m")]


async def test_user_predicates_prune_below_the_barrier(lake: GuardedLake) -> None:
    await lake.rows("CREATE TABLE lake.sales.parts (id INT, region STRING) PARTITIONED BY (id)")
    await lake.rows("INSERT INTO lake.sales.parts VALUES (1, 'EU'), (2, 'EU'), (3, 'US'), (4, 'EU')")
    rule = row_filter("region = 'EU'", "region")
    access = anna(replace(rule, on=Securable.parse("lake.sales.parts")), tables=("parts",))
    assert await lake.rows("SELECT id FROM lake.sales.parts WHERE id = 2", access) == [(2,)]
    assert await lake.rows("SELECT id FROM lake.sales.parts WHERE id IN (2, 3)", access) == [(2,)]
    assert await lake.rows("SELECT id FROM lake.sales.parts WHERE id = 3 OR id IS NULL", access) == []
    # Who reads a file that is gone, fails: so this shows that it is not read.
    for file in lake.running.directory.glob("warehouse/sales/parts-*/data/id=4/*.parquet"):
        file.unlink()
    assert await lake.rows("SELECT id FROM lake.sales.parts WHERE NOT (id = 4 OR id IS NULL)", access)
    with pytest.raises(BailiwickError):
        await lake.rows("SELECT id FROM lake.sales.parts", access)


async def test_inserted_rows_must_be_ones_that_the_writer_could_see(lake: GuardedLake) -> None:
    await lake.rows(f"INSERT INTO {ORDERS} SELECT 10, 'EU', 'x', 'y', 1, null", FILTERED_WRITER)
    assert await lake.rows(f"SELECT id FROM {ORDERS} WHERE id = 10", FILTERED_WRITER) == [(10,)]
    hidden = f"INSERT INTO {ORDERS} VALUES (11, 'EU', 'x', 'y', 1, null), (12, 'US', 'x', 'y', 1, null)"
    assert await lake.refusal(hidden, FILTERED_WRITER) == "row"
    merge = (
        f"MERGE INTO {ORDERS} o USING (SELECT 13L AS id) s ON o.id = s.id"
        " WHEN NOT MATCHED THEN INSERT (id, region) VALUES (s.id, '{}')"
    )
    assert await lake.refusal(merge.format("US"), FILTERED_WRITER) == "row"
    await lake.rows(merge.format("EU"), FILTERED_WRITER)
    await lake.rows(f"DELETE FROM {ORDERS} WHERE id >= 10")
    assert await lake.rows(f"SELECT count(*) FROM {ORDERS}") == [(3,)]


@pytest.mark.parametrize(
    "sql",
    [
        f"INSERT OVERWRITE {ORDERS} SELECT 1, 'EU', 'x', 'y', 1, null",
        f"DELETE FROM {ORDERS}",
        f"DELETE FROM {ORDERS} WHERE region = 'EU'",
        f"UPDATE {ORDERS} SET owner = 'x' WHERE id = 1",
        f"TRUNCATE TABLE {ORDERS}",
        f"MERGE INTO {ORDERS} o USING lake.sales.open s ON o.id = s.id WHEN MATCHED THEN DELETE",
        f"MERGE INTO {ORDERS} o USING lake.sales.open s ON o.id = s.id WHEN MATCHED THEN UPDATE SET ssn = ''",
    ],
)
async def test_rows_of_a_table_that_is_seen_in_part_are_not_changed(lake: GuardedLake, sql: str) -> None:
    assert await lake.refusal(sql, FILTERED_WRITER) == "restricted"


async def test_changes_of_other_tables_may_read_what_is_seen(lake: GuardedLake) -> None:
    await lake.rows(
        f"MERGE INTO lake.sales.open t USING {ORDERS} o ON o.id = t.id"
        " WHEN MATCHED THEN UPDATE SET note = o.region WHEN NOT MATCHED THEN INSERT (id, note)"
        " VALUES (o.id, o.region)",
        FILTERED_WRITER,
    )
    assert sorted(await lake.rows("SELECT * FROM lake.sales.open")) == [(1, "EU"), (2, "b"), (3, "EU")]
    await lake.rows(f"DELETE FROM lake.sales.open WHERE id IN (SELECT id FROM {ORDERS})", FILTERED_WRITER)
    assert await lake.rows("SELECT * FROM lake.sales.open") == [(2, "b")]
    await lake.rows("INSERT INTO lake.sales.open VALUES (1, 'a')")


@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        ("INSERT INTO lake.sales.open VALUES (9, 'x')", Privilege.INSERT),
        ("UPDATE lake.sales.open SET note = 'x' WHERE id = 1", Privilege.UPDATE),
        ("DELETE FROM lake.sales.open WHERE id = 1", Privilege.DELETE),
        ("INSERT OVERWRITE lake.sales.open VALUES (9, 'x')", Privilege.DELETE),
        (
            "MERGE INTO lake.sales.open t USING (SELECT 1L AS id) s ON s.id = t.id WHEN MATCHED THEN DELETE",
            Privilege.DELETE,
        ),
        (
            "MERGE INTO lake.sales.open t USING (SELECT 1L AS id) s ON s.id = t.id"
            " WHEN MATCHED THEN UPDATE SET note = 'x' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            Privilege.UPDATE,
        ),
    ],
)
async def test_each_change_needs_its_own_privilege(lake: GuardedLake, sql: str, missing: Privilege) -> None:
    access = anna(privileges=[each for each in WRITER if each is not missing])
    with pytest.raises(BailiwickError, match=f"lack the privilege {missing.upper()}") as caught:
        await lake.rows(sql, access)
    assert caught.value.code is Code.ACCESS_DENIED


async def test_administrators_call_procedures(lake: GuardedLake) -> None:
    call = "CALL lake.system.rewrite_data_files(table => 'sales.open', options => map('rewrite-all', 'true'))"
    assert await lake.rows(call, may_call=True)
    assert await lake.refusal(call) == "not_allowed"


async def test_a_table_of_an_earlier_lease_is_not_read(lake: GuardedLake) -> None:
    lease = lake.running.leases.give(lake.session, RESTRICTED)
    lake.running.leases.give(lake.session, RESTRICTED)
    with pytest.raises(BailiwickError):
        await lake.session.describe(f"SELECT * FROM {ORDERS}", lease=lease, timeout_s=60)
