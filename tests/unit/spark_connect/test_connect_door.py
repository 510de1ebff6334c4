"""The door by its protobuf: who is let in, what is answered under which names, what is kept for how long."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from connect_house import (
    ConnectHouse,
    condition,
    connect_house,
    error_info,
    kinds,
    operation_id,
    refused,
    rows_response,
    sql_plan,
    table_plan,
    view_plan,
)
from hostile_requests import compressed, zstd
from pyspark.sql.connect import proto
from query_house import Script

from bailiwick.doors.spark_connect import screen
from bailiwick.engines.description import Description, Kind
from bailiwick.engines.engine import Batch
from bailiwick.queries.config import LimitsConfig


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[ConnectHouse]:
    async with connect_house(tmp_path) as made:
        yield made


@pytest.mark.parametrize("header", ["authorization", "authentication"])
async def test_a_token_is_taken_from_either_header(door: ConnectHouse, header: str) -> None:
    assert await door.client(header=header).run(table_plan())


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_nobody_is_let_in_without_a_token(door: ConnectHouse, token: str) -> None:
    client = door.client(token=token)
    assert (await refused(client.run(table_plan()))).code() is grpc.StatusCode.UNAUTHENTICATED
    assert not door.desk.made


async def test_who_acts_for_somebody_is_that_one_in_a_session_of_its_own(door: ConnectHouse) -> None:
    ann = door.client()
    for_rita = door.client(session_id=ann.session_id, subject="rita")
    for client in (ann, for_rita):
        await client.differ()
        await client.run(table_plan())
    assert [told["principal"] for _, told in door.desk.ran] == ["ann", "rita"]
    assert len(door.desk.made) == 2
    stranger = door.client(token="rita", subject="ann")
    assert condition(await refused(stranger.run(table_plan()))) == "BAILIWICK_ACCESS_DENIED"


async def test_a_plan_is_answered_under_our_names_and_ends(door: ConnectHouse) -> None:
    client = door.client()
    name = operation_id()
    responses = await client.run(table_plan(), operation_id=name)
    assert kinds(responses) == ["arrow_batch", "result_complete"]
    assert {response.session_id for response in responses} == {client.session_id}
    assert {response.operation_id for response in responses} == {name}
    assert len({response.server_side_session_id for response in responses}) == 1
    assert len({response.response_id for response in responses}) == 2
    plan, told = door.desk.ran[0]
    assert plan == table_plan()
    assert (told["principal"], told["reattachable"]) == ("ann", False)
    assert told["operation"] != name


@pytest.mark.parametrize(
    ("client_type", "is_compressed"),
    [
        ("_SPARK_CONNECT_PYTHON spark/4.1.4 os/linux python/3.11.7", True),
        ("a tool of ours spark/4.0.4 os/darwin python/3.13.1", True),
        ("_SPARK_CONNECT_SCALA spark/4.1.4 scala/2.13.16 jvm/17.0.15 os/linux", False),
        ("python/3.11.7 in a name", False),
        ("", False),
    ],
)
async def test_batches_are_compressed_for_pyspark_and_for_nobody_else(
    door: ConnectHouse, client_type: str, is_compressed: bool
) -> None:
    client = door.client()
    await client.run(table_plan(), client_type=client_type)
    await client.differ()
    await client.run(table_plan(), client_type=client_type)
    assert (door.desk.lent, len(door.desk.made)) == (1, 1)
    # In a session of its own a command may run beside it, whose rows come back inside a plan.
    assert door.desk.engine.compressed == [is_compressed, False]


async def test_rows_that_come_back_in_a_plan_are_not_compressed(door: ConnectHouse) -> None:
    door.desk.engine.scripts["SHOW VIEWS"] = Script(description=Description(Kind.SHOWS, "ShowViews"))
    client = door.client()
    for plan in (table_plan(), sql_plan("SHOW VIEWS")):
        await client.run(plan, client_type="_SPARK_CONNECT_PYTHON spark/4.1.4 os/linux python/3.11.7")
    assert (door.desk.lent, len(door.desk.made)) == (1, 1)
    assert door.desk.engine.compressed == [True, False]


async def test_a_compressed_batch_counts_as_what_it_holds(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([7] * 10_000, pa.int64())})  # 80 kB
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    packed = Batch(sink.getvalue().to_pybytes(), table.num_rows)
    assert len(packed.data) < 5_000
    async with connect_house(tmp_path, limits=LimitsConfig(result_bytes_max=50_000)) as door:
        door.desk.answers = [[rows_response(data=packed)]]
        error = await refused(door.client().run(table_plan()))
        assert "result_bytes_max" in str(error.details())


async def test_what_comes_compressed_is_unpacked_beside_the_event_loop(
    door: ConnectHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacking = []

    def unpack(plan: proto.Plan, *bounds: object) -> None:
        unpacking.append((threading.current_thread() is threading.main_thread(), plan.WhichOneof("op_type")))

    monkeypatch.setattr(screen, "unpack", unpack)
    request = proto.ExecutePlanRequest.FromString(compressed(zstd(1)))
    await refused(door.client().run(request.plan))
    await door.client().run(table_plan())
    assert unpacking == [(False, "compressed_operation"), (True, "root")]


async def test_a_query_is_on_record(door: ConnectHouse) -> None:
    await door.client().run(table_plan())
    query = await door.house.recorded()
    assert (query.door, query.principal, query.rows) == ("spark_connect", "ann", 3)
    assert query.state.value == "finished"
    assert "sales.orders" in query.sql


async def test_counts_of_what_spark_read_are_left_out(door: ConnectHouse) -> None:
    progress = proto.ExecutePlanResponse()
    progress.execution_progress.stages.add(num_tasks=4, num_completed_tasks=1, input_bytes_read=12345)
    metrics = proto.ExecutePlanResponse()
    metrics.metrics.metrics.add(name="scan")
    door.desk.answers = [[progress, metrics, rows_response()]]
    responses = await door.client().run(table_plan())
    assert kinds(responses) == ["execution_progress", "arrow_batch", "result_complete"]
    assert responses[0].execution_progress.stages[0].input_bytes_read == 0
    assert not any(response.HasField("metrics") for response in responses)


async def test_progress_that_tells_nothing_is_left_out(door: ConnectHouse) -> None:
    nothing, some = proto.ExecutePlanResponse(), proto.ExecutePlanResponse()
    nothing.execution_progress.SetInParent()
    some.execution_progress.stages.add(num_tasks=4)
    door.desk.answers = [[nothing, some, rows_response(), nothing]]
    responses = await door.client().run(table_plan())
    assert kinds(responses) == ["execution_progress", "arrow_batch", "result_complete"]
    assert len(responses[0].execution_progress.stages) == 1


async def test_a_query_text_is_answered_with_itself_and_runs_nothing(door: ConnectHouse) -> None:
    responses = await door.client().run(sql_plan("SELECT 1"))
    assert kinds(responses) == ["sql_command_result", "result_complete"]
    assert responses[0].sql_command_result.relation.sql.query == "SELECT 1"
    assert door.desk.engine.described == ["SELECT 1"]
    assert not door.desk.ran


async def test_a_text_is_described_once_as_long_as_nothing_changes(door: ConnectHouse) -> None:
    client = door.client()
    for _ in range(3):
        await client.run(sql_plan("SELECT 1"))
    assert door.desk.engine.described == ["SELECT 1"]
    door.house.versions[0] += 1
    await client.run(sql_plan("SELECT 1"))
    assert len(door.desk.engine.described) == 2


async def test_a_change_runs_once_and_is_told_to_be_one(door: ConnectHouse) -> None:
    door.desk.engine.scripts["DROP TABLE t"] = Script(
        description=Description(Kind.CHANGE, "DropTable", writes=("lake.t",))
    )
    await door.client().run(sql_plan("DROP TABLE t"))
    ((_, told),) = door.desk.ran
    assert told["reattachable"]
    assert (await door.house.recorded()).kind is Kind.CHANGE


async def test_administration_is_answered_by_the_gateway(door: ConnectHouse) -> None:
    error = await refused(door.client().run(sql_plan("SHOW USERS")))
    assert condition(error) == "BAILIWICK_ACCESS_DENIED"
    assert not door.desk.engine.described


async def test_tables_of_the_gateway_are_rows_inside_the_plan(door: ConnectHouse) -> None:
    await door.client().run(table_plan("system.runtime.queries"))
    plan, _ = door.desk.ran[0]
    local = plan.root.subquery_alias.input.local_relation
    assert plan.root.subquery_alias.alias == "queries"
    assert "query_id" in pa.ipc.open_stream(local.data).schema.names


async def test_statements_on_tables_of_the_gateway_are_answered_with_rows(door: ConnectHouse) -> None:
    responses = await door.client().run(sql_plan("SELECT count(*) AS n FROM system.runtime.queries"))
    local = responses[0].sql_command_result.relation.local_relation
    assert pa.ipc.open_stream(local.data).read_all().column_names == ["n"]
    assert not door.desk.engine.described


async def test_the_same_name_of_a_session_is_another_session_for_another_user(door: ConnectHouse) -> None:
    ann = door.client()
    rita = door.client(token="rita", session_id=ann.session_id)
    await ann.set("spark.sql.shuffle.partitions", "7")
    await ann.run(table_plan())
    await rita.run(view_plan("v"))
    assert len(door.desk.made) == 2
    assert (await ann.get("spark.sql.shuffle.partitions")) == {"spark.sql.shuffle.partitions": "7"}
    assert (await rita.get("spark.sql.shuffle.partitions")) == {}


async def test_details_of_an_error_are_told_once_and_to_its_own_session(door: ConnectHouse) -> None:
    client = door.client()
    error = await refused(client.run(table_plan("system.runtime.nothing")))
    error_id = error_info(error).metadata["errorId"]
    stranger = door.client()
    await stranger.run(table_plan())
    kind = proto.FetchErrorDetailsRequest
    assert not (await stranger.call("FetchErrorDetails", kind, error_id=error_id)).errors
    told = await client.call("FetchErrorDetails", kind, error_id=error_id)
    assert "There is no table" in told.errors[told.root_error_idx].message


async def test_settings_are_read_by_the_list(door: ConnectHouse) -> None:
    door.desk.confs = {"spark.sql.ansi.enabled": "true", "spark.sql.warehouse.dir": "file:/x"}
    client = door.client()
    wanted = ("spark.sql.ansi.enabled", "spark.sql.warehouse.dir", "spark.bailiwick.catalog.uri")
    assert await client.get(*wanted) == {"spark.sql.ansi.enabled": "true"}
    error = await refused(client.set("spark.sql.extensions", "x"))
    assert condition(error) == "CANNOT_MODIFY_CONFIG"


async def test_settings_are_asked_of_the_engine_once(door: ConnectHouse) -> None:
    door.desk.confs = {"spark.sql.ansi.enabled": "true"}
    client = door.client()
    for _ in range(3):
        assert await client.get("spark.sql.ansi.enabled", "spark.sql.nothing") == {
            "spark.sql.ansi.enabled": "true"
        }
    assert len(door.desk.configured) == 1


async def test_sessions_that_are_alike_learn_settings_from_one_another(door: ConnectHouse) -> None:
    door.desk.confs = {"spark.sql.ansi.enabled": "true"}
    key = "spark.sql.ansi.enabled"
    first, second, own = door.client(), door.client(), door.client()
    assert await first.get(key) == await second.get(key) == {key: "true"}
    assert len(door.desk.configured) == 1
    await own.set("spark.sql.shuffle.partitions", "7")
    assert await own.get(key) == {key: "true"}
    assert len(door.desk.configured) > 1


async def test_what_clients_ask_before_their_first_plan_waits_for_no_engine(door: ConnectHouse) -> None:
    compression = "spark.connect.session.planCompression."
    assert await door.client().get(f"{compression}threshold", f"{compression}defaultAlgorithm") == {
        f"{compression}threshold": str(10 << 20),
        f"{compression}defaultAlgorithm": "ZSTD",
    }
    assert not door.desk.configured


async def test_the_version_is_known_without_an_engine(door: ConnectHouse) -> None:
    version = proto.AnalyzePlanRequest.SparkVersion()
    response = await door.client().call("AnalyzePlan", proto.AnalyzePlanRequest, spark_version=version)
    assert response.spark_version.version.startswith("4.1")
    assert not door.desk.made


async def test_a_plan_is_looked_at_under_a_lease_of_its_own(door: ConnectHouse) -> None:
    tree = proto.AnalyzePlanRequest.TreeString(plan=table_plan())
    response = await door.client().call("AnalyzePlan", proto.AnalyzePlanRequest, tree_string=tree)
    assert response.tree_string.tree_string == "a tree"
    ((_, told),) = door.desk.analysed
    assert told["principal"] == "ann"


async def test_a_statement_that_does_something_is_not_looked_at(door: ConnectHouse) -> None:
    door.desk.engine.scripts["DROP TABLE t"] = Script(description=Description(Kind.CHANGE, "DropTable"))
    plan = proto.Plan()
    plan.root.sql.query = "DROP TABLE t"
    tree = proto.AnalyzePlanRequest.TreeString(plan=plan)
    call = door.client().call("AnalyzePlan", proto.AnalyzePlanRequest, tree_string=tree)
    assert condition(await refused(call)) == "BAILIWICK_NOT_SUPPORTED"
    assert not door.desk.analysed


@pytest.mark.parametrize("where", ["below a limit", "in a view", "in a frame that a statement names"])
async def test_a_command_that_stands_inside_of_something_is_not_carried_out(
    door: ConnectHouse, where: str
) -> None:
    door.desk.engine.scripts["DROP TABLE t"] = Script(description=Description(Kind.CHANGE, "DropTable"))
    plan = proto.Plan()
    match where:
        case "below a limit":
            plan.root.limit.limit = 1
            plan.root.limit.input.sql.query = "DROP TABLE t"
        case "in a view":
            plan.command.create_dataframe_view.name = "v"
            plan.command.create_dataframe_view.input.sql.query = "DROP TABLE t"
        case _:
            named = plan.command.sql_command.input.with_relations
            named.root.sql.query = "SELECT * FROM frame"
            frame = named.references.add().subquery_alias
            frame.alias = "frame"
            frame.input.sql.query = "DROP TABLE t"
    assert condition(await refused(door.client().run(plan))) == "BAILIWICK_NOT_SUPPORTED"
    assert not door.desk.ran


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("SET spark.sql.shuffle.partitions = 7", ("spark.sql.shuffle.partitions", "7")),
        ("set spark.sql.shuffle.partitions='9';", ("spark.sql.shuffle.partitions", "9")),
        ("SET spark.sql.ansi.enabled", ("spark.sql.ansi.enabled", "true")),
        ("SET TIME ZONE 'Europe/Berlin'", ("spark.sql.session.timeZone", "Europe/Berlin")),
    ],
)
async def test_settings_are_set_by_sql_as_by_calls(
    door: ConnectHouse, text: str, row: tuple[str, str]
) -> None:
    door.desk.confs = {"spark.sql.ansi.enabled": "true"}
    client = door.client()
    responses = await client.run(sql_plan(text))
    local = responses[0].sql_command_result.relation.local_relation
    assert pa.ipc.open_stream(local.data).read_all().to_pylist() == [{"key": row[0], "value": row[1]}]
    assert await client.get(row[0]) == dict([row])
    assert not door.desk.engine.described


async def test_a_view_of_the_session_is_no_catalog_of_another_kind(door: ConnectHouse) -> None:
    told = Description(Kind.READ, "Project", reads=("mine",), catalogs=frozenset({"mine"}))
    door.desk.engine.scripts["SELECT * FROM mine"] = Script(description=told)
    client = door.client()
    error = await refused(client.run(sql_plan("SELECT * FROM mine")))
    assert condition(error) == "BAILIWICK_ACCESS_DENIED"
    await client.run(view_plan("mine"))
    assert kinds(await client.run(sql_plan("SELECT * FROM mine")))[0] == "sql_command_result"
