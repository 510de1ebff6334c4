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
Draw = Callable[[Sequence[Row]], Table]

SQL_SHOWN_MAX: Final = 200
_LATELY_S: Final = 60.0
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


def drawn(picture: Picture, *, title: str, trouble: str | None = None, lines: int = 1_000) -> RenderableType:
    """The picture, in about so many lines."""
    room = max(6, lines - _LINES_AROUND)
    parts: list[RenderableType] = [Text(printable(title), style="bold"), Text(_summary(picture))]
    if trouble is not None:
        parts.append(Text(printable(trouble), style="red"))
    parts += [Text(), *_section("engines", picture.nodes, room // 3, _node_table)]
    parts += [Text(), *_section("running", picture.running, room // 3, _running_table)]
    parts += [Text(), *_section("waiting", picture.waiting, room // 3, _waiting_table)]
    return Group(*parts)


def _section(name: str, rows: Sequence[Row], rows_max: int, draw: Draw) -> list[RenderableType]:
    if not rows:
        note = " (none, or none that you may see)" if name == "engines" else " (none)"
        return [Text.assemble((name, "bold"), (note, "dim"))]
    parts: list[RenderableType] = [Text(f"{name} ({len(rows)})", style="bold"), draw(rows[:rows_max])]
    if len(rows) > rows_max:
        parts.append(Text(f"… and {len(rows) - rows_max} more", style="dim"))
    return parts


def _summary(picture: Picture) -> str:
    ended = sorted(row["elapsed_ms"] for row in picture.ended)
    failed = sum(row["state"] == "failed" for row in picture.ended)
    lately = f"last minute: {len(ended)} ended ({len(ended) / _LATELY_S:.1f}/s), {failed} failed"
    if ended:
        lately += f", median {_duration(_quantile(ended, 0.5))}, p95 {_duration(_quantile(ended, 0.95))}"
    return f"{len(picture.running)} running, {len(picture.waiting)} waiting; {lately}"


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _node_table(rows: Sequence[Row]) -> Table:
    table = _table(
        "engine", "class", "health", "cores>", "running>", "active>", "memory>", "waited>", "heard>"
    )
    table.add_column("starts", justify="right")
    table.add_column("why", overflow="fold")
    for row in rows:
        health = row["health"] or row["state"]
        table.add_row(
            _text(row["node_id"]),
            _text(row["class"]),
            Text(printable(health), style=_HEALTH.get(health, "yellow")),
            _text(row["cores"]),
            _text(row["running"]),
            _text(row["active"]),
            _memory(row),
            _seconds(row["queue_s"]),
            _seconds(row["heartbeat_age_s"]),
            _text(row["restarts"] + 1),
            _text(row["why"], nothing=""),
        )
    return table


def _running_table(rows: Sequence[Row]) -> Table:
    table = _table("query", "who", "engine", "state", "for>", "queued>", "tasks>", "rows>", "try>", "sql")
    for row in rows:
        where = f"{row['node_id'] or _NOTHING}{' (fallback)' if row['is_fallback'] else ''}"
        table.add_row(
            _text(row["query_id"]),
            _text(row["principal"]),
            _text(where),
            _text(row["state"]),
            Text(_duration(row["elapsed_ms"])),
            Text(_NOTHING if row["queued_ms"] is None else _duration(row["queued_ms"])),
            _text(f"{row['tasks_done'] or 0}/{row['tasks_total']}" if row["tasks_total"] else None),
            _text(row["rows"]),
            _text(row["attempts"]),
            _sql(row),
        )
    return table


def _waiting_table(rows: Sequence[Row]) -> Table:
    table = _table("place>", "query", "who", "for>", "tries>", "sql")
    for row in rows:
        table.add_row(
            _text(row["queue_position"]),
            _text(row["query_id"]),
            _text(row["principal"]),
            Text(_duration(row["elapsed_ms"])),
            _text(row["attempts"]),
            _sql(row),
        )
    return table


def _table(*columns: str) -> Table:
    """A column whose name ends with `>` is for numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        is_sql = name == "sql"
        table.add_column(
            name.removesuffix(">"),
            justify="right" if name.endswith(">") else "left",
            no_wrap=True,
            overflow="ellipsis" if is_sql else "fold",
            ratio=1 if is_sql else None,
        )
    return table


def _text(value: object, *, nothing: str = _NOTHING) -> Text:
    return Text(nothing if value is None else printable(str(value)))


def _sql(row: Row) -> Text:
    return Text(printable(" ".join(str(row["sql"] or "").split()))[:SQL_SHOWN_MAX])


def _memory(row: Row) -> Text:
    ratio = row["memory_utilization"]
    if ratio is None:
        return Text(_NOTHING)
    return Text(f"{ratio:.0%}", style=_WATERMARKS.get(row["watermark"] or "", ""))


def _seconds(value: float | None) -> Text:
    return Text(_NOTHING if value is None else _duration(value * 1_000))


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
