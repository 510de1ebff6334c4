"""Who asks, from options, the environment and the terminal. Where to ask is in `gateway_options.py`."""

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from bailiwick.cli.failures import UsageProblem
from bailiwick.client.credentials import Credentials, Password, Token

ADMINISTRATOR = "admin"
PASSWORD_BYTES_MAX = 4096

User = Annotated[str | None, typer.Option("--user", help="Who asks. Not needed with BAILIWICK_TOKEN.")]
Administrator = Annotated[str, typer.Option("--user", help="Who asks; must be an administrator.")]


def find_credentials(
    user: str | None,
    *,
    password_stdin: bool = False,
    environment: Mapping[str, str] = os.environ,
    ask: Callable[[str], str] | None = None,
) -> Credentials:
    """A password from stdin, else from BAILIWICK_PASSWORD, else BAILIWICK_TOKEN, else asked for."""
    if password_stdin:
        return Password(_named(user), read_password_stdin())
    if user is not None and (password := environment.get("BAILIWICK_PASSWORD")):
        return Password(user, password)
    if token := environment.get("BAILIWICK_TOKEN"):
        return Token(token)
    name = _named(user)
    return Password(name, (ask or ask_password)(f"Password of {name}: "))


def read_password_stdin() -> str:
    """The first line of stdin, without its line end."""
    # In bytes: statements may follow, and what a text stream reads ahead nobody else gets.
    line = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 1)
    if len(line) > PASSWORD_BYTES_MAX:
        raise UsageProblem(f"a password has at most {PASSWORD_BYTES_MAX} bytes")
    try:
        password = line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageProblem("a password is UTF-8") from error
    if not password:
        raise UsageProblem("no password came on stdin")
    return password


def ask_password(prompt: str) -> str:
    if not sys.stdin.isatty():
        raise UsageProblem("no password: give BAILIWICK_PASSWORD or BAILIWICK_TOKEN, or use --password-stdin")
    return getpass.getpass(prompt, stream=sys.stderr)


def _named(user: str | None) -> str:
    if user is None:
        raise UsageProblem("who asks? Give --user, or BAILIWICK_TOKEN")
    return user
