# ruff: noqa: E501 - one attempt a line
"""Leases and sessions: one engine session serves many people, and nothing of one reaches the next."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from attacks.attempt import Attacker, denied, harmless
from bailiwick._generated import Flight_pb2 as flight_messages
from bailiwick._generated import FlightSql_pb2 as sql_messages
from bailiwick.testing.asking import ENDLESS, running_queries, wait_until
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import PASSWORD, House
from bailiwick.testing.raw_flight import Refused, descriptor, raw_flight
from bailiwick.testing.stock_spark import EngineDoor

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SAME = "SELECT count(*), count(notes), max(id) FROM lake.house.people"
PERMITTED = {"ana": (24, 0, 24), "audra": (40, 40, 115), "admin": (40, 40, 115)}
SWITCHES = 24
SCRIPTS = (
    "BEGIN WHILE true DO INSERT INTO lake.desk.loop SELECT ssn FROM lake.house.people; END WHILE; END",
    "BEGIN DECLARE n INT DEFAULT 0; REPEAT SET n = n + 1; UNTIL n > 3 END REPEAT; SELECT n; END",
    "BEGIN FOR row AS SELECT ssn FROM lake.house.people DO SELECT row.ssn; END FOR; END",
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_do_not_run(attacker: Attacker, script: str) -> None:
    """facts/security, leases: a script went on after its session was lent to another, and read their rows."""
    attacker.judge(denied(f"script {script[:30]}", script))


def test_people_take_turns_and_each_gets_their_own(attacker: Attacker, house: House) -> None:
    """facts/security, leases: 24 switches between three principals."""

    def ask_as(person: str) -> list[Any]:
        with house.connected(person) as connection:
            return [ask(connection, SAME).rows for _ in range(SWITCHES // 3)]

    with ThreadPoolExecutor(3) as pool:
        answers = dict(zip(PERMITTED, pool.map(ask_as, PERMITTED), strict=True))
    for person, rows in answers.items():
        assert rows == [[PERMITTED[person]]] * (SWITCHES // 3)
        attacker.noted(is_refused=False)


def test_what_one_chose_is_not_the_next_ones(attacker: Attacker, house: House) -> None:
    """facts/security, leases: USE, time zone and settings carried over."""
    with house.connected("ana", "desk") as first, house.connected("eve") as second:
        assert ask(first, "SET TIME ZONE 'Pacific/Kiritimati'").code is None
        assert ask(first, "SELECT current_timezone(), current_schema()").rows == [
            ("Pacific/Kiritimati", "desk")
        ]
        for _ in range(4):
            outcome = ask(second, "SELECT current_timezone(), current_schema(), current_user()")
            assert outcome.rows == [("UTC", "house", "eve")]
    attacker.noted(is_refused=False)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TEMPORARY VIEW people AS SELECT 'forged' AS name",
        "CREATE GLOBAL TEMPORARY VIEW forged AS SELECT 1 AS id",
        "DECLARE VARIABLE stolen STRING DEFAULT (SELECT max(ssn) FROM lake.house.people)",
        "SET spark.sql.shuffle.partitions = 1",
        "CACHE TABLE lake.house.people",
        "ADD JAR '/tmp/x.jar'",
    ],
)
def test_nothing_is_left_behind_by_anyone(attacker: Attacker, sql: str) -> None:
    """Not by administrators either: the session they leave it in is the next one's."""
    for person in ("ana", "admin"):
        attacker.judge(denied(f"{person} leaves {sql[:40]}", sql, person=person))


def test_anothers_query_is_neither_seen_nor_cancelled(attacker: Attacker, house: House) -> None:
    """facts/security, leases: ids of another's operations worked in the same engine session."""
    address = house.gateway.grpc_address
    with (
        raw_flight(address, basic=("audra", PASSWORD)) as owner,
        raw_flight(address, basic=("ana", PASSWORD)) as thief,
    ):
        command = sql_messages.CommandStatementQuery(query=f"{ENDLESS} /* owned by audra */")
        info = owner.poll(descriptor(command)).info
        (query,) = wait_until("running", lambda: running_queries(house.gateway, "owned by audra"))
        request = flight_messages.CancelFlightInfoRequest(info=info).SerializeToString()
        try:
            with house.connected("ana") as connection:
                assert (
                    ask(connection, f"SELECT * FROM system.runtime.queries WHERE query_id = '{query}'").rows
                    == []
                )
            with pytest.raises(Refused):
                thief.act("CancelFlightInfo", request)
            assert running_queries(house.gateway, "owned by audra") == [query]
        finally:
            owner.act("CancelFlightInfo", request)
    attacker.noted(is_refused=True)


