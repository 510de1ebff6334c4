"""Stock PySpark against a gateway: each case answers as on plain Spark, or is refused with its reason."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bailiwick.testing.gateway import RunningGateway
from spark_connect import expected
from spark_connect.case import OLDEST, Case
from spark_connect.environments import VERSIONS, lines
from spark_connect.run_cases import load

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CASES = load()
SEED = 20261116
SELECTED = 100
OTHERWISE = "brought: "
"""Each line of clients has its own messages for these."""
Outcomes = dict[str, dict[str, Any]]
Asking = Callable[[str, Sequence[Case]], Outcomes]
Count = Callable[[str, str], None]


def _has(version: str, case: Case) -> bool:
    return case.since == OLDEST or case.since <= tuple(int(part) for part in version.split("."))


def _wanted(version: str) -> list[Case]:
    return [case for case in CASES.values() if _has(version, case)]


def _selected(version: str) -> list[Case]:
    """All in the newest client. In an older one a seeded part, and what is refused or sent otherwise."""
    wanted = _wanted(version)
    if version == VERSIONS[0]:
        return wanted
    chosen = random.Random(SEED).sample(wanted, SELECTED)
    return [case for case in wanted if case in chosen or case.refused or case.name.startswith(OTHERWISE)]


def _named(cases: Callable[[str], list[Case]]) -> pytest.MarkDecorator:
    asked = [(version, case) for version in VERSIONS for case in cases(version)]
    ids = [f"{version}-{case.name.replace(' ', '-')}" for version, case in asked]
    return pytest.mark.parametrize(("version", "case"), asked, ids=ids)


@pytest.fixture(scope="session")
def asked_in(asking: Asking) -> Asking:
    """The same, once for each version."""
    seen: dict[str, Outcomes] = {}

    def outcomes(version: str, cases: Sequence[Case]) -> Outcomes:
        if version not in seen:
            seen[version] = asking(version, cases)
        return seen[version]

    return outcomes


@pytest.fixture(scope="session")
def asking(gateway: RunningGateway, pia: str, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """What a client of a version sees of each of these cases: all of them by one process."""

    def outcomes(version: str, cases: Sequence[Case]) -> Outcomes:
        only = "^(" + "|".join(re.escape(case.name) for case in cases) + ")$"
        errors = tmp_path_factory.mktemp("stock") / f"{version}.err"
        printed = lines(version, "run_cases", [gateway.grpc_address, "--only", only], {"TOKEN": pia}, errors)
        told = [json.loads(line) for line in printed if line.startswith("{")]
        return {line["case"]: line for line in told}

    return outcomes


@_named(_selected)
def test_a_case_ends_as_it_should(asked_in: Asking, version: str, case: Case, count: Count) -> None:
    seen = asked_in(version, _selected(version)).get(case.name)
    count(version, _judged(version, case, seen))


@pytest.mark.full
def test_every_case_ends_as_it_should_in_older_clients(asking: Asking, count: Count) -> None:
    for version in VERSIONS[1:]:
        cases = _wanted(version)
        seen = asking(version, cases)
        for case in cases:
            count(version, _judged(version, case, seen.get(case.name)))


def _judged(version: str, case: Case, seen: dict[str, Any] | None) -> str:
    """How it ended; raises if it should have ended otherwise."""
    assert seen is not None, "the client ended before it came to this case"
    if case.refused:
        assert "error" in seen, f"not refused: {seen}"
        # Some calls of the client raise what gRPC raised, and name the condition in its text only.
        told = (
            seen["error"].get("condition") == case.refused or f"[{case.refused}]" in seen["error"]["message"]
        )
        assert told, seen
        return "refused as they should be"
    if case.is_ours:
        assert seen.get("value") is True, seen
        return "answered as only the gateway does"
    if case.is_not_yet:
        assert expected.told_by(seen) != expected.cases(version)[case.name], "it works: say so"
        return "not yet"
    assert expected.told_by(seen) == expected.cases(version)[case.name], seen
    return "answered as by plain Spark"


def test_every_case_has_an_answer_of_plain_spark() -> None:
    wanted = {case.name for case in CASES.values() if not case.refused and not case.is_ours}
    assert wanted == set(expected.cases(VERSIONS[0]))


def test_there_are_hundreds_of_cases() -> None:
    assert len(CASES) > 500
    assert all(case.because for case in CASES.values() if case.refused or case.is_not_yet)
