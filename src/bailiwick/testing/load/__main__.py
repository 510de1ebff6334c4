"""`python -m bailiwick.testing.load [--clients N] [--mix light|heavy|mixed] [--url URL] …`.

Exit code 0: every question was answered, and rightly. 1: not. 2: it could not begin.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from adbc_driver_manager.dbapi import Error as AdbcError
from rich.console import Console
from rich.table import Table

from bailiwick.testing.gateway import NotReadyError, running_gateway
from bailiwick.testing.load.clients import Address, NotPreparedError, Rush, processes_of, rush, settings_for
from bailiwick.testing.load.memory import Memory, watched
from bailiwick.testing.load.questions import Mix
from bailiwick.testing.load.summary import Summary, Times


def main() -> int:
    options = _options()
    console = Console(highlight=False)
    mix = Mix(options.mix)
    plan = Rush(options.clients, mix, options.each, options.seed, options.idle, is_kept=options.keep)
    try:
        with _gateway(options, console) as (address, processes), watched(processes) as memory:
            console.print(f"{plan.clients} clients, {plan.mix}, {plan.each} questions each, at {address.uri}")
            summary = rush(address, plan)
    except (NotPreparedError, NotReadyError, AdbcError, OSError) as error:
        console.print(f"could not begin: {error}", style="red", markup=False)
        return 2
    _print(console, summary, memory)
    if options.json:
        options.json.write_text(json.dumps(asdict(summary) | {"passed": summary.is_passed}, indent=2) + "\n")
    return 0 if summary.is_passed else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bailiwick.testing.load", description=__doc__)
    parser.add_argument("--clients", type=int, default=10, metavar="N")
    parser.add_argument("--mix", choices=[mix.value for mix in Mix], default=Mix.MIXED.value)
    parser.add_argument("--each", type=int, default=8, metavar="N", help="questions a client asks; default 8")
    parser.add_argument("--idle", type=int, default=0, metavar="N", help="clients that are connected besides")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the order of the questions")
    parser.add_argument("--url", metavar="URL", help="a running gateway: grpc://HOST:PORT or grpc+tls://…")
    parser.add_argument("--user", default="admin", help="an administrator there; by BAILIWICK_PASSWORD")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="PEM: whom to trust")
    parser.add_argument("--keep", action="store_true", help="leave the table for another run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    if not 1 <= options.clients <= 2000 or not 0 <= options.idle <= 5000 or not 1 <= options.each <= 10_000:
        parser.error("1 to 2,000 clients, up to 5,000 idle ones, 1 to 10,000 questions each")
    return options


@contextmanager
def _gateway(
    options: argparse.Namespace, console: Console
) -> Iterator[tuple[Address, Mapping[str, Callable[[], int]]]]:
    """The one at the address that was given, or one started for the purpose, with its processes."""
    if options.url:
        trust = {"adbc.flight.sql.client_option.tls_root_certs": options.ca.read_text()} if options.ca else {}
        yield Address(options.url, _administrator(options.user, os.environ), trust), {}
        return
    console.print("starting a gateway for the purpose")
    # As fast as it is when it serves, not as quickly started as tests want it.
    settings = {**settings_for(options.clients), "BAILIWICK__ENGINE__QUICK_COMPILE": "false"}
    with (
        tempfile.TemporaryDirectory(prefix="bailiwick-load-") as scratch,
        running_gateway(Path(scratch) / "data", settings=settings) as gateway,
    ):
        yield Address.of(gateway), processes_of(gateway)


def _administrator(user: str, environment: Mapping[str, str]) -> dict[str, str]:
    if token := environment.get("BAILIWICK_TOKEN"):
        return {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    if password := environment.get("BAILIWICK_PASSWORD"):
        return {"username": user, "password": password}
    raise NotPreparedError("who asks? Give BAILIWICK_PASSWORD or BAILIWICK_TOKEN of an administrator")


def _print(console: Console, summary: Summary, memory: Memory) -> None:
    table = Table("question", *("asked", "min", "avg", "p95", "max"), title_justify="left")
    for question, times in sorted(summary.by_question.items()):
        table.add_row(question, *_figures(times))
    table.add_section()
    table.add_row("all", *_figures(summary.times))
    console.print(table)
    engines = Table("engine", "queries", "share", "pace")
    for one in summary.spread:
        engines.add_row(one.node_id, str(one.queries), f"{one.share:.0%}", f"{one.pace:.2f}")
    console.print(engines)
    for line in memory.lines():
        console.print(line)
    for flag in summary.flags:
        console.print(f"flagged: {flag}", style="yellow", markup=False)
    for code, count in summary.errors.items():
        console.print(f"{count} × {code}", style="red", markup=False)
    if summary.wrong:
        console.print(f"{summary.wrong} wrong answers", style="red")
    verdict, style = ("passed", "green") if summary.is_passed else ("FAILED", "red")
    console.print(
        f"{verdict}: {summary.times.count} of {summary.asked} answered, {summary.wrong} wrong, "
        f"{summary.queries_per_s:.1f} queries/s in {summary.elapsed_s:.1f} s",
        style=style,
    )


def _figures(times: Times) -> tuple[str, ...]:
    seconds = (times.min_s, times.avg_s, times.p95_s, times.max_s)
    return (str(times.count), *(f"{each * 1000:.0f} ms" for each in seconds))


if __name__ == "__main__":
    raise SystemExit(main())