def test_a_change_of_policy_holds_for_the_next_query(attacker: Attacker, house: House) -> None:
    with house.connected("ana") as connection, house.connected("admin") as admin:
        assert ask(connection, SAME).rows == [PERMITTED["ana"]]
        assert ask(admin, "REVOKE SELECT ON TABLE lake.house.people FROM ROLE analyst").code is None
        try:
            outcome = ask(connection, SAME)
            attacker.search("after the revocation", outcome.text)
            assert outcome.is_refused
        finally:
            assert ask(admin, "GRANT SELECT ON TABLE lake.house.people TO ROLE analyst").code is None
        assert ask(connection, SAME).rows == [PERMITTED["ana"]]
    attacker.noted(is_refused=True)


def test_a_role_that_is_taken_away_is_gone_at_once(attacker: Attacker, house: House) -> None:
    with house.connected("eve") as connection, house.connected("admin") as admin:
        assert not ask(connection, "SELECT id FROM lake.house.people").is_refused
        assert ask(admin, "REVOKE ROLE us_analyst FROM USER eve").code is None
        try:
            attacker.judge(harmless("a query after the role", "SELECT 1", person="eve"))
            assert ask(connection, "SELECT id FROM lake.house.people").is_refused
        finally:
            assert ask(admin, "GRANT ROLE us_analyst TO USER eve").code is None
    attacker.noted(is_refused=True)


def test_the_engine_answers_nobody_but_its_gateway(attacker: Attacker, house: House) -> None:
    """facts/security, secrets: whoever reaches the engine's port needs the token, which stands in a private file."""
    door = EngineDoor.of(house.gateway.data_dir)
    path = "/spark.connect.SparkConnectService/AnalyzePlan"
    with grpc.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        for metadata in ((), (("authorization", "Bearer wrong"),)):
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(path)(b"", metadata=metadata, timeout=10)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            attacker.noted(is_refused=True)


def test_secrets_stand_in_no_command_line_and_no_environment(house: House, attacker: Attacker) -> None:
    """facts/security, secrets: the engine's token stood on its command line."""
    import psutil

    secrets = [
        line.split("=", 1)[1]
        for line in (house.gateway.data_dir / "run" / "engine.properties").read_text().splitlines()
        if "token" in line.split("=")[0]
    ]
    secrets += [path.read_text().strip() for path in (house.gateway.data_dir / "run").glob("*credential*")]
    secrets += [path.read_text().strip() for path in (house.gateway.data_dir / "run").glob("*key*")]
    assert len(secrets) >= 3
    engine = psutil.Process(house.gateway.engine_pid)
    shown = " ".join([*engine.cmdline(), *engine.environ().values()])
    assert [secret for secret in secrets if secret in shown] == []
    assert all(
        path.stat().st_mode & 0o077 == 0
        for path in (house.gateway.data_dir / "run").iterdir()
        if path.is_file()
    )
    attacker.noted(is_refused=False)


def test_a_prepared_handle_of_another_is_refused(attacker: Attacker, house: House) -> None:
    address = house.gateway.grpc_address
    with raw_flight(address, basic=("admin", house.gateway.admin_password)) as owner:
        handle = owner.prepare("SELECT word FROM lake.vault.secrets")
        with raw_flight(address, basic=("ana", PASSWORD)) as thief:
            with pytest.raises(Refused) as caught:
                thief.info(sql_messages.CommandPreparedStatementQuery(prepared_statement_handle=handle))
    attacker.search("another's handle", str(caught.value))
    attacker.noted(is_refused=True)
