"""One task of Spark: the smallest piece of a query's work, as the engine remembers it.

Counts and times only. No value of a row, no message and no host is in it.
"""

from dataclasses import dataclass

from bailiwick.ids import QueryId

STATES = frozenset({"running", "finished", "failed", "killed"})


@dataclass(frozen=True, slots=True)
class EngineTask:
    query_id: QueryId
    stage: int
    stage_attempt: int
    index: int
    """Which of the stage's tasks."""
    attempt: int
    """Counts from 0: Spark runs a task again when it has failed, or when it is slow."""
    executor: str
    state: str
    elapsed_ms: int
    input_rows: int | None = None
    """From storage and from other tasks. None while it runs, as the other counts are."""
    output_rows: int | None = None
    """Written to storage or for other tasks; None also for what goes to the driver, which Spark does not
    count."""
    read_bytes: int | None = None
    spilled_bytes: int | None = None
    """Written to disk and read again, because memory did not hold it."""

    @property
    def id(self) -> str:
        """Names the task within its query on one engine; its attempts share it.

        >>> EngineTask(QueryId("q1"), 7, 0, 3, 1, "driver", "failed", 12).id
        '7.0.3'
        """
        return f"{self.stage}.{self.stage_attempt}.{self.index}"
