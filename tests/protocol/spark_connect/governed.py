"""Asking the policy house by stock PySpark, and holding the answers against those of Flight SQL."""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attacks.attempt import IMPROPER, Attempt

from bailiwick.engines.spark_errors import SparkFailure, classify
from bailiwick.errors import Code
from bailiwick.testing.leaks import Outcome, Secrets
from spark_connect.environments import RUN_S, VERSIONS, environment, python_of

Answer = dict[str, Any]
Answers = dict[Any, Answer]
Asking = Callable[[Sequence[dict[str, Any]]], Answers]
Count = Callable[[str, str], None]


def answers(address: str, questions: Sequence[dict[str, Any]], errors: Path) -> Answers:
    """What one client answers to all of them, by their ids; its warnings go to the file `errors`."""
    with errors.open("w") as said:
        done = subprocess.run(
            [str(python_of(VERSIONS[0])), "-m", "spark_connect.answer", address],
            input="".join(json.dumps(question) + "\n" for question in questions),
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment({}),
            text=True,
            timeout=RUN_S,
            check=False,
        )
    assert done.returncode == 0, errors.read_text()[-3000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["id"]: line for line in told}


def code_of(answer: Answer) -> Code | None:
    """Our code of a failure; Spark's own conditions are judged as every door judges them."""
    if "error" not in answer:
        return None
    error = answer["error"]
    condition = error.get("condition") or ""
    if condition.startswith("BAILIWICK_"):
        return Code(condition.removeprefix("BAILIWICK_"))
    return classify(SparkFailure(error["message"], condition or None, error.get("sqlstate"))).code


def difference(over_flight: Outcome, as_frame: Answer, secrets: Secrets) -> str | None:
    """What Flight SQL and a DataFrame answered differently; none if nothing."""
    if leaked := secrets.found_in(json.dumps(as_frame)):
        return f"hidden values in the answer: {leaked[:5]} in {str(as_frame)[:1000]}"
    if over_flight.table is None or "error" in as_frame:
        same = over_flight.code == code_of(as_frame)
        return None if same else f"one failed otherwise:\n  {over_flight.text[:600]}\n  {str(as_frame)[:900]}"
    rows = sorted(repr(tuple(row.values())) for row in over_flight.table.to_pylist())
    if rows != sorted(as_frame["rows"]):
        return f"{len(rows)} and {len(as_frame['rows'])} rows: {rows[:3]} {sorted(as_frame['rows'])[:3]}"
    return None


def misjudged(attempt: Attempt, answer: Answer, secrets: Secrets) -> str | None:
    """In what an answer is not what is permitted to come of the attempt; none if in nothing."""
    code = code_of(answer)
    if leaked := secrets.found_in(json.dumps(answer)):
        return f"LEAK: {leaked[:5]} in {str(answer)[:1000]}"
    if code in IMPROPER:
        return f"broke instead of refusing: {str(answer)[:900]}"
    if attempt.rows is not None and code is not None:
        return f"refused what is permitted: {str(answer)[:900]}"
    if attempt.rows is not None and sorted(answer["rows"]) != sorted(map(repr, attempt.rows)):
        return f"other rows: {answer['rows'][:5]}"
    if attempt.refused and code not in attempt.refused:
        return f"{code} instead of {sorted(attempt.refused)}: {str(answer)[:900]}"
    return None
