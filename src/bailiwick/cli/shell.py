"""`bailiwick query` without a statement: a shell at a terminal, or the statements of a pipe one by one.

In the shell a failure is shown and one goes on, Ctrl-C cancels what runs. In a pipe the first failure is the
end of it.
"""

import asyncio
import codecs
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

import typer

from bailiwick import __version__
from bailiwick.cli.asking import client_of
from bailiwick.cli.failures import UsageProblem
from bailiwick.cli.gateway_options import FoundGateway
from bailiwick.cli.interpreter import Interpreter, Manner
from bailiwick.client.credentials import Credentials
from bailiwick.client.errors import QueryFailed, Unreachable
from bailiwick.client.splitter import Command, Piece, Splitter, Unfinished, split

READ_BYTES = 64 << 10
_SIGN_IN_AGAIN = ("SESSION_EXPIRED", "AUTHENTICATION_FAILED")


class Prompt(Protocol):
    async def read(self) -> str:
        """What was typed. Raises KeyboardInterrupt at Ctrl-C, EOFError at Ctrl-D."""


ReadSome = Callable[[int], bytes]
"""Waits until something is there and gives at most so many bytes of it; nothing at the end."""


def run_shell(gateway: FoundGateway, credentials: Credentials, manner: Manner) -> None:
    """Until the person leaves. Raises Unreachable and QueryFailed only if nobody can sign in at all."""
    from bailiwick.cli.shell_history import KeptHistory, history_file
    from bailiwick.cli.shell_prompt import TerminalPrompt

    async def run() -> None:
        async with client_of(gateway, credentials) as client:
            how = "TLS" if gateway.encryption is not None else "plaintext"
            typer.echo(f"bailiwick {__version__} at {gateway.address} ({how}); \\? for help, \\q to leave")
            prompt = TerminalPrompt(KeptHistory(history_file()))
            await Shell(prompt, Interpreter(client, manner).carry_out, client.login).run()

    asyncio.run(run())


def run_piped(gateway: FoundGateway, credentials: Credentials, manner: Manner, read_some: ReadSome) -> None:
    """Every statement of a pipe, each when it is complete. The first failure is raised, and the last act."""

    async def run() -> None:
        async with client_of(gateway, credentials) as client:
            interpreter = Interpreter(client, manner)
            async for piece in _pieces(read_some):
                if not await interpreter.carry_out(piece):
                    return

    asyncio.run(run())


CarryOut = Callable[[Piece], Coroutine[Any, Any, bool]]
"""Do what a piece says; False if it says to leave."""


class Shell:
    """Reads, has it carried out, tells what went wrong, and reads again."""

    def __init__(self, prompt: Prompt, carry_out: CarryOut, sign_in: Callable[[], Awaitable[None]]) -> None:
        self._prompt = prompt
        self._carry_out = carry_out
        self._sign_in = sign_in
        self._running: asyncio.Task[bool] | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            while await self._turn():
                pass
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _turn(self) -> bool:
        """One entry. False: the person wants to leave."""
        try:
            entry = await self._prompt.read()
        except KeyboardInterrupt:
            return True
        except EOFError:
            return False
        try:
            for piece in _typed(entry):
                if not await self._interruptible(self._carry_out(piece)):
                    return False
        except asyncio.CancelledError:
            # The terminal has just written ^C where the cursor stood.
            _say("\ncancelled")
        except QueryFailed as failure:
            await self._explain(failure)
        except (Unreachable, UsageProblem, Unfinished) as problem:
            _say(f"error: {problem}")
        return True

    async def _interruptible(self, work: Coroutine[Any, Any, bool]) -> bool:
        self._running = asyncio.create_task(work)
        try:
            return await self._running
        finally:
            self._running = None

    def _interrupt(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _explain(self, failure: QueryFailed) -> None:
        _say(f"{failure.code}: {failure.message}")
        if failure.query_id:
            _say(f"query {failure.query_id}")
        if failure.code in _SIGN_IN_AGAIN:
            try:
                await self._sign_in()
            except (QueryFailed, Unreachable):
                _say("signing in again failed")
            else:
                _say("signed in again; send it once more")


def _typed(entry: str) -> list[Piece]:
    if entry.strip().lower() in ("exit", "quit"):
        return [Command("\\q")]
    return split(entry)


async def _pieces(read_some: ReadSome) -> AsyncIterator[Piece]:
    """The pieces of what comes through a pipe, as soon as each is complete."""
    splitter, decoder = Splitter(), codecs.getincrementaldecoder("utf-8")()
    try:
        while content := await asyncio.to_thread(read_some, READ_BYTES):
            for piece in splitter.feed(decoder.decode(content)):
                yield piece
        decoder.decode(b"", final=True)
        for piece in splitter.finish():
            yield piece
    except Unfinished as error:
        raise QueryFailed("SYNTAX_ERROR", str(error)) from error
    except UnicodeDecodeError as error:
        raise UsageProblem("what comes on stdin is not UTF-8") from error


def _say(line: str) -> None:
    typer.echo(line, err=True)
