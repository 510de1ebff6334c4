"""The golden errors, as an ADBC client meets them on the Flight SQL door."""

from collections.abc import Iterator
from typing import Any

import pytest
from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.errors import MEANINGS
from bailiwick.testing.gateway import RunningGateway
from golden_errors import GOLDEN, SETUP, Golden

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cursor(gateway: RunningGateway) -> Iterator[Any]:
    with gateway.connect() as connection, connection.cursor() as opened:
        for sql in SETUP:
            opened.execute(sql)
        yield opened


def ask(cursor: Any, sql: str) -> Any:
    cursor.execute(sql)
    return cursor.fetchall()


def told_by(error: AdbcError) -> dict[str, str]:
    """The plain trailing metadata. The driver gives names as text or as bytes, by their kind."""
    pairs = [(name if isinstance(name, str) else name.decode(), value) for name, value in error.details]
    return {name: value.decode() for name, value in pairs if name.startswith("bailiwick-")}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.sql[:60])
def test_a_mistake_reaches_the_client_with_its_code_and_sqlstate(
    cursor: Any, gateway: RunningGateway, golden: Golden
) -> None:
    with pytest.raises(AdbcError) as caught:
        ask(cursor, golden.sql)
    told = told_by(caught.value)
    assert told["bailiwick-error-code"] == golden.code
    assert told["bailiwick-sqlstate"].startswith(golden.sqlstate)
    assert told["bailiwick-retryable"] == str(MEANINGS[golden.code].retryable).lower()
    assert f"{golden.code}: " in str(caught.value)
    assert str(gateway.data_dir) not in str(caught.value)
    assert "org.apache" not in str(caught.value)
