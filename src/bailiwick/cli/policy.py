"""`bailiwick policy`: the whole policy as one file. Carried by statements of ours, to a running gateway."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiwick.cli import administration, sql_text
from bailiwick.cli.connection import ADMINISTRATOR, Administrator
from bailiwick.cli.failures import EXIT_FAILED, UsageProblem, reported
from bailiwick.cli.gateway_options import GatewayOptions, takes_gateway

FILE_BYTES_MAX = 1 << 20

app = typer.Typer(no_args_is_help=True, help="Who may see what: the whole policy as one file.")

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A policy file (TOML); - reads stdin.")]


@app.command("apply")
@takes_gateway
def apply(
    gateway: GatewayOptions,
    file: PolicyFile,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the file and say what it would change, but change nothing."),
    ] = False,
    user: Administrator = ADMINISTRATOR,
) -> None:
    """Make the policy what FILE says, all of it or nothing, and say what that changed.

    What FILE does not name goes, except that who created something owns it.
    """
    with reported():
        changes = _changes(file, gateway, user=user, dry_run=dry_run)
        _say(changes)
        if not changes:
            typer.echo("nothing to change")
        elif dry_run:
            typer.echo("a dry run: nothing has been changed")


@app.command("diff")
@takes_gateway
def diff(gateway: GatewayOptions, file: PolicyFile, user: Administrator = ADMINISTRATOR) -> None:
    """Say what applying FILE would change. Exit code 0: nothing; 1: something, or FILE is refused."""
    with reported():
        changes = _changes(file, gateway, user=user, dry_run=True)
        _say(changes)
        if changes:
            raise typer.Exit(EXIT_FAILED)


@app.command("show")
@takes_gateway
def show(gateway: GatewayOptions, user: Administrator = ADMINISTRATOR) -> None:
    """Print the policy as a file that `apply` takes."""
    with reported():
        (text,) = _texts(administration.run("SHOW POLICY FILE", gateway, user=user))
        typer.echo(text, nl=False)


def _changes(file: Path, gateway: GatewayOptions, *, user: str, dry_run: bool) -> list[str]:
    statement = f"APPLY POLICY {sql_text.string(_read(file))}{' DRY RUN' if dry_run else ''}"
    return _texts(administration.run(statement, gateway, user=user))


def _texts(answer: Any) -> list[str]:
    return [str(text) for text in answer.column(0).to_pylist()]


def _say(changes: list[str]) -> None:
    for change in changes:
        typer.echo(change)


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise UsageProblem(f"a policy file has at most {FILE_BYTES_MAX} bytes")
        return content.decode()
    except OSError as error:
        raise UsageProblem(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{file} is not UTF-8") from error
