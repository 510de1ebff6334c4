"""What an engine remembers of its tasks: the question as our Java (`TasksAnswer`) takes it, and the answer.

An answer is taken apart as strictly as a client's message: the engine is another process.
"""

import json
from typing import Any, Final

from google.protobuf.any_pb2 import Any as AnyMessage
from pyspark.sql.connect import proto

from bailiwick.engines.task import STATES, EngineTask
from bailiwick.errors import BailiwickError, Code
from bailiwick.ids import QueryId

TASKS_TYPE_URL: Final = "type.googleapis.com/bailiwick.Tasks"
TASKS_MAX: Final = 5_000
"""As many as an engine remembers."""

_NAME_LENGTH_MAX: Final = 100
_NUMBER_MAX: Final = (1 << 63) - 1


def tasks_plan() -> proto.Plan:
    """The plan that answers with all tasks in one row of JSON, and runs no job."""
    plan = proto.Plan()
    plan.root.extension.CopyFrom(AnyMessage(type_url=TASKS_TYPE_URL))
    return plan


def parse_tasks(text: str) -> tuple[EngineTask, ...]:
    """Raises INTERNAL_ERROR if the answer is not what `io.bailiwick.Tasks` tells."""
    try:
        rows = json.loads(text)
        if not isinstance(rows, list) or len(rows) > TASKS_MAX:
            raise ValueError("no list of tasks, or too long a one")
        return tuple(_task(*row) for row in rows)
    except (ValueError, TypeError, RecursionError) as error:
        raise BailiwickError(
            Code.INTERNAL_ERROR,
            "The engine told its tasks in a way that the gateway does not understand.",
            cause_text=f"{type(error).__name__}: {error}",
        ) from error


def _task(
    query_id: Any,
    stage: Any,
    stage_attempt: Any,
    index: Any,
    attempt: Any,
    executor: Any,
    state: Any,
    elapsed_ms: Any,
    input_rows: Any,
    output_rows: Any,
    read_bytes: Any,
    spilled_bytes: Any,
) -> EngineTask:
    if state not in STATES:
        raise ValueError("an unknown state")
    return EngineTask(
        QueryId(_name(query_id)),
        _number(stage),
        _number(stage_attempt),
        _number(index),
        _number(attempt),
        _name(executor),
        state,
        _number(elapsed_ms),
        _count(input_rows),
        _count(output_rows),
        _count(read_bytes),
        _count(spilled_bytes),
    )


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_LENGTH_MAX:
        raise ValueError("no name")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ValueError("no number")
    return value


def _count(value: Any) -> int | None:
    """-1 stands for what nobody counted."""
    return None if value == -1 else _number(value)
