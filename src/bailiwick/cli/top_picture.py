"""What `bailiwick top` draws of what it was told. Pure: it asks nobody and reads no clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bailiwick.cli.cells import printable

Row = Mapping[str, Any]

SQL_SHOWN_MAX: Final = 200
_LATELY_S: Final = 60.0
_NARROW: Final = 120
"""Below so many columns of a terminal, only what matters most is shown."""
_LINES_AROUND: Final = 12
"""Titles, headings and empty lines."""
_NOTHING: Final = "–"
_HEALTH: Final = {"healthy": "green", "ready": "green", "demoted": "red", "held_down": "red", "gone": "red"}
_WATERMARKS: Final = {"green": "green", "yellow": "yellow", "orange": "dark_orange", "red": "red"}
_STEPS: Final = (("s", 1.0), ("m", 60.0), ("h", 3600.0))


@dataclass(frozen=True, slots=True)
class Picture:
    """What a gateway tells of one moment."""

    nodes: Sequence[Row] = ()
    queries: Sequence[Row] = ()
    """Those that live, and those that ended within the last minute."""

    @property
    def running(self) -> list[Row]:
        living = [row for row in self.queries if row["ended"] is False and row["state"] != "queued"]
        return sorted(living, key=lambda row: -row["elapsed_ms"])

    @property
    def waiting(self) -> list[Row]:
        queued = [row for row in self.queries if row["ended"] is False and row["state"] == "queued"]
        return sorted(queued, key=lambda row: (row["queue_position"] or 0, -row["elapsed_ms"]))

    @property
    def ended(self) -> list[Row]:
        return [row for row in self.queries if row["ended"]]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Callable[[Row], Text]
    is_number: bool = False
    is_optional: bool = False
    """Left out where there is little room."""


def drawn(
    picture: Picture, *, title: str, trouble: str | None = None, width: int = 200, lines: int = 1_000
) -> RenderableType:
    """The picture, in about so many lines."""
    rows_max = max(6, lines - _LINES_AROUND) // 3
    parts: list[RenderableType] = [Text(printable(title), style="bold"), Text(_summary(picture))]
    if trouble is not None:
        parts.append(Text(printable(trouble), style="red"))
    for name, rows, columns in (
        ("engines", picture.nodes, _NODE_COLUMNS),
        ("running", picture.running, _RUNNING_COLUMNS),
        ("waiting", picture.waiting, _WAITING_COLUMNS),
    ):
        shown = [each for each in columns if width >= _NARROW or not each.is_optional]
        parts += [Text(), *_section(name, rows, rows_max, shown)]
    return Group(*parts)


def _section(
    name: str, rows: Sequence[Row], rows_max: int, columns: Sequence[Column]
) -> list[RenderableType]:
    if not rows:
        note = " (none, or none that you may see)" if name == "engines" else " (none)"
        return [Text.assemble((name, "bold"), (note, "dim"))]
    parts: list[RenderableType] = [
        Text(f"{name} ({len(rows)})", style="bold"),
        _table(rows[:rows_max], columns),
    ]
    if len(rows) > rows_max:
        parts.append(Text(f"… and {len(rows) - rows_max} more", style="dim"))
    return parts


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        # Rich shortens what may wrap before anything else; the text itself says that it does not.
        table.add_column(
            column.name, justify="right" if column.is_number else "left", no_wrap=column.name != "sql"
        )
    for row in rows:
        table.add_row(*(column.cell(row) for column in columns))
    return table


def _summary(picture: Picture) -> str:
    ended = sorted(row["elapsed_ms"] for row in picture.ended)
    failed = sum(row["state"] == "failed" for row in picture.ended)
    lately = f"last minute: {len(ended)} ended ({len(ended) / _LATELY_S:.1f}/s), {failed} failed"
    if ended:
        lately += f", median {_duration(_quantile(ended, 0.5))}, p95 {_duration(_quantile(ended, 0.95))}"
    return f"{len(picture.running)} running, {len(picture.waiting)} waiting; {lately}"


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _text(value: object, *, nothing: str = _NOTHING) -> Text:
    return Text(nothing if value is None else printable(str(value)))


def _health(row: Row) -> Text:
    health = row["health"] or row["state"]
    return Text(printable(health), style=_HEALTH.get(health, "yellow"))


def _sql(row: Row) -> Text:
    text = printable(" ".join(str(row["sql"] or "").split()))
    return Text(text[:SQL_SHOWN_MAX], no_wrap=True, overflow="ellipsis")


def _memory(row: Row) -> Text:
    ratio = row["memory_utilization"]
    if ratio is None:
        return Text(_NOTHING)
    return Text(f"{ratio:.0%}", style=_WATERMARKS.get(row["watermark"] or "", ""))


def _where(row: Row) -> Text:
    return _text(f"{row['node_id'] or _NOTHING}{' (fallback)' if row['is_fallback'] else ''}")


def _tasks(row: Row) -> Text:
    return _text(f"{row['tasks_done'] or 0}/{row['tasks_total']}" if row["tasks_total"] else None)


def _milliseconds(value: float | None) -> Text:
    return Text(_NOTHING if value is None else _duration(value))


def _seconds(value: float | None) -> Text:
    return _milliseconds(None if value is None else value * 1_000)


def _duration(milliseconds: float) -> str:
    """Short enough for a column.

    >>> [_duration(ms) for ms in (12.4, 1500, 75_000, 7_300_000)]
    ['12 ms', '1.5 s', '1.2 m', '2.0 h']
    """
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    unit, step = next(
        ((unit, step) for unit, step in reversed(_STEPS) if milliseconds >= step * 1_000), _STEPS[0]
    )
    return f"{milliseconds / 1_000 / step:.1f} {unit}"


_NODE_COLUMNS: Final = (
    Column("engine", lambda row: _text(row["node_id"])),
    Column("class", lambda row: _text(row["class"]), is_optional=True),
    Column("health", _health),
    Column("cores", lambda row: _text(row["cores"]), is_number=True),
    Column("running", lambda row: _text(row["running"]), is_number=True),
    Column("active", lambda row: _text(row["active"]), is_number=True, is_optional=True),
    Column("memory", _memory, is_number=True),
    Column("waited", lambda row: _seconds(row["queue_s"]), is_number=True, is_optional=True),
    Column("heard", lambda row: _seconds(row["heartbeat_age_s"]), is_number=True),
    Column("starts", lambda row: _text(row["restarts"] + 1), is_number=True, is_optional=True),
    Column("why", lambda row: _text(row["why"], nothing="")),
)
_QUERY: Final = Column("query", lambda row: _text(row["query_id"]))
_WHO: Final = Column("who", lambda row: _text(row["principal"]))
_FOR: Final = Column("for", lambda row: _milliseconds(row["elapsed_ms"]), is_number=True)
_SQL: Final = Column("sql", _sql)
_RUNNING_COLUMNS: Final = (
    _QUERY,
    _WHO,
    Column("engine", _where),
    Column("state", lambda row: _text(row["state"]), is_optional=True),
    _FOR,
    Column("queued", lambda row: _milliseconds(row["queued_ms"]), is_number=True, is_optional=True),
    Column("tasks", _tasks, is_number=True),
    Column("rows", lambda row: _text(row["rows"]), is_number=True, is_optional=True),
    Column("try", lambda row: _text(row["attempts"]), is_number=True, is_optional=True),
    _SQL,
)
_WAITING_COLUMNS: Final = (
    Column("place", lambda row: _text(row["queue_position"]), is_number=True),
    _QUERY,
    _WHO,
    _FOR,
    Column("tries", lambda row: _text(row["attempts"]), is_number=True, is_optional=True),
    _SQL,
)
