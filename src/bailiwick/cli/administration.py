"""The statements that `user` and `token` commands send to a running gateway."""

import sys
from typing import Any

from bailiwick.cli.connection import find_credentials
from bailiwick.cli.gateway_options import GatewayOptions, find_gateway


def run(statement: str, gateway: GatewayOptions, *, user: str) -> Any:
    """The statement's answer, a pyarrow Table."""
    found = find_gateway(gateway)

    from bailiwick.cli.asking import answer_of

    return answer_of(found, find_credentials(user), statement)


def show(statement: str, gateway: GatewayOptions, *, user: str) -> None:
    """Draw the statement's answer."""
    answer = run(statement, gateway, user=user)

    from bailiwick.cli.table import draw_answer

    draw_answer(sys.stdout, answer)
