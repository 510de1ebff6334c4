"""The reference pages that are written by the code they describe.

`python -m bailiwick.cli.reference` writes them, with `--check` it only says whether they differ from what the
code says now. One function a page; the prose between the tables stands here too.
"""

import argparse
import sys
import types
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from bailiwick.cli.compatibility import compatibility_page
from bailiwick.cli.pyspark_api import pyspark_api_page
from bailiwick.cli.spark_connect_page import spark_connect_page
from bailiwick.config import ENVIRONMENT_PREFIX, LOOSE_PREFIX, Config, loose_settings, sections
from bailiwick.errors import MEANINGS, Audience, Code, Trino

DIRECTORY: Final = Path(__file__).parents[3] / "docs" / "reference"
_NOTICE: Final = "<!-- Written by `make docs`; edit src/bailiwick/cli/reference.py or the code it reads. -->"

_SHOWN: Final[Mapping[Audience, str]] = {
    Audience.FULL: "everything",
    Audience.SCRUBBED: "scrubbed",
    Audience.GENERIC: "one sentence",
}
_SIMPLE_TYPES: Final[Mapping[object, str]] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "`true` or `false`",
    Path: "path",
    SecretStr: "secret",
}


def errors_page() -> str:
    """Every code with its meaning, and what each wire calls it."""
    meanings = "\n".join(
        f"| `{code}` | {meaning.sentence} | {_yes(meaning.retryable)} | {_SHOWN[meaning.audience]} |"
        for code, meaning in MEANINGS.items()
    )
    wires = "\n".join(
        f"| `{code}` | {meaning.sqlstate} | {meaning.grpc} | {_trino(meaning.trino)} | {meaning.http} |"
        for code, meaning in MEANINGS.items()
    )
    return f"""{_NOTICE}
# Errors

Every failure has one of {len(Code)} codes, on every wire. A code never changes its meaning.
*Retryable* says whether the same call may succeed later without anyone changing anything. It is decided for
each failure: a statement that may have written is never retryable while its outcome is not known, and its
details then say `outcome=unknown`.
*Shown* says how much of the cause the client sees. All of it is in the gateway's log, under the query id.

| code | meaning | retryable | shown |
|---|---|---|---|
{meanings}

## On the wires

Where Spark gives a SQLSTATE of its own, that one is sent; the table has the one for our own errors.

| code | SQLSTATE | gRPC | Trino name (number, type) | HTTP |
|---|---|---|---|---|
{wires}

A `RESOURCE_EXHAUSTED` that is not about a queue is Trino's `EXCEEDED_LOCAL_MEMORY_LIMIT` (131079); with
`reason=memory` it is HTTP 503.

## In gRPC

The status message reads `CODE: message (query ID)`. Trailing metadata carries `bailiwick-error-code`,
`bailiwick-sqlstate`, `bailiwick-retryable`, `bailiwick-query-id`, and often `retry-after` (seconds).
`grpc-status-details-bin` holds a `google.rpc.Status` with an `ErrorInfo` (`reason` is the code, `domain` is
`bailiwick`) whose metadata has the same facts and these details where they are known:

| detail | meaning |
|---|---|
| `line`, `column` | where in the statement, counted from 1 |
| `condition` | Spark's own error condition |
| `reason` | why: `memory`, `result_too_large`, `limit`, `too_complex`, `disk_full`, `engine_lost`, … |
| `outcome` | `unknown`: the statement may have written |
| `idempotency_key` | under which it was sent; it does not run again |
| `recorded` | `true`: it failed before under its idempotency key, and was not run again |
| `state` | of the query that runs under the same key (`reason=in_progress`) |
| `attempts`, `attempt_1`, … | how many engines tried, and how the earlier ones failed |
| `kind` | `schema`, where a `DUPLICATE_TABLE` is about one |
"""


