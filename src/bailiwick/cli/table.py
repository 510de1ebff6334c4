"""Drawing a table. One that is too wide for the terminal is drawn as records, a column a line."""

from collections.abc import Sequence
from typing import TextIO

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bailiwick.cli.cells import Cell, printable, text
from bailiwick.cli.cells import rows as rows_of

CELL_LENGTH_MAX = 1_000
_COLUMN_PADDING = 3


def draw(
    stream: TextIO, names: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[Cell]]
) -> None:
    """Draw all rows. Where nobody's terminal limits it, a table is as wide as it needs to be."""
    shown = [[_shown(cell) for cell in row] for row in rows]
    headers = [printable(name) for name in names]
    widths = [
        max(cell_len(header), max((cell_len(row[index].plain) for row in shown), default=0))
        for index, header in enumerate(headers)
    ]
    needed = sum(widths) + _COLUMN_PADDING * len(widths)
    console = Console(file=stream, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(file=stream, highlight=False, width=max(needed, 20))
    if needed <= console.width:
        _draw_grid(console, headers, numeric, shown)
    else:
        _draw_records(console, headers, shown)


def draw_answer(stream: TextIO, answer: pa.Table) -> None:
    """Draw a whole small answer."""
    numeric = [is_numeric(field.type) for field in answer.schema]
    draw(
        stream, answer.schema.names, numeric, [row for batch in answer.to_batches() for row in rows_of(batch)]
    )


def is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _draw_grid(
    console: Console, headers: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[Text]]
) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header, right in zip(headers, numeric, strict=True):
        table.add_column(Text(header), justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _draw_records(console: Console, headers: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    for number, row in enumerate(rows, 1):
        console.print(Text(f"row {number}", style="bold"))
        record = Table.grid(padding=(0, 2))
        record.add_column(style="cyan")
        record.add_column(overflow="fold")
        for header, cell in zip(headers, row, strict=True):
            record.add_row(Text(header), cell)
        console.print(record)


def _shown(cell: Cell) -> Text:
    if cell is None:
        return Text("NULL", style="dim")
    whole = text(cell)
    cut = whole if len(whole) <= CELL_LENGTH_MAX else f"{whole[:CELL_LENGTH_MAX]}…"
    return Text(printable(cut))
