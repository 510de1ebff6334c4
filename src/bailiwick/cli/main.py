"""The `bailiwick` command.

Modules of commands import nothing heavy: what a command needs is loaded when it runs, so that
`bailiwick --help` is instant and `bailiwick query` starts without Spark.
"""

from typing import Annotated

import typer

import bailiwick
from bailiwick.cli import audit, commits, policy, tokens, users
from bailiwick.cli.demo import demo
from bailiwick.cli.doctor import doctor
from bailiwick.cli.engine import engine
from bailiwick.cli.query import query
from bailiwick.cli.serve import serve
from bailiwick.cli.settings import check_config
from bailiwick.cli.top import top

app = typer.Typer(
    name="bailiwick",
    help="A query gateway for Spark: serve one, ask one, look after one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("serve")(serve)
app.command("engine")(engine)
app.command("demo")(demo)
app.command("query")(query)
app.command("top")(top)
app.add_typer(users.app, name="user")
app.add_typer(tokens.app, name="token")
app.add_typer(policy.app, name="policy")
app.add_typer(audit.app, name="audit")
app.add_typer(commits.app, name="commit")
app.command("doctor")(doctor)
app.command("check-config")(check_config)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bailiwick {bailiwick.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A query gateway for Spark: serve one, ask one, look after one."""
    del version


def main() -> None:
    app()
