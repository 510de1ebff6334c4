# ruff: noqa: E501 - one attempt a line
"""Parameters and prepared statements: values are values, handles are their owner's, policy is that of now."""

import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from attacks.attempt import Attacker, Attempt, gives, harmless, refused
from bailiwick._generated import FlightSql_pb2 as sql_messages
from bailiwick.testing.leaks import ask
from bailiwick.testing.policy_house import PASSWORD, House
from bailiwick.testing.raw_flight import raw_flight

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ATTEMPTS: tuple[Attempt, ...] = (
    refused("a hidden name as a parameter", "SELECT * FROM IDENTIFIER(?)", parameters=("lake.vault.secrets",)),
    gives("a condition as a parameter", "SELECT count(*) FROM people WHERE ? OR region = 'US'", parameters=(True,), rows=[(24,)]),
    gives("a quote in a parameter", "SELECT count(*) FROM people WHERE name = ?", parameters=("x' OR '1'='1",), rows=[(0,)]),
    gives("a raw value as a parameter", "SELECT count(*) FROM people WHERE salary >= ?", parameters=(9000000,), rows=[(0,)]),
    gives("a hidden region as a parameter", "SELECT count(*) FROM people WHERE region = ?", parameters=("US",), rows=[(0,)]),
    harmless("a message as a parameter", "SELECT raise_error(concat(?, ssn)) FROM people", parameters=("seen ",)),
    gives("a limit as a parameter", "SELECT count(*) FROM (SELECT * FROM counted LIMIT ?)", parameters=(4000,), rows=[(7,)]),
    harmless("a parameter in a lambda", "SELECT transform(tags, t -> concat(t, ?, ssn)) FROM people", parameters=("-",)),
    refused("a path as a parameter", "SELECT * FROM parquet.?", parameters=("/tmp",)),
    refused("a parameter in a hidden table", "SELECT * FROM lake.vault.secrets WHERE id = ?", parameters=(1,)),
    refused("a parameter outside the filter", "INSERT INTO lake.house.shelf VALUES (?, 'x', 'US')", parameters=(1,), person="wanda"),
)  # fmt: skip


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_parameter_is_a_value(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


def test_preparing_tells_nothing_of_a_hidden_table(attacker: Attacker) -> None:
    answers = []
    for name in ("secrets", "missing"):
        with attacker.house.connected("ana") as connection, connection.cursor() as cursor:
            try:
                answers.append(str(cursor.adbc_prepare(f"SELECT * FROM lake.vault.{name} WHERE id = ?")))
            except AdbcError as error:
                answers.append(str(error).replace(name, "X"))
    attacker.search("preparing", answers[0])
    assert answers[0] == answers[1]
    attacker.noted(is_refused=True)


def test_a_statement_prepared_before_a_change_runs_under_the_policy_of_now(
    attacker: Attacker, house: House
) -> None:
    with (
        house.connected("ana") as connection,
        connection.cursor() as cursor,
        house.connected("admin") as admin,
    ):
        cursor.adbc_prepare("SELECT count(*) FROM people WHERE id > ?")
        cursor.execute("SELECT count(*) FROM people WHERE id > ?", (0,))
        assert cursor.fetchall() == [(24,)]
        assert (
            ask(admin, "CREATE ROW FILTER half ON TABLE lake.house.people FOR USER ana USING (id <= 12)").code
            is None
        )
        try:
            cursor.execute("SELECT count(*) FROM people WHERE id > ?", (0,))
            assert cursor.fetchall() == [(12,)]
        finally:
            assert ask(admin, "DROP ROW FILTER half ON TABLE lake.house.people").code is None
    attacker.noted(is_refused=False)


def test_anothers_handle_is_of_no_use(attacker: Attacker, house: House) -> None:
    """facts/security, leases: ids of another's operations worked in the same engine session."""
    address = house.gateway.grpc_address
    with (
        raw_flight(address, basic=("audra", PASSWORD)) as owner,
        raw_flight(address, basic=("ana", PASSWORD)) as thief,
    ):
        handle = owner.prepare("SELECT ssn FROM lake.house.people")
        info = owner.info(sql_messages.CommandPreparedStatementQuery(prepared_statement_handle=handle))
        ticket = info.endpoint[0].ticket.SerializeToString()
        for what, action in (
            ("another's prepared statement", lambda: thief.run_prepared(handle)),
            ("another's ticket", lambda: thief.fetch(ticket)),
        ):
            text = _answer_of(action)
            attacker.search(what, text)
            attacker.noted(is_refused=True)


def _answer_of(action: object) -> str:
    assert callable(action)
    try:
        return str(action().to_pylist())
    except Exception as error:
        return f"{error} {getattr(error, 'details', lambda: '')()}"
