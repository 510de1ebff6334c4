"""A person with a schema of her own and a token, the governance corpora, and a count at the end."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bailiwick.testing.asking import rows
from bailiwick.testing.gateway import RunningGateway
from bailiwick.testing.leaks import Secrets, ask
from bailiwick.testing.policy_house import House
from bailiwick.testing.policy_tables import COUNTED_ROWS
from spark_connect.governed import Answers, Asking, answers

RESTRICTED = ("people", "orders", "products", "events", "counted", "shelf")
COUNTS: dict[str, Counter[str]] = defaultdict(Counter)


@pytest.fixture(scope="session")
def count() -> Callable[[str, str], None]:
    def counted(about: str, how: str) -> None:
        COUNTS[about][how] += 1

    return counted


@pytest.fixture(scope="session")
def pia(gateway: RunningGateway) -> str:
    """The token of `pia`, who owns the schemas that cases use and may do nothing else."""
    for statement in (
        "CREATE NAMESPACE lake.clients",
        "CREATE NAMESPACE lake.clients_too",
        "CREATE USER pia PASSWORD 'a stock client' ROLES (reader)",
        "GRANT OWN ON NAMESPACE lake.clients TO USER pia",
        "GRANT OWN ON NAMESPACE lake.clients_too TO USER pia",
    ):
        rows(gateway, statement)
    return token(gateway, "pia")


def token(gateway: RunningGateway, person: str) -> str:
    return str(rows(gateway, f"CREATE TOKEN FOR {person} TTL '1h'")[0][1])


@pytest.fixture(scope="session")
def asking(house: House, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """Asks the policy house all at once, by one client, as the person that each question names."""
    tokens: dict[str, str] = {}
    errors = tmp_path_factory.mktemp("governed")

    def asked(questions: Sequence[dict[str, Any]]) -> Answers:
        for question in questions:
            person = question.pop("person")
            if person not in tokens:
                tokens[person] = token(house.gateway, person)
            question["token"] = tokens[person]
        return answers(house.gateway.grpc_address, questions, errors / "client.err")

    return asked


@pytest.fixture(scope="session")
def secrets(house: House) -> Secrets:
    """With what only an administrator can know of the restricted tables: files, and rows that they hold."""
    words = {str(COUNTED_ROWS)}
    with house.connected("admin") as connection:
        for table in RESTRICTED:
            outcome = ask(connection, f"SELECT file_path FROM lake.house.{table}.all_data_files")
            assert outcome.code is None, outcome.text
            words |= {path.rsplit("/", 1)[-1] for (path,) in outcome.rows}
    return Secrets().with_more(words)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if COUNTS:
        terminalreporter.section("stock PySpark")
    for about, counts in sorted(COUNTS.items()):
        told = ", ".join(f"{number} {how}" for how, number in counts.most_common())
        terminalreporter.write_line(f"{about}: {counts.total()} cases, {told}")
