"""Ten clients at once, light and heavy mixed: every one of them gets the right answer."""

import pytest

from bailiwick.testing.asking import rows
from bailiwick.testing.gateway import RunningGateway
from bailiwick.testing.load.clients import Address, Rush, rush
from bailiwick.testing.load.questions import Mix

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CLIENTS = 10
EACH = 6


def test_ten_mixed_clients_all_get_the_right_answers(gateway: RunningGateway) -> None:
    administrator = {"username": "admin", "password": gateway.admin_password}
    summary = rush(Address(gateway.uri, administrator), Rush(CLIENTS, Mix.MIXED, EACH, seed=7))
    assert dict(summary.errors) == {}
    assert summary.wrong == 0
    assert summary.times.count == CLIENTS * EACH
    assert summary.is_passed
    # Where each query ran is in the history: all but those that the gateway answers by itself.
    engine_queries = sum(share.queries for share in summary.spread)
    assert engine_queries == CLIENTS * EACH - summary.by_question["nodes"].count
    # Nothing of it is left behind.
    assert [user for (user, *_) in rows(gateway, "SHOW USERS") if user.startswith("load")] == []
