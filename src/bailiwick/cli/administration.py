"""The statements that `user` and `token` commands send to a running gateway."""

import sys
from typing import Any

from bailiwick.cli.connection import find_address, find_credentials


def run(statement: str, *, host: str | None, port: int | None, user: str) -> Any:
    """The statement's answer, a pyarrow Table."""
    from bailiwick.cli.asking import answer_of

    return answer_of(find_address(host, port), find_credentials(user), statement)


def show(statement: str, *, host: str | None, port: int | None, user: str) -> None:
    """Draw the statement's answer."""
    from bailiwick.cli.table import draw_answer

    draw_answer(sys.stdout, run(statement, host=host, port=port, user=user))
