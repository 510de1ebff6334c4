"""One street for all cells, and the matrix at the end of the run."""

from collections.abc import Iterator
from typing import Any

import pytest

from faults.matrix.street import Street
from faults.matrix.table import Matrix

MATRIX = Matrix()


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    built = Street(lambda: tmp_path_factory.mktemp("house"))
    yield built
    built.close()


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return MATRIX


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if MATRIX.outcomes:
        terminalreporter.section("faults × phases of a query's life")
        for line in MATRIX.lines():
            terminalreporter.write_line(line)
