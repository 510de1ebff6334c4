"""What Spark answers, made what the client is told: with the names it knows, without what it must not know.

Names of sessions, operations and responses are ours. Counts of rows and bytes that Spark read tell of rows
which a policy hides, so metrics are left out, and progress is counted in tasks. Rows pass as they are, not
decoded.
"""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect.operations import Operation
from bailiwick.doors.spark_connect.session import Session
from bailiwick.errors import BailiwickError, Code

_PASSED: Final = frozenset({"arrow_batch", "sql_command_result", "execution_progress", None})
"""None are responses with a schema or with what `observe` counted."""
WAITING_STAGE: Final = -1
"""What an operation is in before it has begun. None of Spark's has that number."""


class Answers:
    """Puts responses into the log of one operation."""

    def __init__(self, session: Session, operation: Operation) -> None:
        self._session = session
        self._operation = operation

    async def add(self, response: Any) -> None:
        """One of Spark's. NOT_SUPPORTED for kinds that no allowed plan is answered with."""
        kind = response.WhichOneof("response_type")
        if kind == "result_complete":
            return  # Ours follows, when the end is on record.
        if kind not in _PASSED:
            raise BailiwickError(Code.NOT_SUPPORTED, f"Spark answered with {kind}, which is not supported.")
        response.ClearField("metrics")
        if kind == "execution_progress":
            if not response.execution_progress.stages:
                return  # It tells nothing, and clients answer each response with a call.
            for stage in response.execution_progress.stages:
                stage.input_bytes_read = 0
        if kind is None and not response.HasField("schema") and not response.observed_metrics:
            return
        await self._append(response)

    async def waiting(self) -> None:
        """A sign of life for the client of an operation that has not begun."""
        response = proto.ExecutePlanResponse()
        # PySpark shows nothing as long as there are no tasks.
        response.execution_progress.stages.add(stage_id=WAITING_STAGE, num_tasks=1)
        await self._append(response)

    async def relation(self, relation: Any) -> None:
        """What a statement is from now on, for the client to ask for."""
        response = proto.ExecutePlanResponse()
        response.sql_command_result.relation.CopyFrom(relation)
        await self._append(response)

    async def complete(self) -> None:
        response = proto.ExecutePlanResponse()
        response.result_complete.SetInParent()
        await self._append(response)

    async def _append(self, response: Any) -> None:
        response.session_id = self._session.id
        response.server_side_session_id = self._session.server_side_id
        response.operation_id = self._operation.id

        def named(response_id: str) -> bytes:
            response.response_id = response_id
            return bytes(response.SerializeToString())

        await self._operation.log.append(named)


def local_relation(table: pa.Table) -> Any:
    """Rows of ours inside a plan."""
    relation = proto.Relation()
    relation.local_relation.data = ipc(table.schema, table.to_batches())
    return relation


def ipc(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    """A whole Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
