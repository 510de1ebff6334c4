"""A schema of its own for every real client, and a line for each file that says how many cases it ran.

A client that cannot be had on a machine (no node, say) is counted as not run, with the
reason: never as passed.
"""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
OUTCOMES = ("passed", "failed", "not run")
COUNTS: dict[str, Counter[str]] = defaultdict(Counter)
REASONS: dict[str, set[str]] = defaultdict(set)


@pytest.fixture(scope="module")
def schema(request: pytest.FixtureRequest, connection: Any) -> str:
    """A schema of this file's own, so that clients do not see each other's tables."""
    name = request.path.stem.removeprefix("test_")
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE NAMESPACE IF NOT EXISTS {name}")
    return name


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file = Path(report.nodeid.partition("::")[0]).name
    if not (HERE / file).exists():
        return
    if report.skipped:
        COUNTS[file]["not run"] += 1
        REASONS[file].add(str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr))
    elif report.failed:
        COUNTS[file]["failed"] += 1
    elif report.when == "call":
        COUNTS[file]["passed"] += 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if COUNTS:
        terminalreporter.section("Flight SQL clients: cases")
    for file, counts in sorted(COUNTS.items()):
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
        reasons = "".join(f"; {reason}" for reason in sorted(REASONS[file]))
        terminalreporter.write_line(f"{file}: {counts.total()} cases, {told}{reasons}")
