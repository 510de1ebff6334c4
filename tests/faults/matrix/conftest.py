"""One street for all cells, and the matrix at the end of the run."""

from collections.abc import Iterator
from typing import Any

import pytest

from faults.matrix.plan import Cell
from faults.matrix.record import FILE, Record
from faults.matrix.street import Street
from faults.matrix.table import lines

RECORD = Record(FILE)


@pytest.fixture(scope="module")
def street(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    wanted = [
        item.callspec.params["cell"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "cell" in item.callspec.params
    ]
    built = Street(
        lambda: tmp_path_factory.mktemp("house"),
        [cell for cell in wanted if isinstance(cell, Cell)],
        RECORD,
    )
    yield built
    built.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if RECORD.outcomes:
        terminalreporter.section("faults × phases of a query's life")
        for line in lines(RECORD):
            terminalreporter.write_line(line)
