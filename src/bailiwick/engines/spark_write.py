"""A write of rows, as the plan that Spark Connect takes. Nothing of it is SQL text."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql.connect import proto

from bailiwick.engines.description import full_name
from bailiwick.engines.write import ArrowRows, TableRows, Write, WriteMode

PROVIDER: Final = "iceberg"

_MODES: Final = {
    WriteMode.APPEND: proto.WriteOperationV2.MODE_APPEND,
    WriteMode.CREATE: proto.WriteOperationV2.MODE_CREATE,
    WriteMode.REPLACE: proto.WriteOperationV2.MODE_REPLACE,
    WriteMode.CREATE_OR_REPLACE: proto.WriteOperationV2.MODE_CREATE_OR_REPLACE,
}


def write_plan(write: Write) -> proto.Plan:
    """The command that does it."""
    plan = proto.Plan()
    operation = plan.command.write_operation_v2
    operation.table_name = full_name(write.table)
    operation.mode = _MODES[write.mode]
    if write.mode is not WriteMode.APPEND:
        operation.provider = PROVIDER
        operation.table_properties.update(write.properties)
    match write.rows:
        case ArrowRows(data, columns):
            _unpack(operation.input.to_df, data, columns)
        case TableRows(table):
            operation.input.read.named_table.unparsed_identifier = full_name(table)
    return plan


def _unpack(named: proto.ToDF, data: bytes, columns: Sequence[str]) -> None:
    """Rows again out of lists, a column for each list, and only then under their names."""
    project = named.input.project
    project.input.local_relation.data = data
    lists = ", ".join(f"c{index}" for index in range(len(columns)))
    project.expressions.add().expression_string.expression = f"inline(arrays_zip({lists}))"
    named.column_names.extend(columns)
