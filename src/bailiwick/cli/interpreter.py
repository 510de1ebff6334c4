r"""Carries out what comes out of a text of statements: SQL on the gateway, `\…` here.

It knows neither the terminal nor the pipe that the text came from, and raises what goes wrong.
"""

import sys
from dataclasses import dataclass, replace
from typing import assert_never

import pyarrow as pa
import typer

from bailiwick.cli import shell_catalog
from bailiwick.cli.asking import ask
from bailiwick.cli.query import ROWS_MAX, Format
from bailiwick.cli.render import Ending, Limited, Sink, TableSink, sink_for
from bailiwick.cli.shell_commands import (
    HELP,
    DescribeTable,
    ListCatalogs,
    ListNamespaces,
    ListTables,
    Order,
    Quit,
    SetFormat,
    SetRows,
    ShowHelp,
    SwitchProgress,
    SwitchTiming,
    read_order,
)
from bailiwick.client.flight import FlightClient
from bailiwick.client.splitter import Command, Piece, Sql

LISTED_MAX = 10_000
MORE_ROWS = "\\rows N shows more"


@dataclass(frozen=True, slots=True)
class Manner:
    """How answers are shown."""

    format: Format = Format.TABLE
    rows_max: int = ROWS_MAX
    has_timing: bool = True
    has_progress: bool = True
    is_limited: bool = False
    """Whether `rows_max` holds for every format, not for tables alone."""


class Interpreter:
    def __init__(self, client: FlightClient, manner: Manner) -> None:
        self._client = client
        self._manner = manner

    async def carry_out(self, piece: Piece) -> bool:
        """False: it was time to leave. Raises UsageProblem and ClientError."""
        match piece:
            case Sql(text):
                await self._run(text)
                return True
            case Command(text):
                return await self._obey(read_order(text))

    async def _run(self, statement: str) -> None:
        ending = await ask(self._client, statement, self._sink(), is_watched=self._manner.has_progress)
        if self._manner.has_timing and self._manner.is_limited and self._manner.format is not Format.TABLE:
            typer.echo(f"({ending.elapsed_s:.2f} s)", err=True)

    def _sink(self) -> Sink:
        manner = self._manner
        sink = sink_for(
            manner.format, rows_max=manner.rows_max, has_timing=manner.has_timing, more_rows=MORE_ROWS
        )
        if manner.is_limited and manner.format is not Format.TABLE:
            return Limited(sink, rows_max=manner.rows_max, more_rows=MORE_ROWS)
        return sink

    async def _obey(self, order: Order) -> bool:
        match order:
            case Quit():
                return False
            case ShowHelp():
                typer.echo(HELP, nl=False)
            case ListCatalogs():
                self._show(await shell_catalog.catalogs(self._answer))
            case ListNamespaces(pattern):
                self._show(await shell_catalog.namespaces(self._answer, pattern))
            case ListTables(pattern):
                self._show(await shell_catalog.tables(self._answer, pattern))
            case DescribeTable(name):
                self._show(await shell_catalog.columns(self._answer, name))
            case _:
                self._manner = changed(self._manner, order)
        return True

    async def _answer(self, statement: str) -> pa.Table:
        async with self._client.execute(statement) as answer:
            return await answer.table()

    def _show(self, answer: pa.Table) -> None:
        sink = TableSink(sys.stdout, rows_max=LISTED_MAX, has_timing=False, more_rows="give a pattern")
        sink.begin(answer.schema)
        for batch in answer.to_batches():
            sink.take(batch)
        sink.end(Ending(-1, 0.0))


def changed(manner: Manner, order: SetFormat | SetRows | SwitchTiming | SwitchProgress) -> Manner:
    """The manner after the order, which is told on stdout."""
    match order:
        case SetFormat(format):
            typer.echo(f"answers come as {format}")
            return replace(manner, format=format)
        case SetRows(rows_max):
            typer.echo(f"at most {rows_max} rows are shown")
            return replace(manner, rows_max=rows_max)
        case SwitchTiming(on):
            is_on = not manner.has_timing if on is None else on
            typer.echo(f"timing is {_on(is_on)}")
            return replace(manner, has_timing=is_on)
        case SwitchProgress(on):
            is_on = not manner.has_progress if on is None else on
            typer.echo(f"progress is {_on(is_on)}")
            return replace(manner, has_progress=is_on)
        case _:
            assert_never(order)


def _on(is_on: bool) -> str:
    return "on" if is_on else "off"
