"""`bailiwick query`: one statement and its answer, the statements of a pipe, or a shell at a terminal."""

import sys
from enum import StrEnum
from io import BufferedReader
from typing import Annotated, cast

import typer

from bailiwick.cli.connection import User, find_credentials
from bailiwick.cli.failures import UsageProblem, reported
from bailiwick.cli.gateway_options import GatewayOptions, find_gateway, takes_gateway

ROWS_MAX = 1_000


class Protocol(StrEnum):
    FLIGHT = "flight"


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


class Placement(StrEnum):
    """As the gateway knows them; spelled here, since what the gateway is made of takes long to import."""

    REQUIRE = "require"
    PREFER = "prefer"
    LOCAL = "local"


@takes_gateway
def query(
    gateway: GatewayOptions,
    statement: Annotated[
        str | None,
        typer.Option("-e", "--execute", metavar="SQL", help="The statement to run; without it, a shell."),
    ] = None,
    user: User = None,
    protocol: Annotated[Protocol, typer.Option(help="How to ask; flight is Flight SQL.")] = Protocol.FLIGHT,
    output: Annotated[
        Format, typer.Option("--format", help="json is one object a line; csv, json and arrow give all rows.")
    ] = Format.TABLE,
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Most rows that a table shows.")] = ROWS_MAX,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from the first line of stdin.")
    ] = False,
    placement: Annotated[
        Placement | None, typer.Option(help="Where it may run, instead of where the server says.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Your name for the statement: sent again with it, it runs once."),
    ] = None,
) -> None:
    """Run a statement and print its answer, or open a shell.

    Without -e, a terminal gets a shell, and the statements of a pipe run one after the other until one fails.
    The password is asked for, or comes from BAILIWICK_PASSWORD or --password-stdin; a token comes from
    BAILIWICK_TOKEN. Exit code 0: it worked; 1: it failed, code and message are on stderr; 2: bad usage.
    """
    match protocol:
        case Protocol.FLIGHT:
            pass  # The only one there is yet.
    with reported():
        found = find_gateway(gateway)
        credentials = find_credentials(user, password_stdin=password_stdin)
        # gRPC and Arrow are behind these imports.
        if statement is not None:
            from bailiwick.cli.asking import run_query
            from bailiwick.cli.render import sink_for

            sink = sink_for(output, rows_max=rows)
            run_query(found, credentials, statement, sink, _headers(placement, idempotency_key))
            return
        if placement is not None or idempotency_key is not None:
            raise UsageProblem("--placement and --idempotency-key are about one statement: give it with -e")

        from bailiwick.cli.interpreter import Manner
        from bailiwick.cli.shell import run_piped, run_shell

        if sys.stdin.isatty():
            run_shell(found, credentials, Manner(output, rows, is_limited=True))
        else:
            run_piped(found, credentials, Manner(output, rows), cast(BufferedReader, sys.stdin.buffer).read1)


def _headers(placement: Placement | None, idempotency_key: str | None) -> dict[str, str]:
    given = {"bailiwick-placement": placement, "idempotency-key": idempotency_key}
    return {name: str(value) for name, value in given.items() if value is not None}
