"""`python -m benchmarks [--only NAME]… [--json FILE] [--data-dir DIR]`."""

import argparse
import importlib.util
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.governance import MEASURES as GOVERNANCE_MEASURES
from benchmarks.ingest import ingest
from benchmarks.measures import MEASURES as QUERY_MEASURES
from benchmarks.measures import PREPARE, Measured, warm_up
from benchmarks.sides import Arena, arena
from benchmarks.stock_clients import MEASURES as STOCK_CLIENT_MEASURES

MEASURES = {**QUERY_MEASURES, "ingest": ingest, **GOVERNANCE_MEASURES, **STOCK_CLIENT_MEASURES}
PIPELINE = Path(__file__).parents[1] / "examples" / "make_lake.py"
EXPLANATION = (
    "Baseline: the stock PySpark client (`spark.sql(…).collect()`, `toArrow()`) straight on the same "
    "engine, past the gateway's doors, on the same Iceberg tables through the same catalog. Ours: ADBC by "
    "Flight SQL. Where it says `stock Spark`, the baseline is a Connect server as the package ships it. "
    "Both sides run in turns, with their clients on this machine; medians. Fifty clients have a "
    "session each on the baseline's side, opened before the clock starts, as ours open their connections; "
    "`fifty-mixed` asks what `make load MIX=mixed` asks, but for the question about the gateway's own nodes. "
    "PySpark: both sides are the stock client, ours through the Spark Connect door; answers are compared. "
    "Governance: the baseline is a principal with the same grants whom no rule meets, through the same door; "
    "the rules keep every row, so the work is the same."
)


def main() -> int:
    options = _options()
    console = Console(highlight=False, log_path=False)
    results: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="bailiwick-bench-") as scratch:
        data_dir = (options.data_dir or Path(scratch) / "data").resolve()
        with console.status("starting the gateway"), arena(data_dir, console.log) as running:
            console.log(f"gateway at {running.address}")
            _prepare(running)
            console.log(f"tables are made, now {options.warm_s:.0f} s of warming up")
            warm_up(running, options.warm_s)
            for name in options.only or MEASURES:
                console.log(f"measuring {name}")
                results.append(MEASURES[name](running, options.rounds))
                console.log(_line(results[-1]))
    _print(console, results)
    if options.json:
        options.json.write_text(
            json.dumps([asdict(one) | {"met": one.is_met} for one in results], indent=2) + "\n"
        )
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=EXPLANATION)
    parser.add_argument("--only", action="append", choices=tuple(MEASURES), help="may be given several times")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns that count; default 5")
    parser.add_argument("--warm-s", type=float, default=90.0, metavar="S", help="default 90")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="keep the tables for another run")
    return parser.parse_args()


def _prepare(running: Arena) -> None:
    """The shop's lake by the example's own pipeline, the large table by SQL."""
    spec = importlib.util.spec_from_file_location("make_lake", PIPELINE)
    assert spec is not None
    assert spec.loader is not None
    pipeline = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pipeline)
    with running.lease() as stock, closing(stock.session()) as session:
        pipeline.build(session.spark, lambda _table, _rows: None)
    with closing(running.adbc()) as admin:
        for statement in PREPARE:
            admin.rows(statement)


def _print(console: Console, results: Sequence[Measured]) -> None:
    table = Table(title="Bailiwick against the stock PySpark client", title_justify="left")
    table.add_column("measure", no_wrap=True)
    for heading in ("baseline", "ours", "ratio", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in results:
        sign = "≥" if one.higher_is_better else "≤"
        verdict = "[green]met[/green]" if one.is_met else "[red]missed[/red]"
        table.add_row(one.name, one.baseline, one.ours, _figure(one), f"{sign} {one.goal}{one.unit}", verdict)
    console.print()
    console.print(table)
    console.print("What bounds ours:")
    for one in results:
        console.print(f"  {one.name}: {one.bounds}")
    console.print(EXPLANATION, style="dim")
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    console.print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load average {load}", style="dim"
    )


def _line(one: Measured) -> str:
    return f"{one.name}: {one.baseline} against {one.ours}: {_figure(one)}"


def _figure(one: Measured) -> str:
    return f"{one.ratio:.2f}{one.unit}"


if __name__ == "__main__":
    raise SystemExit(main())
