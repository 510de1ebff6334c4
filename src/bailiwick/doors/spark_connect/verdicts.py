"""The table beside this module (`verdicts.toml`): what a Spark Connect client may send, and why not the rest.

Read once. It holds no judgement of its own and knows no messages: `rules.py` lays the table over those that
are installed, and `docs/reference/spark-connect.md` is written from it.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from bailiwick.errors import BailiwickError, Code


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is refused."""

    because: str
    instead: str
    """What to do; also one sentence."""


@dataclass(frozen=True, slots=True)
class MessageVerdicts:
    """One message. A field that is in none of the three is refused."""

    allowed: frozenset[str]
    checked: Mapping[str, str]
    """By field: the name of the check that its value must pass."""
    refused: Mapping[str, str]
    """By field: the name of the reason."""
    needs: Mapping[str, str]
    """Oneofs of which a member must be there, with the name of the reason; without one, it is a mistake."""


@dataclass(frozen=True, slots=True)
class OptionVerdicts:
    """Names of options, properties and the like, in lower case unless Spark minds the case."""

    read: frozenset[str]
    write: frozenset[str]
    write_prefixes: tuple[str, ...]
    refused_properties: frozenset[str]
    refused_property_prefixes: tuple[str, ...]
    formats: frozenset[str]
    column_marks: frozenset[str]
    refused_column_marks: frozenset[str]
    reflection: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verdicts:
    calls: frozenset[str]
    """Those that are answered. Anything else is refused by `service.py`."""
    reasons: Mapping[str, Reason]
    messages: Mapping[str, MessageVerdicts]
    """By name, without `spark.connect.`."""
    options: OptionVerdicts
    pyspark: Mapping[str, str]
    """What PySpark calls it, by call or by `Message.field`."""

    def refusal(self, what: str, reason: str, *, detail: str = "") -> BailiwickError:
        """The error for `what`, a `Message.field`; `detail` says which of several it was."""
        why = self.reasons[reason]
        called = self.pyspark.get(what, "—")
        known_as = f" ({called})" if called != "—" else ""
        about = f": {detail}" if detail else ""
        message = f"{what}{known_as}{about} is not supported. {why.because} {why.instead}"
        return BailiwickError(Code.NOT_SUPPORTED, message, details={"reason": reason, "kind": what})


@cache
def verdicts() -> Verdicts:
    """The table. Raises ValueError if it contradicts itself."""
    text = resources.files(__package__).joinpath("verdicts.toml").read_text(encoding="utf-8")
    return _read(tomllib.loads(text))


def _read(table: Mapping[str, Any]) -> Verdicts:
    reasons = {name: Reason(each["because"], each["instead"]) for name, each in table["reasons"].items()}
    messages = {name: _message(name, each, reasons) for name, each in table["messages"].items()}
    return Verdicts(
        calls=frozenset(table["calls"]["allowed"]),
        reasons=reasons,
        messages=messages,
        options=_options(table["options"]),
        pyspark=table["pyspark"],
    )


def _message(name: str, table: Mapping[str, Any], reasons: Mapping[str, Reason]) -> MessageVerdicts:
    allowed, checked, refused = table.get("allowed", ()), table.get("checked", {}), table.get("refused", {})
    _refuse_twice(name, allowed, checked, refused)
    needs = table.get("needs", {})
    named = {*refused.values(), *needs.values()} - {""}
    unknown = named - set(reasons) | set(table) - {"allowed", "checked", "refused", "needs"}
    if unknown:
        raise ValueError(f"verdicts on {name} name {', '.join(sorted(unknown))}, which is nothing")
    return MessageVerdicts(frozenset(allowed), checked, refused, needs)


def _refuse_twice(where: str, *groups: Any) -> None:
    names = [name for group in groups for name in group]
    if len(names) != len(set(names)):
        raise ValueError(f"verdicts on {where} name something twice")


def _options(table: Mapping[str, Any]) -> OptionVerdicts:
    lowered = {name: frozenset(each.lower() for each in table[name]) for name in ("read", "write")}
    return OptionVerdicts(
        read=lowered["read"],
        write=lowered["write"],
        write_prefixes=tuple(table["write_prefixes"]),
        refused_properties=frozenset(table["refused_properties"]),
        refused_property_prefixes=tuple(table["refused_property_prefixes"]),
        formats=frozenset(table["formats"]),
        column_marks=frozenset(table["column_marks"]),
        refused_column_marks=frozenset(table["refused_column_marks"]),
        reflection=frozenset(table["reflection"]),
    )
