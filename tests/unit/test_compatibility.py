"""The compatibility page is what the tests show, and leaves nothing of the protocol out."""

from pathlib import Path

import pytest

from bailiwick.cli.compatibility import (
    BESIDES,
    NEVER,
    NOT_YET,
    TYPES,
    UNSUPPORTED,
    WORKS,
    actions,
    calls,
    commands,
    compatibility_page,
    entries,
    proofs,
)
from bailiwick.cli.reference import DIRECTORY
from bailiwick.doors.flight_sql.commands import ActionName

KNOWN = {*calls(), *commands(), *actions(), *(f"type {name}" for name in TYPES), *BESIDES, "SqlInfo"}
Proofs = dict[str, tuple[str, ...]]


@pytest.fixture(scope="module")
def page() -> str:
    return compatibility_page()


@pytest.fixture(scope="module")
def shown() -> Proofs:
    return proofs()


def test_the_page_is_current(page: str) -> None:
    assert (DIRECTORY / "compatibility.md").read_text() == page


def test_everything_that_the_protocol_has_is_shown_by_a_test(shown: Proofs) -> None:
    assert sorted(KNOWN - set(shown)) == []


def test_tests_prove_only_what_there_is(shown: Proofs) -> None:
    assert sorted(set(shown) - KNOWN) == []


def test_what_does_not_work_has_a_reason() -> None:
    assert set(UNSUPPORTED) <= KNOWN
    assert all(status in (NOT_YET, NEVER) and reason for status, reason in UNSUPPORTED.values())


def test_every_action_that_the_door_takes_is_one_of_the_protocol_s_and_works(
    shown: Proofs,
) -> None:
    made = {entry.name: entry.status for entry in entries(actions(), {}, shown)}
    assert {name for name, status in made.items() if status == WORKS} == {name.value for name in ActionName}


def test_what_nothing_shows_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text('@pytest.mark.proves("A", "B")\ndef test_it(): ...\n')
    shown = proofs(tmp_path)
    assert shown == {"A": ("test_one",), "B": ("test_one",)}
    assert [entry.status for entry in entries(["A", "C"], {}, shown)] == [WORKS, NOT_YET]


@pytest.mark.parametrize("name", ["CommandGetTables", "RenewFlightEndpoint", "DECIMAL", "SQL_KEYWORDS"])
def test_the_page_names_each(page: str, name: str) -> None:
    assert f"| {name} | " in page
