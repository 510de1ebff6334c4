"""`bailiwick top`: engines, queries that run and queries that wait, as they are now."""

import sys
from typing import Annotated

import typer

from bailiwick.cli.connection import User, find_credentials
from bailiwick.cli.failures import reported
from bailiwick.cli.gateway_options import GatewayOptions, find_gateway, takes_gateway

EVERY_S = 2.0


@takes_gateway
def top(
    gateway: GatewayOptions,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.5, max=60.0, help="How often to look.")
    ] = EVERY_S,
    user: User = None,
) -> None:
    """Watch engines and queries; q ends it.

    Everyone sees their own queries; operators those of their tenant, and the engines; admins everything.
    Where there is no terminal, one picture is printed. Looking is by statements over system tables, which
    are recorded as any others.
    """
    with reported():
        found = find_gateway(gateway)
        credentials = find_credentials(user)
        # gRPC, Arrow and Rich are behind this import.
        from bailiwick.cli.top_live import print_once, watch

        if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            print_once(found, credentials)
        else:
            watch(found, credentials, every_s=every)
