"""How a command ends: 0 when it worked, 1 when a query failed, 2 when the command or a setting is wrong."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from bailiwick.client.errors import QueryFailed, Unreachable
from bailiwick.errors import BailiwickError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class UsageProblem(Exception):  # noqa: N818  (it is the user's, and it says what to do)
    """The command cannot be carried out as it was given."""


@contextmanager
def reported() -> Iterator[None]:
    """Turn failures that people can act on into one line on stderr and an exit code."""
    try:
        yield
    except QueryFailed as failure:
        _say(f"{failure.code}: {failure.message}")
        if failure.query_id:
            _say(f"query {failure.query_id}")
        raise typer.Exit(EXIT_FAILED) from None
    except BailiwickError as failure:
        _say(f"{failure.code}: {failure.message}")
        raise typer.Exit(EXIT_FAILED) from None
    except (Unreachable, UsageProblem) as problem:
        _say(f"error: {problem}")
        raise typer.Exit(EXIT_USAGE) from None
    except KeyboardInterrupt:
        _say("cancelled")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read our output has had enough. Python must not try to flush into it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_FAILED) from None


def _say(line: str) -> None:
    typer.echo(line, err=True)
