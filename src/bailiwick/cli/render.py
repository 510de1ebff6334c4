"""Results on their way to a person or a file: a table, CSV, JSON lines or an Arrow stream.

A sink takes batches as they come and keeps as little as its format allows. Only the table needs to see rows
before it can draw, so it keeps the first so many and says when there are more.
"""

import csv
import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import BinaryIO, TextIO

import pyarrow as pa

from bailiwick.cli.cells import Cell, rows, text
from bailiwick.cli.failures import UsageProblem
from bailiwick.cli.query import Format
from bailiwick.cli.table import draw, is_numeric


@dataclass(frozen=True, slots=True)
class Ending:
    affected_rows: int
    """-1 where nobody knows."""
    elapsed_s: float


class Sink(ABC):
    """Where an answer goes. `begin` once, `take` for each batch, `end` once if all went well."""

    @abstractmethod
    def begin(self, schema: pa.Schema) -> None: ...

    @abstractmethod
    def take(self, batch: pa.RecordBatch) -> bool:
        """False: enough, send no more."""

    @abstractmethod
    def end(self, ending: Ending, /) -> None: ...


MORE_ROWS = "raise --rows, or use --format csv"


def sink_for(format: Format, *, rows_max: int, has_timing: bool = True, more_rows: str = MORE_ROWS) -> Sink:
    match format:
        case Format.TABLE:
            return TableSink(sys.stdout, rows_max=rows_max, has_timing=has_timing, more_rows=more_rows)
        case Format.CSV:
            return CsvSink(sys.stdout)
        case Format.JSON:
            return JsonSink(sys.stdout)
        case Format.ARROW:
            if sys.stdout.isatty():
                raise UsageProblem("Arrow is not for reading: send it to a file or another program")
            return ArrowSink(sys.stdout.buffer)


class TableSink(Sink):
    def __init__(
        self, stream: TextIO, *, rows_max: int, has_timing: bool = True, more_rows: str = MORE_ROWS
    ) -> None:
        self._stream = stream
        self._rows_max = rows_max
        self._has_timing = has_timing
        self._more_rows = more_rows
        self._names: list[str] = []
        self._numeric: list[bool] = []
        self._rows: list[tuple[Cell, ...]] = []
        self._more = False

    def begin(self, schema: pa.Schema) -> None:
        self._names = schema.names
        self._numeric = [is_numeric(field.type) for field in schema]

    def take(self, batch: pa.RecordBatch) -> bool:
        room = self._rows_max - len(self._rows)
        self._rows.extend(rows(batch.slice(0, room)))
        self._more = batch.num_rows > room
        return not self._more

    def end(self, ending: Ending, /) -> None:
        if self._names:
            draw(self._stream, self._names, self._numeric, self._rows)
        took = f" ({ending.elapsed_s:.2f} s)" if self._has_timing else ""
        self._stream.write(f"{self._summary(ending.affected_rows)}{took}\n")
        self._stream.flush()

    def _summary(self, affected_rows: int) -> str:
        if self._more:
            return f"first {len(self._rows)} rows; there are more: {self._more_rows}"
        if self._names:
            return _counted(len(self._rows), "row")
        return f"done, {_counted(affected_rows, 'row')} changed" if affected_rows >= 0 else "done"


class CsvSink(Sink):
    """With a header; NULL is empty, binary is base64, nested values are JSON."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._writer = csv.writer(stream, lineterminator="\n")

    def begin(self, schema: pa.Schema) -> None:
        if len(schema):
            self._writer.writerow(schema.names)

    def take(self, batch: pa.RecordBatch) -> bool:
        if batch.num_columns:
            self._writer.writerows([text(cell) for cell in row] for row in rows(batch))
        return True

    def end(self, _ending: Ending, /) -> None:
        self._stream.flush()


class JsonSink(Sink):
    """One object a line. Decimals and non-finite numbers are texts, so that nothing is lost or invalid."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._names: list[str] = []

    def begin(self, schema: pa.Schema) -> None:
        self._names = distinct(schema.names)

    def take(self, batch: pa.RecordBatch) -> bool:
        for row in rows(batch):
            self._stream.write(
                json.dumps(dict(zip(self._names, row, strict=True)), ensure_ascii=False) + "\n"
            )
        return True

    def end(self, _ending: Ending, /) -> None:
        self._stream.flush()


class ArrowSink(Sink):
    """An Arrow IPC stream, as it came."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def begin(self, schema: pa.Schema) -> None:
        self._writer = pa.ipc.new_stream(self._stream, schema)

    def take(self, batch: pa.RecordBatch) -> bool:
        assert self._writer is not None, "begin comes first"  # noqa: S101
        self._writer.write_batch(batch)
        return True

    def end(self, _ending: Ending, /) -> None:
        if self._writer is not None:
            self._writer.close()
        self._stream.flush()


class Limited(Sink):
    """The first rows of an answer into another sink; a note on stderr says when there are more."""

    def __init__(self, sink: Sink, *, rows_max: int, more_rows: str) -> None:
        self._sink = sink
        self._rows_max = rows_max
        self._room = rows_max
        self._more_rows = more_rows

    def begin(self, schema: pa.Schema) -> None:
        self._sink.begin(schema)

    def take(self, batch: pa.RecordBatch) -> bool:
        is_more = batch.num_rows > self._room
        self._sink.take(batch.slice(0, self._room))
        self._room -= min(batch.num_rows, self._room)
        if is_more:
            sys.stderr.write(f"first {self._rows_max} rows; there are more: {self._more_rows}\n")
        return not is_more

    def end(self, ending: Ending, /) -> None:
        self._sink.end(ending)


def distinct(names: list[str]) -> list[str]:
    """The same names, a repeated one with a number: `a`, `a_2`. An object cannot hold a key twice."""
    taken: set[str] = set()
    result = []
    for each in names:
        number, candidate = 1, each
        while candidate in taken or (number > 1 and candidate in names):
            number += 1
            candidate = f"{each}_{number}"
        taken.add(candidate)
        result.append(candidate)
    return result


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
