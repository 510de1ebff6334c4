"""`bailiwick commit`: what became of a change whose answer got lost."""

from typing import Annotated

import typer

from bailiwick.cli import administration, sql_text
from bailiwick.cli.connection import ADMINISTRATOR
from bailiwick.cli.failures import reported
from bailiwick.cli.gateway_options import GatewayOptions, takes_gateway

app = typer.Typer(no_args_is_help=True, help="What became of a change whose answer got lost.")


@app.command("show")
@takes_gateway
def show(
    gateway: GatewayOptions,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The change's idempotency key, a UUID.")],
    user: Annotated[
        str, typer.Option("--user", help="Who asks; others' changes are for auditors and administrators.")
    ] = ADMINISTRATOR,
) -> None:
    """Say whether the change was made: committed, not committed or unknown."""
    with reported():
        answer = administration.run(f"SHOW COMMIT {sql_text.string(key)}", gateway, user=user)
        (row,) = answer.to_pylist()
        typer.echo(f"{row['state']}: {row['because']}")
        if row["tables"]:
            done_at = f"{row['done_at']:%Y-%m-%d %H:%M:%S} UTC"
            typer.echo(f"{', '.join(row['tables'])}, by {row['principal']}, {done_at}")
