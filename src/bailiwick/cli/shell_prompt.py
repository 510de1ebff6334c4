"""Where a person types: several lines, with colours and history, until every statement has its semicolon."""

from prompt_toolkit import PromptSession
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import create_output
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from bailiwick.client.splitter import Unfinished, is_complete

PROMPT = "bailiwick> "
CONTINUATION = "       ... "


class TerminalPrompt:
    def __init__(self, history: History) -> None:
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=CONTINUATION,
            history=history,
            key_bindings=_bindings(),
            lexer=PygmentsLexer(SqlLexer),
            # Answers may go to a file; the prompt is for the person.
            output=create_output(always_prefer_tty=True),
        )

    async def read(self) -> str:
        """What was typed. Raises KeyboardInterrupt at Ctrl-C, EOFError at Ctrl-D."""
        # Ctrl-C is a key while one types; as a signal it belongs to the query that runs.
        return await self._session.prompt_async(handle_sigint=False)


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if _is_done(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


def _is_done(text: str) -> bool:
    try:
        return text.strip().lower() in ("exit", "quit") or is_complete(text)
    except Unfinished:
        return True
