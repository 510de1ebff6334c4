"""What plain Spark answered to each case and each documented example, as `record` wrote it down.

The newest client's answers stand in full; an older one's only where they differ.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_connect.environments import VERSIONS

DIRECTORY = Path(__file__).with_name("expected")
Outcome = Mapping[str, Any]
_TOLD = ("class", "condition", "sqlstate", "contexts")
_NOT_COMPARED = {"docroot", "queryId"}
"""An address that is not told, and what the gateway adds."""


def cases(version: str) -> dict[str, Outcome]:
    """By the name of the case."""
    return _read("cases", version)


def examples(version: str) -> dict[str, list[Any]]:
    """By the name of the call. An example that prints something else each time is `None`."""
    return _read("examples", version)


def write(kind: str, version: str, answers: Mapping[str, Any]) -> None:
    newest = {} if version == VERSIONS[0] else _read(kind, VERSIONS[0])
    kept = {name: answer for name, answer in answers.items() if newest.get(name) != answer}
    named = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in sorted(kept.items())]
    (DIRECTORY / f"{kind}-{version}.json").write_text("{\n" + ",\n".join(named) + "\n}\n")


def told_by(line: Outcome) -> Outcome:
    """What of a client's line is compared: a value, or of a failure what programs decide by.

    Messages are not: the gateway's have no plans, places and advice that does not hold here. Where Spark has
    no condition that it stands by, the gateway has one of its own, and only the class must be the same.
    """
    if "error" not in line:
        return {"value": line["value"]}
    error = line["error"]
    if _is_none_of_sparks(error.get("condition")):
        return {"error": {"class": error["class"]}}
    parameters = {
        key: value for key, value in (error["parameters"] or {}).items() if key not in _NOT_COMPARED
    }
    return {"error": {**{name: error.get(name) for name in _TOLD}, "parameters": parameters}}


def _is_none_of_sparks(condition: str | None) -> bool:
    return not condition or condition.startswith(("_LEGACY", "BAILIWICK"))


def _read(kind: str, version: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in dict.fromkeys((VERSIONS[0], version)):
        path = DIRECTORY / f"{kind}-{each}.json"
        if path.exists():
            found |= json.loads(path.read_text())
    return found
