"""`bailiwick audit`: what happened. Read from a running gateway by statements of ours, or from a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiwick.cli import administration, sql_text
from bailiwick.cli.connection import ADMINISTRATOR, find_credentials
from bailiwick.cli.failures import EXIT_FAILED, UsageProblem, reported
from bailiwick.cli.gateway_options import GatewayOptions, find_gateway, takes_gateway

if TYPE_CHECKING:
    from bailiwick.audit.chain import Verification

app = typer.Typer(no_args_is_help=True, help="What happened: who did what, and whether the log is whole.")

TAIL_MAX = 1_000

Reader = Annotated[str, typer.Option("--user", help="Who asks; must be an auditor or an administrator.")]
Anchors = Annotated[
    list[str] | None,
    typer.Option(
        "--anchor", metavar="NUMBER:HASH", help="A place that was seen before; may be given several times."
    ),
]


@app.command("tail")
@takes_gateway
def tail(
    gateway: GatewayOptions,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what happens from now.")] = False,
    who: Annotated[str | None, typer.Option("--for", metavar="NAME", help="Only of this user.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only since then: 2026-11-16T02:00:00Z, or 8h for eight hours ago.")
    ] = None,
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, max=TAIL_MAX, help="Most entries.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Whole entries, one JSON object a line.")] = False,
    user: Reader = ADMINISTRATOR,
) -> None:
    """Show the newest entries, the oldest of them first."""
    with reported():
        found = find_gateway(gateway)
        credentials = find_credentials(user)

        from bailiwick.cli.audit_reading import Wanted, show_tail

        show_tail(found, credentials, Wanted(who, since, lines), is_followed=follow, is_json=json)


@app.command("verify")
@takes_gateway
def verify(
    gateway: GatewayOptions,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An exported log, instead of a gateway's.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="A data directory, read without its gateway.", file_okay=False, exists=True),
    ] = None,
    anchor: Anchors = None,
    user: Reader = ADMINISTRATOR,
) -> None:
    """Look at every entry: changed, missing and reordered ones are found, and a missing end by its anchor.

    Prints the newest anchor: keep it elsewhere, and give it with --anchor later. Exit code 1: it is broken.
    """
    with reported():
        from bailiwick.audit.chain import Anchor
        from bailiwick.cli.audit_reading import verification_of, verified_file

        try:
            anchors = [Anchor.parse(text) for text in anchor or []]
        except ValueError as error:
            raise UsageProblem(str(error)) from error
        if file is not None and data_dir is not None:
            raise UsageProblem("give either a file or --data-dir")
        if file is not None:
            found = verified_file(file, anchors)
        elif data_dir is not None:
            from bailiwick.audit.offline import UnreadableError, verify_directory

            try:
                found = verify_directory(data_dir, anchors)
            except UnreadableError as error:
                raise UsageProblem(str(error)) from error
        else:
            if len(anchors) > 1:
                raise UsageProblem("a gateway takes one --anchor at a time")
            statement = sql_text.verify_audit(*map(str, anchors))
            found = verification_of(administration.run(statement, gateway, user=user))
        _tell(found)


@app.command("export")
@takes_gateway
def export(
    gateway: GatewayOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; must not exist yet.")],
    after: Annotated[int, typer.Option(min=0, help="Only what follows this entry.")] = 0,
    user: Reader = ADMINISTRATOR,
) -> None:
    """Write the log to a file: one entry a line, in JSON, with its hash.

    Whoever has the file can verify it with `audit verify FILE`, or with jq and sha256sum.
    """
    with reported():
        found = find_gateway(gateway)
        credentials = find_credentials(user)

        from bailiwick.cli.audit_reading import export_to

        _tell(export_to(file, found, credentials, after=after))


def _tell(found: "Verification") -> None:
    if found.gaps:
        typer.echo(f"the log itself tells of {found.gaps} gaps: look for kind gap", err=True)
    if found.broken is not None:
        typer.echo(f"broken at entry {found.broken.sequence}: {found.broken.why}", err=True)
        raise typer.Exit(EXIT_FAILED)
    if not found.count:
        typer.echo("sound: no entries")
        return
    part = f" (from {found.first}; what was before it is not proved)" if found.first > 1 else ""
    typer.echo(f"sound: {found.count} entries{part}, anchor {found.end}")
