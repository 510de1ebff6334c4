"""`bailiwick query`: one statement, its answer on stdout."""

from enum import StrEnum
from typing import Annotated

import typer

from bailiwick.cli.connection import Host, Port, User, find_address, find_credentials
from bailiwick.cli.failures import reported

ROWS_MAX = 1_000


class Protocol(StrEnum):
    FLIGHT = "flight"


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


def query(
    statement: Annotated[str, typer.Option("-e", "--execute", metavar="SQL", help="The statement to run.")],
    host: Host = None,
    port: Port = None,
    user: User = None,
    protocol: Annotated[Protocol, typer.Option(help="How to ask; flight is Flight SQL.")] = Protocol.FLIGHT,
    output: Annotated[
        Format, typer.Option("--format", help="json is one object a line; csv, json and arrow give all rows.")
    ] = Format.TABLE,
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Most rows that a table shows.")] = ROWS_MAX,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from the first line of stdin.")
    ] = False,
) -> None:
    """Run a statement and print its answer.

    The password is asked for, or comes from BAILIWICK_PASSWORD or --password-stdin; a token comes from
    BAILIWICK_TOKEN. Exit code 0: it worked; 1: it failed, code and message are on stderr; 2: bad usage.
    """
    from bailiwick.cli.asking import run_query
    from bailiwick.cli.render import sink_for

    match protocol:
        case Protocol.FLIGHT:
            pass  # The only one there is yet.
    with reported():
        address = find_address(host, port)
        credentials = find_credentials(user, password_stdin=password_stdin)
        run_query(address, credentials, statement, sink_for(output, rows_max=rows))