def settings_page() -> str:
    """Every setting with its variable, type and default."""
    loose = _table({key: Config.model_fields[key] for key in sorted(loose_settings(Config))})
    tables = "\n".join(_section(name, model) for name, model in sections(Config).items())
    return f"""{_NOTICE}
# Settings

Later sources win: the defaults below, the TOML file given with `--config`, the environment, options of the
command. In the environment, `key` of `[section]` is `{ENVIRONMENT_PREFIX}SECTION__KEY`, and a key before all
sections is `{LOOSE_PREFIX}KEY`; lists are separated by commas, tables by name are JSON, and nothing at all
stands for no value.
Unknown names are refused, all mistakes are told at once; `bailiwick check-config --config FILE` tells them
without starting anything.

Secrets are never read from the TOML file, only from the environment or from files with mode 0600.

```toml
[server]
grpc_port = 50051

[engine]
memory = "4g"
```

## Before all sections

{loose}
{tables}
"""


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "compatibility.md": compatibility_page,
    "errors.md": errors_page,
    "pyspark-api.md": pyspark_api_page,
    "settings.md": settings_page,
    "spark-connect.md": spark_connect_page,
}


def main(arguments: list[str] | None = None, *, directory: Path = DIRECTORY) -> int:
    """Write the pages, or with `--check` say which of them are out of date."""
    parser = argparse.ArgumentParser(prog="python -m bailiwick.cli.reference")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a page differs")
    is_check = parser.parse_args(arguments).check
    stale = [name for name, page in PAGES.items() if _current(directory / name) != page()]
    if is_check:
        for name in stale:
            sys.stderr.write(f"docs/reference/{name} is out of date: run `make docs`\n")
        return 1 if stale else 0
    directory.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (directory / name).write_text(PAGES[name](), encoding="utf-8")
    return 0


def _current(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _trino(trino: Trino) -> str:
    return f"{trino.name} ({trino.number}, {trino.type})"


def _section(name: str, model: type[BaseModel]) -> str:
    about = (model.__doc__ or "").strip().partition("\n")[0]
    heading = f"\n## [{name}]\n\n" + (f"{about}\n\n" if about else "")
    tables = (
        _section(f"{name}.{key}.NAME", inside)
        for key, field in model.model_fields.items()
        if (inside := _model_by_name(field.annotation)) is not None
    )
    return heading + "\n".join((_table(model.model_fields), *tables))


def _model_by_name(annotation: Any) -> type[BaseModel] | None:
    """What each entry of a table by name holds; None where the setting is no such table."""
    return get_args(annotation)[1] if get_origin(annotation) is dict else None


def _table(fields: Mapping[str, FieldInfo]) -> str:
    rows = "\n".join(
        f"| `{key}` | {_type(field)} | {_default(key, field)} | {field.description or ''} |"
        for key, field in fields.items()
    )
    return f"| key | type | default | meaning |\n|---|---|---|---|\n{rows}"


def _type(field: FieldInfo) -> str:
    bounds = [text for text in (_bound(constraint) for constraint in field.metadata) if text]
    return ", ".join([_type_name(field.annotation), *bounds])


def _type_name(annotation: Any) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(part) for part in inside if part is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in inside)
    if origin is tuple:
        return f"list of {_type_name(inside[0])}"
    if origin is dict:
        return "table by name"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "one of " + ", ".join(f"`{choice}`" for choice in annotation)
    return _SIMPLE_TYPES[annotation]


def _bound(constraint: object) -> str | None:
    match constraint:
        case Ge(ge=least):
            return f"≥ {least}"
        case Gt(gt=least):
            return f"> {least}"
        case Le(le=most):
            return f"≤ {most}"
        case Lt(lt=most):
            return f"< {most}"
        case MinLen() | MaxLen():
            return None
        case _:
            pattern = getattr(constraint, "pattern", None)
            return f"like `{pattern}`" if pattern else None


def _default(key: str, field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "must be given"
    if value is None or value == {}:
        return "—"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    if "bytes" in key and isinstance(value, int):
        return f"`{value}`{_in_binary_units(value)}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value}`"


def _in_binary_units(count_bytes: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count_bytes >= size and count_bytes % size == 0:
            return f" ({count_bytes // size} {unit})"
    return ""


if __name__ == "__main__":
    sys.exit(main())
