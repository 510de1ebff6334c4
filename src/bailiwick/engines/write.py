"""A write of whole rows: where they come from, and where they go.

The rows are either at hand, as Arrow, or in a table that the engine can read. Columns go by their names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

PACK_ROWS = 1024


class WriteMode(StrEnum):
    APPEND = "append"
    """To a table that is there."""
    CREATE = "create"
    """A table that must not be there yet."""
    REPLACE = "replace"
    """A table that must be there: its rows and columns become these, its history stays."""
    CREATE_OR_REPLACE = "create_or_replace"


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows as `packed` makes them, of these columns. The engine holds all of them in memory at once."""

    data: bytes
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableRows:
    """All rows of a table."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """Write `rows` to `table` in one commit. `properties` are those of a table that is made."""

    table: tuple[str, ...]
    mode: WriteMode
    rows: ArrowRows | TableRows
    properties: Mapping[str, str] = field(default_factory=dict)


def packed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """An Arrow IPC stream in which one row holds lists of up to `PACK_ROWS` values, a list for each column.

    Spark keeps rows that it is handed as objects, and hands each of them on to its tasks: a few long ones
    cost it a small part of what the same values cost as many short ones. Nothing is copied for it here.
    """
    lists = pa.schema([pa.field(f"c{index}", pa.list_(one.type)) for index, one in enumerate(schema)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, lists) as writer:
        for batch in batches:
            ends = [*range(0, batch.num_rows, PACK_ROWS), batch.num_rows]
            offsets = pa.array(ends if batch.num_rows else [0], pa.int32())
            arrays = [pa.ListArray.from_arrays(offsets, column) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=lists))
    data: bytes = sink.getvalue().to_pybytes()
    return data
