"""The page that says which calls of PySpark work through the Spark Connect door, and which are refused.

What is true was written down by the tests in tests/protocol/spark_connect, which also check it; here it is
only put into tables.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
TESTS: Final = ROOT / "tests" / "protocol" / "spark_connect"
LIST: Final = TESTS / "expected" / "api.json"
_NOTICE: Final = (
    "<!-- Written by `make docs` from what tests in tests/protocol/spark_connect saw; "
    "edit src/bailiwick/cli/pyspark_api.py. -->"
)
_WORKS: Final = "works"
_BY_EXAMPLES: Final = "its examples"
_MEANINGS: Final[Mapping[str, str]] = {
    _WORKS: "a test saw the same answer as from plain Spark",
    "refused": "raises, and says why and what to do instead; a test saw that, too",
    "in the client": "sends nothing to a server",
    "not in Connect": "needs a Spark in the client's own process; a test saw the client say so",
    "not shown": "no test shows it",
}
_CALLS_A_LINE: Final = 8

Entry = Mapping[str, str]


def pyspark_api_page() -> str:
    """Every public call of PySpark's SQL and DataFrame surface, with its status and what shows it."""
    listed: dict[str, Entry] = json.loads(LIST.read_text(encoding="utf-8"))
    groups = dict.fromkeys(_group_of(call) for call in listed)
    parts = "\n\n".join(_group(group, _of(listed, group)) for group in groups)
    return f"""{_NOTICE}
# What of PySpark works

Every public call of the SQL and DataFrame surface of {_client()}, as it is found in the package itself. What
clients may send, message by message, is in [spark-connect.md](spark-connect.md).

| | calls | |
|---|---|---|
{_counts(listed)}

*Examples* are those in PySpark's own documentation of a call: they print through the gateway what they print
with plain Spark. *Cases* are in `tests/protocol/spark_connect`, and answer as with plain Spark, too.

{parts}
"""


def _client() -> str:
    pins = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8")
    found = re.search(r"^pyspark(?:\[[^\]]*\])?==([\w.]+)", pins, re.MULTILINE)
    return f"stock PySpark {found.group(1)}" if found else "stock PySpark"


def _counts(listed: Mapping[str, Entry]) -> str:
    counts = {status: sum(entry["status"] == status for entry in listed.values()) for status in _MEANINGS}
    return "\n".join(
        f"| {status} | {count} | {_MEANINGS[status]} |" for status, count in counts.items() if count
    )


def _group_of(call: str) -> str:
    return call.rpartition(".")[0] or "Others"


def _of(listed: Mapping[str, Entry], group: str) -> dict[str, Entry]:
    return {call: entry for call, entry in listed.items() if _group_of(call) == group}


def _group(group: str, listed: Mapping[str, Entry]) -> str:
    by_examples = [call for call, entry in listed.items() if entry["shown_by"] == _BY_EXAMPLES]
    others = {call: entry for call, entry in listed.items() if call not in by_examples}
    parts = [f"## {group}"]
    if by_examples:
        parts.append(f"{len(by_examples)} work, shown by their examples: {_named(by_examples)}")
    if others:
        parts.append("\n".join(["| call | | shown by | why |", "|---|---|---|---|", *_rows(others)]))
    return "\n\n".join(parts)


def _rows(listed: Mapping[str, Entry]) -> Iterator[str]:
    order = list(_MEANINGS)
    for call, entry in sorted(listed.items(), key=lambda item: (order.index(item[1]["status"]), item[0])):
        shown_by = f"case *{entry['shown_by']}*" if entry["shown_by"] else ""
        yield f"| `{_short(call)}` | {entry['status']} | {shown_by} | {entry['because']} |"


def _named(calls: Sequence[str]) -> str:
    names = [f"`{_short(call)}`" for call in calls]
    lines = [", ".join(names[first : first + _CALLS_A_LINE]) for first in range(0, len(names), _CALLS_A_LINE)]
    return ",\n".join(lines) + "."


def _short(call: str) -> str:
    return call.rpartition(".")[2]
