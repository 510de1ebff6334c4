"""Writes down what plain Spark answers: `python -m spark_connect.record cases|examples VERSION [ONLY]`.

Cases are written anew. Examples are joined with what was written before: one that printed something else then
is marked as one that never prints the same. `ONLY` is a regular expression on names.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_connect import expected
from spark_connect.environments import lines
from spark_connect.plain_server import plain_server


def cases(version: str, address: str, directory: Path, only: str = "") -> dict[str, Any]:
    """What plain Spark answers to every case that it has."""
    arguments = [address, "--as-plain", "--only", only]
    printed = lines(version, "run_cases", arguments, {}, directory / "cases.err")
    told = [json.loads(line) for line in printed if line.startswith("{")]
    return {line["case"]: expected.told_by(line) for line in told}


def examples(version: str, address: str, directory: Path, only: str = "") -> dict[str, Any]:
    """What plain Spark makes documented examples print; None for one that is not the same as before."""
    printed = lines(version, "docstrings", [address, "--only", only], {}, directory / "examples.err")
    told = [json.loads(line) for line in printed if line.startswith("{")]
    seen = {line["call"]: [outcome(each) for each in line["examples"]] for line in told}
    before = expected.examples(version)
    return {call: _joined(found, before.get(call)) for call, found in seen.items()}


def outcome(example: Mapping[str, Any]) -> Any:
    """What of an example is compared: what it prints, or the kind of its failure."""
    return example["printed"] if "printed" in example else [example["class"], example["condition"]]


def _joined(found: list[Any], before: list[Any] | None) -> list[Any]:
    """One that is not the same as it was before is none that can be compared."""
    if before is None:
        return found
    return [one if one == other else None for one, other in zip(found, before, strict=False)]


def main() -> None:
    kind, version, only = (*sys.argv[1:], "")[:3]
    with tempfile.TemporaryDirectory() as scratch, plain_server(Path(scratch)) as address:
        told = (cases if kind == "cases" else examples)(version, address, Path(scratch), only)
    kept = getattr(expected, kind)(version) if only or kind == "examples" else {}
    expected.write(kind, version, {**kept, **told})


if __name__ == "__main__":
    main()
