"""Which calls of PySpark work, which are refused, and what shows it, for docs/reference/pyspark-api.md.

A call is shown by a case, or by its own examples in PySpark's documentation, which must print what they print
on plain Spark. `python -m spark_connect.api_list ADDRESS` with a token of `pia` writes the list anew.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from spark_connect import expected, shown_calls
from spark_connect.docstrings import examples, names
from spark_connect.environments import VERSIONS, lines
from spark_connect.record import outcome
from spark_connect.run_cases import load
from spark_connect.surface import Call, calls

PATH = expected.DIRECTORY / "api.json"
EXAMPLES = "its examples"
_REFUSALS = {"BAILIWICK_NOT_SUPPORTED", "BAILIWICK_ACCESS_DENIED"}
Example = Mapping[str, Any]


class Status(StrEnum):
    WORKS = "works"
    REFUSED = "refused"
    IN_THE_CLIENT = "in the client"
    NOT_IN_CONNECT = "not in Connect"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True)
class Entry:
    status: Status
    shown_by: str = ""
    """A case, or the examples in its documentation, or nothing."""
    because: str = ""
    """Why it does not work, or what is not shown of it."""


def entries(seen: Mapping[str, Sequence[Example]], among: Iterable[Call]) -> dict[str, Entry]:
    """For each of these calls: its status and what shows it."""
    plain = expected.examples(VERSIONS[0])
    decided = by_case()
    return {
        call.name: decided.get(call.name)
        or _by_examples(call, seen.get(call.name, []), plain.get(call.name, []))
        for call in among
    }


def by_case() -> dict[str, Entry]:
    """What cases show, and what needs none."""
    found = {call: Entry(Status.WORKS, case) for call, case in shown_calls.SHOWN_BY.items()}
    for call, (case, because) in shown_calls.REFUSED_BY_SPARK.items():
        found[call] = Entry(Status.REFUSED, case, because)
    for call, (case, because) in shown_calls.NOT_IN_CONNECT.items():
        found[call] = Entry(Status.NOT_IN_CONNECT, case, because)
    for call, because in shown_calls.IN_THE_CLIENT.items():
        found[call] = Entry(Status.IN_THE_CLIENT, "", because)
    for call, because in shown_calls.NOT_SHOWN.items():
        found[call] = Entry(Status.NOT_SHOWN, "", because)
    for each in load().values():
        for call in each.calls if each.refused else ():
            found[call] = Entry(Status.REFUSED, each.name, each.because)
    return found


def _by_examples(call: Call, seen: Sequence[Example], plain: Sequence[Any]) -> Entry:
    """Works if every example that is always the same is so here, and one that calls it prints something."""
    told = [outcome(each) for each in seen]
    if not told or len(plain) < len(told):
        return Entry(Status.NOT_SHOWN, "", "no case, no example")
    refused = [place for place, each in enumerate(seen) if each.get("condition") in _REFUSALS]
    differing = [place for place, each in enumerate(told) if plain[place] not in (None, each)]
    proofs = [
        place
        for place, source in enumerate(examples(call)[: len(told)])
        if names(call, source) and plain[place] == told[place] and isinstance(plain[place], str)
    ]
    if differing and refused and refused[0] <= differing[0]:
        because = "its examples also do what is refused: " + _sentence(seen[refused[0]]["message"])
        return Entry(Status.NOT_SHOWN, "", because)
    if differing:
        return Entry(Status.NOT_SHOWN, "", "its examples print something else than with plain Spark")
    if not proofs or not any(isinstance(each, str) and each for each in plain[proofs[0] : len(told)]):
        return Entry(Status.NOT_SHOWN, "", "its examples show nothing that is always the same")
    return Entry(Status.WORKS, EXAMPLES)


def _sentence(message: str) -> str:
    return re.sub(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w+", "", message).strip().partition("\n")[0]


def written() -> dict[str, Entry]:
    """The list as it was written last."""
    return {
        call: Entry(Status(entry["status"]), entry["shown_by"], entry["because"])
        for call, entry in json.loads(PATH.read_text()).items()
    }


def write(listed: Mapping[str, Entry]) -> None:
    named = [f"{json.dumps(call)}: {json.dumps(asdict(entry))}" for call, entry in listed.items()]
    PATH.write_text("{\n" + ",\n".join(named) + "\n}\n")


def ask(address: str, token: str, directory: Path, chosen: Sequence[str] = ()) -> dict[str, list[Example]]:
    """What the examples of these calls, or of all, do at that address."""
    only = "^(" + "|".join(map(re.escape, chosen)) + ")$" if chosen else ""
    arguments = [address, "--only", only]
    printed = lines(VERSIONS[0], "docstrings", arguments, {"TOKEN": token}, directory / "examples.err")
    told = [json.loads(line) for line in printed if line.startswith("{")]
    return {line["call"]: line["examples"] for line in told}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        write(entries(ask(sys.argv[1], os.environ["TOKEN"], Path(scratch)), calls()))


if __name__ == "__main__":
    main()
