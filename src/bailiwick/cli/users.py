"""`bailiwick user`: who may sign in. Carried by SQL statements of ours, to a running gateway."""

from typing import Annotated

import typer

from bailiwick.cli import administration, sql_text
from bailiwick.cli.connection import (
    ADMINISTRATOR,
    Administrator,
    ask_password,
    read_password_stdin,
)
from bailiwick.cli.failures import UsageProblem, reported
from bailiwick.cli.gateway_options import GatewayOptions, takes_gateway

app = typer.Typer(no_args_is_help=True, help="Who may sign in.")

Name = Annotated[str, typer.Argument(help="The user's name.")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the user's new password from the first line of stdin.")
]


@app.command("add")
@takes_gateway
def add(
    gateway: GatewayOptions,
    name: Name,
    role: Annotated[
        list[str] | None,
        typer.Option(help="reader, writer, operator, auditor or admin; may be given several times."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant the user belongs to.")] = None,
    password_stdin: PasswordStdin = False,
    user: Administrator = ADMINISTRATOR,
) -> None:
    """Add a user. Your own password comes from BAILIWICK_PASSWORD, or you are asked."""
    with reported():
        statement = sql_text.create_user(name, _new_password(name, password_stdin), role or [], tenant)
        administration.run(statement, gateway, user=user)
        typer.echo(f"user {name} added")


@app.command("list")
@takes_gateway
def list_users(gateway: GatewayOptions, user: Administrator = ADMINISTRATOR) -> None:
    """Show all users and their roles."""
    with reported():
        administration.show("SHOW USERS", gateway, user=user)


@app.command("password")
@takes_gateway
def password(
    gateway: GatewayOptions,
    name: Name,
    password_stdin: PasswordStdin = False,
    user: Administrator = ADMINISTRATOR,
) -> None:
    """Give a user a new password."""
    with reported():
        statement = sql_text.change_password(name, _new_password(name, password_stdin))
        administration.run(statement, gateway, user=user)
        typer.echo(f"password of {name} changed")


def _new_password(name: str, password_stdin: bool) -> str:
    if password_stdin:
        return read_password_stdin()
    first = ask_password(f"New password of {name}: ")
    if not first:
        raise UsageProblem("a password cannot be empty")
    if ask_password("Once more: ") != first:
        raise UsageProblem("the two passwords differ")
    return first
