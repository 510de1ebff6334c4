"""`bailiwick token`: tokens for programs. Carried by SQL statements of ours, to a running gateway."""

from typing import Annotated

import typer

from bailiwick.cli import administration, sql_text
from bailiwick.cli.connection import ADMINISTRATOR, Administrator
from bailiwick.cli.failures import reported
from bailiwick.cli.gateway_options import GatewayOptions, takes_gateway

app = typer.Typer(no_args_is_help=True, help="Tokens for programs.")


@app.command("create")
@takes_gateway
def create(
    gateway: GatewayOptions,
    owner: Annotated[str, typer.Option("--for", metavar="NAME", help="The user that the token speaks for.")],
    ttl: Annotated[str | None, typer.Option(help="How long it lives, such as 8h or 30d.")] = None,
    user: Administrator = ADMINISTRATOR,
) -> None:
    """Make a token and print it, alone, so that a script can take it. It is shown only this once."""
    with reported():
        made = administration.run(sql_text.create_token(owner, ttl), gateway, user=user)
        typer.echo(made.column("token")[0].as_py())


@app.command("revoke")
@takes_gateway
def revoke(
    gateway: GatewayOptions,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `token list` shows it.")],
    user: Administrator = ADMINISTRATOR,
) -> None:
    """End a token, now."""
    with reported():
        administration.run(sql_text.revoke_token(token_id), gateway, user=user)
        typer.echo(f"token {token_id} revoked")


@app.command("list")
@takes_gateway
def list_tokens(gateway: GatewayOptions, user: Administrator = ADMINISTRATOR) -> None:
    """Show all tokens, never their secrets."""
    with reported():
        administration.show("SHOW TOKENS", gateway, user=user)
