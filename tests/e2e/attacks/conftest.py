"""One house to be attacked by all families, and the count at the end."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from attacks.attempt import Attacker, Attempt, Ledger, made_side_by_side
from attacks.facade_house import FacadeHouse, facade_house
from bailiwick.testing.leaks import Outcome, Secrets, ask
from bailiwick.testing.policy_house import House
from bailiwick.testing.policy_tables import COUNTED_ROWS

RESTRICTED = ("people", "orders", "products", "events", "counted", "shelf")
LEDGER = Ledger()


@pytest.fixture(scope="session")
def connections() -> Iterator[dict[tuple[str, str], Any]]:
    opened: dict[tuple[str, str], Any] = {}
    yield opened
    for _, context in opened.values():
        context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def secrets(house: House) -> Secrets:
    """With what only an administrator can know of the restricted tables: files, and rows that they hold."""
    words = {str(COUNTED_ROWS)}
    with house.connected("admin") as connection:
        for table in RESTRICTED:
            outcome = ask(
                connection, f"SELECT file_path, file_size_in_bytes FROM lake.house.{table}.all_data_files"
            )
            assert outcome.code is None, outcome.text
            words |= {path.rsplit("/", 1)[-1] for path, _ in outcome.rows}
    return Secrets().with_more(words)


@pytest.fixture(scope="module")
def ahead(request: pytest.FixtureRequest, house: House) -> dict[Attempt, tuple[Outcome, ...]]:
    """Attempts of a module that says that they may be made side by side; only those that are to be judged."""
    if not getattr(request.module, "SIDE_BY_SIDE", False):
        return {}
    parameters = [
        getattr(item, "callspec", None) for item in request.session.items if item.path == request.path
    ]
    attempts = [
        call.params["attempt"] for call in parameters if call is not None and "attempt" in call.params
    ]
    return made_side_by_side(house, attempts)


@pytest.fixture
def attacker(
    request: pytest.FixtureRequest,
    house: House,
    secrets: Secrets,
    connections: dict[tuple[str, str], Any],
    ahead: dict[Attempt, tuple[Outcome, ...]],
) -> Attacker:
    family = request.path.stem.removeprefix("test_attack_")
    return Attacker(house, secrets, LEDGER, family, connections, ahead)


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[..., None]:
    """For families that need no house: count one attempt."""
    return partial(LEDGER.note, request.path.stem.removeprefix("test_attack_"))


@pytest.fixture(scope="session")
def facade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FacadeHouse]:
    with facade_house(tmp_path_factory.mktemp("facade")) as running:
        yield running


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if LEDGER.attempts:
        terminalreporter.write_line(f"attacks: {LEDGER}")
