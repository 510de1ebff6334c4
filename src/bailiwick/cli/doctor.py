"""`bailiwick doctor`: what is right and wrong on this machine, and what to do."""

from pathlib import Path
from typing import Annotated

import typer

from bailiwick.cli.failures import EXIT_FAILED, reported
from bailiwick.cli.settings import ConfigFile, read_settings

_MARKS = {"ok": "\N{CHECK MARK}", "note": "-", "wrong": "\N{BALLOT X}"}


def doctor(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="The data directory to look at.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Look at Java, jars, disk, ports and the engine, and say what to do. Exit code 1: something is wrong."""
    with reported():
        settings = read_settings(config)
        from bailiwick.cli.checks import Verdict, examine

        wrong = 0
        for finding in examine(settings, data_dir):
            typer.echo(f"{_MARKS[finding.verdict]} {finding.subject:<10} {finding.told}")
            if finding.advice:
                typer.echo(f"  {'':<10} {finding.advice}")
            wrong += finding.verdict is Verdict.WRONG
        if wrong:
            raise typer.Exit(EXIT_FAILED)
