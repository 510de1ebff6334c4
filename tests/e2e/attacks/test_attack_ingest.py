"""Rows that are brought: into what one may write, within the filter, and nowhere else."""

import re

import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from attacks.attempt import DENIED, Attacker
from bailiwick.testing.ingesting import bring
from bailiwick.testing.leaks import ask, code_of
from bailiwick.testing.policy_house import PASSWORD, House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = pa.table({"id": pa.array([20], pa.int32()), "ssn": ["x"], "region": ["EU"]})
OUTSIDE = pa.table({"id": pa.array([20, 21], pa.int32()), "ssn": ["x", "y"], "region": ["EU", "US"]})
REFUSED = (
    ("ana", "house", "people", "append", ROWS),
    ("ana", "house", "shelf", "append", ROWS),
    ("ana", "house", "regions", "append", ROWS),
    ("ana", "house", "new_table", "create", ROWS),
    ("ana", "house", "people", "replace", ROWS),
    ("ana", "vault", "secrets", "append", ROWS),
    ("ana", "vault", "new_table", "create", ROWS),
    ("ana", "vault", "secrets", "replace", ROWS),
    ("ana", "copy", "people", "append", ROWS),
    ("nils", "desk", "mine", "create", ROWS),
    ("wanda", "house", "shelf", "append", OUTSIDE),
    ("wanda", "house", "shelf", "replace", ROWS),
    ("dora", "house", "shelf", "replace", ROWS),
    ("dora", "house", "shelf", "create", ROWS),
)


@pytest.mark.parametrize(("person", "schema", "table", "mode", "rows"), REFUSED)
def test_rows_are_not_brought_where_one_may_not(
    attacker: Attacker, house: House, person: str, schema: str, table: str, mode: str, rows: pa.Table
) -> None:
    with pytest.raises(AdbcError) as caught:
        bring(house.gateway, table, rows, mode, schema, user=person, password=PASSWORD)
    attacker.search(f"{mode} of {schema}.{table}", str(caught.value))
    assert code_of(caught.value) not in ("INTERNAL_ERROR", "EXECUTION_FAILED"), caught.value
    if schema == "house":
        assert code_of(caught.value) in {*DENIED, "DUPLICATE_TABLE"}, caught.value
    attacker.noted(is_refused=True)


@pytest.mark.parametrize("mode", ["append", "create", "replace"])
def test_a_hidden_table_is_as_good_as_missing(attacker: Attacker, house: House, mode: str) -> None:
    answers = []
    for schema, table in (("vault", "secrets"), ("vault", "missing"), ("never", "missing")):
        with pytest.raises(AdbcError) as caught:
            bring(house.gateway, table, ROWS, mode, schema, user="ana", password=PASSWORD)
        told = str(caught.value).replace(table, "NAME").replace(schema, "SCHEMA")
        answers.append((code_of(caught.value), re.sub(r"\(query q[0-9a-z]+\)", "", told)))
    assert len(set(answers)) == 1, answers
    attacker.noted(is_refused=True)


def test_nothing_was_brought(house: House) -> None:
    with house.connected("admin") as connection:
        assert ask(connection, "SELECT count(*) FROM lake.house.shelf WHERE id >= 20").rows == [(0,)]
        assert ask(connection, "SELECT count(*) FROM lake.vault.secrets").rows == [(2,)]


def test_rows_within_the_filter_may_be_brought(house: House, attacker: Attacker) -> None:
    assert bring(house.gateway, "own", ROWS, "create", "desk", user="ana", password=PASSWORD) == 1
    attacker.noted(is_refused=False)
