"""The list of PySpark's calls is whole and true: a case or its own examples show what it says of a call."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from bailiwick.testing.gateway import RunningGateway
from spark_connect import api_list, expected, shown_calls
from spark_connect.api_list import Status
from spark_connect.environments import VERSIONS
from spark_connect.run_cases import load
from spark_connect.surface import ALONE, CLASSES, calls, public_names

SEED = 20261116
SELECTED = 40
LISTED = api_list.written()
CASES = load()


def test_the_list_has_every_call_of_the_installed_pyspark_and_no_other() -> None:
    assert set(LISTED) == {call.name for call in calls()}


def test_what_pyspark_says_is_public_is_looked_at() -> None:
    assert public_names() <= {*CLASSES, *(name for names in ALONE.values() for name in names)}


def test_what_works_is_held_against_plain_spark() -> None:
    by_cases, by_examples = expected.cases(VERSIONS[0]), expected.examples(VERSIONS[0])
    without = [
        call
        for call, entry in LISTED.items()
        if entry.status is Status.WORKS
        and not (entry.shown_by in by_cases and "error" not in by_cases[entry.shown_by])
        and not (
            entry.shown_by == api_list.EXAMPLES and any(isinstance(each, str) for each in by_examples[call])
        )
        and not (entry.shown_by in CASES and CASES[entry.shown_by].is_ours)
    ]
    assert without == []


def test_a_case_that_shows_a_call_makes_it() -> None:
    assert [
        (call, case)
        for call, case in shown_calls.SHOWN_BY.items()
        if call.rpartition(".")[2] not in _names_in(CASES[case].body)
    ] == []


def test_what_cases_say_of_calls_stands_in_the_list() -> None:
    said = api_list.by_case()
    assert {call: entry for call, entry in said.items() if LISTED.get(call, entry) != entry} == {}


def test_what_does_not_work_has_a_reason() -> None:
    assert [
        call for call, entry in LISTED.items() if entry.status is not Status.WORKS and not entry.because
    ] == []


def test_what_no_test_shows_is_known_and_has_its_own_reason() -> None:
    not_shown = {call for call, entry in LISTED.items() if entry.status is Status.NOT_SHOWN}
    assert not_shown == set(shown_calls.NOT_SHOWN)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_examples_of_some_calls_do_what_the_list_says(
    gateway: RunningGateway, pia: str, tmp_path: Path, count: Callable[[str, str], None]
) -> None:
    by_examples = sorted(call for call, entry in LISTED.items() if entry.shown_by == api_list.EXAMPLES)
    chosen = random.Random(SEED).sample(by_examples, SELECTED)
    _check(gateway, pia, tmp_path, count, chosen)


@pytest.mark.spark
@pytest.mark.full
@pytest.mark.timeout(1800)
def test_examples_of_all_calls_do_what_the_list_says(
    gateway: RunningGateway, pia: str, tmp_path: Path, count: Callable[[str, str], None]
) -> None:
    _check(gateway, pia, tmp_path, count, [])


def _check(
    gateway: RunningGateway,
    token: str,
    directory: Path,
    count: Callable[[str, str], None],
    chosen: Sequence[str],
) -> None:
    seen = api_list.ask(gateway.grpc_address, token, directory, chosen)
    among = [call for call in calls() if call.name in chosen or not chosen]
    found = api_list.entries(seen, among)
    for entry in found.values():
        count("documented calls", entry.status)
    differing = {call: entry for call, entry in found.items() if LISTED[call] != entry}
    assert differing == {}, json.dumps({call: seen.get(call) for call in differing}, indent=1)


def _names_in(body: Any) -> set[str]:
    """Every name in a function and in those of its module that it uses."""
    looked_at: set[Any] = set()
    waiting: list[Any] = [body]
    names: set[str] = set()
    while waiting:
        function = waiting.pop()
        if function in looked_at:
            continue
        looked_at.add(function)
        found = _names_of_code(function.__code__)
        names |= found
        inside = [cell.cell_contents for cell in function.__closure__ or ()]
        inside += [function.__globals__.get(name) for name in found]
        used = [each for one in inside for each in (one if isinstance(one, tuple) else (one,))]
        names |= {each.__name__ for each in used if isinstance(each, FunctionType)}
        waiting += [each for each in used if isinstance(each, FunctionType) and _is_near(each, body)]
    return names


def _is_near(function: FunctionType, body: Any) -> bool:
    return bool(function.__module__ == body.__module__)


def _names_of_code(code: Any) -> set[str]:
    names = set(code.co_names)
    for part in code.co_consts:
        if hasattr(part, "co_names"):
            names |= _names_of_code(part)
    return names
