"""Spark's messages, made fit to be read by the person whose statement failed.

Spark's text carries its condition, its SQLSTATE, the statement, the plan and sometimes a stack trace. The
first two travel beside the message, so they are cut; plans and traces say nothing to the author of a
statement and much to someone who should not know.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from bailiwick.errors import Position
from bailiwick.telemetry.scrub import bounded, scrub, without_traces

MESSAGE_LENGTH_MAX: Final = 2_000
_CONTEXT_LENGTH_MAX: Final = 4 << 20
_CONTEXT_LINES_MAX: Final = 12
_CONTEXT_LINE_LENGTH_MAX: Final = 200

_CONDITION = re.compile(r"^\s*\[[A-Z_][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\]\s*")
# How Iceberg's REST client introduces what the catalog said.
_CATALOG_PREFIX = re.compile(r"^(?:Forbidden|Malformed request|Not authorized|Unprocessable entity): ")
_SQLSTATE = re.compile(r"\s*\bSQLSTATE: ([0-9A-Z]{5})\b")
_CONTEXT = re.compile(r"(?m)^== (?:SQL|DataFrame|Expression)\b.*==[ ]*$")
_MARK = re.compile(r"[ -]*\^+\s*")
# Spark puts the plan behind a semicolon at the end of a line.
_PLAN = re.compile(r"(?:; line \d+ pos \d+)?;\n(?='?[A-Z+])")
_TRAILING_POSITION = re.compile(r"(?:[;,]? ?line \d+ pos \d+|\(line \d+, pos \d+\))[;.]?\s*$")
# Advice to change a setting that no client of ours may change.
_FORBIDDEN_ADVICE = re.compile(
    r'\s*(?:If necessary|To bypass this error,?) set "spark\.[\w.]+" to "?\w+"?[^.]*\.'
)

_POSITIONS: Final = (
    (re.compile(r"\(line (\d+), pos (\d+)\)"), 1),
    (re.compile(r"\bline (\d+) pos (\d+)"), 1),
    (re.compile(r"== SQL \(line (\d+), position (\d+)\) =="), 0),
)
"""Spark counts columns from 0 in the first two forms and from 1 in the last; lines from 1 in all."""

_TASK_FAILURE = re.compile(
    r"(?:\): |^|\n)(?P<name>(?:[a-z]\w*\.)+(?:[A-Z][\w$]*(?:Exception|Error|Throwable|Failure)|Denied))"
    r"(?:: (?P<text>[^\n]*))?"
)
_EMBEDDED_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] ")
_PYTHON_TRACE: Final = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'\s*File "(?:[^"]*/)?([^"/]*)", (line \d+, in .*)')
_MISPLACED_PARAMETER = re.compile(r"^Internal error: Unexpected parameter marker .*", re.DOTALL)
_MISPLACED_PARAMETER_SENTENCE: Final = (
    "A parameter cannot stand there: it takes the place of a value in an expression, not of a name, a "
    "property or a part of a literal."
)


_GUARD_PREFIX: Final = "BAILIWICK_DENIED "


@dataclass(frozen=True, slots=True)
class GuardRefusal:
    """What the guard says when it refuses. The message is its own and fit to be shown."""

    reason: str
    message: str


def guard_refusal(text: str) -> GuardRefusal | None:
    """Read what follows the guard's mark; None where there is none, or what follows is not the guard's."""
    _, mark, rest = text.partition(_GUARD_PREFIX)
    if not mark:
        return None
    try:
        told, _ = json.JSONDecoder().raw_decode(rest)
        return GuardRefusal(str(told["reason"]), bounded(str(told["message"]), MESSAGE_LENGTH_MAX))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def readable(message: str, *, keep_context: bool = False) -> str:
    """The sentence itself; with `keep_context` also the part of the statement that Spark points at."""
    head, context = _split_context(message)
    head = _CONDITION.sub("", head[: 4 * MESSAGE_LENGTH_MAX])
    plan = _PLAN.search(head)
    if plan is not None:
        head = head[: plan.start()]
    head = _FORBIDDEN_ADVICE.sub("", _SQLSTATE.sub("", without_traces(head)))
    head = _CATALOG_PREFIX.sub("", _TRAILING_POSITION.sub("", head.strip()).strip())
    head = _MISPLACED_PARAMETER.sub(_MISPLACED_PARAMETER_SENTENCE, head)
    text = f"{head}\n{_bounded_context(context)}" if keep_context and context else head
    return bounded(text.strip(), MESSAGE_LENGTH_MAX)


def python_failure(message: str) -> str:
    """What Python of the asker's own raised, with its frames; of files no more than their names.

    >>> print(python_failure('  File "/opt/lib/f.py", line 7, in f\\nKeyError: 1'))
      File "f.py", line 7, in f
    KeyError: 1
    """
    lines = []
    for line in _SQLSTATE.sub("", message[: 4 * MESSAGE_LENGTH_MAX]).strip().splitlines():
        if (frame := _PYTHON_FRAME.fullmatch(line)) is not None:
            lines.append(f'  File "{frame[1]}", {frame[2]}')
        else:
            lines.append(line if line == _PYTHON_TRACE else scrub(line))
    return bounded("\n".join(lines), MESSAGE_LENGTH_MAX)


def position(message: str) -> Position | None:
    """Where in the statement, if the message says so."""
    beginning = message[: 4 * MESSAGE_LENGTH_MAX]
    for form, column_offset in _POSITIONS:
        found = form.search(beginning)
        if found is not None:
            return Position(int(found[1]), int(found[2]) + column_offset)
    return None


def embedded_exception(message: str) -> tuple[str, str] | None:
    """The Java class and the text that a failed task reports inside the message of its job."""
    found = _TASK_FAILURE.search(message[: 4 * MESSAGE_LENGTH_MAX])
    return (found["name"], found["text"] or "") if found is not None else None


def embedded_condition(message: str) -> str | None:
    """The condition that a text without one of its own carries in brackets."""
    found = _EMBEDDED_CONDITION.search(message[: 4 * MESSAGE_LENGTH_MAX])
    return found[1] if found is not None else None


def embedded_sqlstate(message: str) -> str | None:
    found = _SQLSTATE.search(message[: 4 * MESSAGE_LENGTH_MAX])
    return found[1] if found is not None else None


def _split_context(message: str) -> tuple[str, str]:
    found = _CONTEXT.search(message)
    return (message, "") if found is None else (message[: found.start()], message[found.start() :])


def _bounded_context(context: str) -> str:
    """The lines down to the mark, each cut to a readable width; none if Spark cut the mark off."""
    lines = context[:_CONTEXT_LENGTH_MAX].splitlines()
    marked = next((number for number, line in enumerate(lines) if _MARK.fullmatch(line)), None)
    if marked is None:
        return ""
    kept = lines[max(0, marked + 1 - _CONTEXT_LINES_MAX) : marked + 1]
    return "\n".join(bounded(line, _CONTEXT_LINE_LENGTH_MAX) for line in kept)
