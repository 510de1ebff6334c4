"""What a result looks like in each format."""

import csv
import io
import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from bailiwick.cli.cells import printable
from bailiwick.cli.render import ArrowSink, CsvSink, Ending, JsonSink, Sink, TableSink, distinct
from bailiwick.cli.table import draw_answer

KINDS = pa.table(
    {
        "flag": pa.array([True, None]),
        "big": pa.array([2**63 - 1, None], pa.int64()),
        "price": pa.array([Decimal("12345678901234567890.10"), None], pa.decimal128(38, 2)),
        "real": pa.array([float("nan"), None]),
        "name": pa.array(['a,"b"\n', None]),
        "raw": pa.array([b"\x00\xff", None]),
        "day": pa.array([3_000_000, None], pa.int32()).cast(pa.date32()),
        "moment": pa.array([datetime(2024, 1, 2, 3, 4, 5), None], pa.timestamp("us", tz="UTC")),
        "list": pa.array([[1, None], None], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        "struct": pa.array([{"x": 1.5, "y": None}, None]),
        "nothing": pa.array([None, None], pa.null()),
    }
)


def rendered(sink: Sink, table: pa.Table, affected_rows: int = -1) -> bool:
    sink.begin(table.schema)
    verdicts = [sink.take(batch) for batch in table.to_batches()]
    sink.end(Ending(affected_rows, 0.5))
    return all(verdicts)


def test_csv_keeps_every_value() -> None:
    stream = io.StringIO()
    assert rendered(CsvSink(stream), KINDS)
    header, full, empty = csv.reader(io.StringIO(stream.getvalue()))
    row = dict(zip(header, full, strict=True))
    assert header == KINDS.column_names
    assert row["big"] == "9223372036854775807"
    assert row["price"] == "12345678901234567890.10"
    assert row["name"] == 'a,"b"\n'
    assert row["raw"] == "AP8="
    assert row["day"] == "10183-09-21"
    assert row["moment"].startswith("2024-01-02 03:04:05")
    assert json.loads(row["list"]) == [1, None]
    assert json.loads(row["struct"]) == {"x": 1.5, "y": None}
    assert empty == [""] * len(KINDS.column_names)


def test_json_is_one_valid_object_a_line() -> None:
    stream = io.StringIO()
    rendered(JsonSink(stream), KINDS)
    full, empty = (json.loads(line, parse_constant=pytest.fail) for line in stream.getvalue().splitlines())
    assert full["big"] == 2**63 - 1
    assert full["price"] == "12345678901234567890.10"
    assert full["real"] == "nan"
    assert full["map"] == [["k", 1]]
    assert set(empty.values()) == {None}


def test_json_keeps_columns_of_the_same_name_apart() -> None:
    stream = io.StringIO()
    rendered(
        JsonSink(stream), pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "a_2"])
    )
    assert json.loads(stream.getvalue()) == {"a": 1, "a_3": 2, "a_2": 3}
    assert distinct(["x", "x", "x"]) == ["x", "x_2", "x_3"]


def test_arrow_comes_out_as_it_came() -> None:
    stream = io.BytesIO()
    rendered(ArrowSink(stream), KINDS)
    assert pa.ipc.open_stream(stream.getvalue()).read_all().schema == KINDS.schema


def test_an_empty_answer_is_still_an_answer_in_every_format() -> None:
    nothing = KINDS.slice(0, 0)
    text, lines, table, binary = io.StringIO(), io.StringIO(), io.StringIO(), io.BytesIO()
    for sink in (CsvSink(text), JsonSink(lines), TableSink(table, rows_max=5), ArrowSink(binary)):
        rendered(sink, nothing)
    assert text.getvalue().count("\n") == 1
    assert lines.getvalue() == ""
    assert "0 rows" in table.getvalue()
    assert pa.ipc.open_stream(binary.getvalue()).read_all().num_rows == 0


def test_a_table_shows_nulls_and_counts() -> None:
    stream = io.StringIO()
    assert rendered(TableSink(stream, rows_max=10), pa.table({"id": [1, None]}))
    assert "NULL" in stream.getvalue()
    assert "2 rows (0.50 s)" in stream.getvalue()


def test_a_table_keeps_no_more_than_it_may_show() -> None:
    stream = io.StringIO()
    assert not rendered(TableSink(stream, rows_max=3), pa.table({"id": range(100)}))
    assert "first 3 rows; there are more" in stream.getvalue()
    assert " 3\n" not in stream.getvalue()


def test_a_table_of_exactly_the_most_rows_is_whole() -> None:
    stream = io.StringIO()
    assert rendered(TableSink(stream, rows_max=3), pa.table({"id": range(3)}))
    assert "3 rows" in stream.getvalue()
    assert "more" not in stream.getvalue()


@pytest.mark.parametrize(("affected", "told"), [(-1, "done ("), (1, "1 row changed"), (3, "3 rows changed")])
def test_a_change_says_what_it_did(affected: int, told: str) -> None:
    stream = io.StringIO()
    rendered(TableSink(stream, rows_max=3), pa.table({}), affected)
    assert told in stream.getvalue()


def test_wide_tables_are_drawn_as_records_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    wide = pa.table({f"column_{number}": ["x" * 30] for number in range(20)})
    stream, file = Terminal(), io.StringIO()
    draw_answer(stream, wide)
    draw_answer(file, wide)
    assert "row 1" in stream.getvalue()
    assert stream.getvalue().count("x" * 30) == 20
    assert max(map(len, file.getvalue().splitlines())) > 600


def test_what_comes_out_of_a_table_cannot_steer_a_terminal() -> None:
    assert printable("\x1b[31mred\nü") == "\\x1b[31mred\\nü"
    stream = io.StringIO()
    draw_answer(stream, pa.table({"evil\x1b]0;title\x07": ["[bold]\x1b[2J"]}))
    assert "\x1b" not in stream.getvalue()
    assert "[bold]" in stream.getvalue()


def test_very_long_cells_are_cut_in_tables() -> None:
    stream = io.StringIO()
    draw_answer(stream, pa.table({"x": ["y" * 1_000_000]}))
    assert len(stream.getvalue()) < 10_000
