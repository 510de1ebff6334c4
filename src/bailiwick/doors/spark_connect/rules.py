"""The verdicts, laid over the messages that are installed, and the walk that holds a message against them.

A field that has no verdict is refused, whatever it is: so what a new Spark adds stays refused until someone
has looked at it, and a test says which fields those are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from bailiwick.doors.spark_connect.findings import Findings
from bailiwick.doors.spark_connect.unpacking import Bounds, too_much
from bailiwick.doors.spark_connect.values import CHECKS, Check
from bailiwick.doors.spark_connect.verdicts import MessageVerdicts, verdicts
from bailiwick.errors import USER_CODE, BailiwickError, Code

PACKAGE: Final = "spark.connect."
_COMMON: Final = "common"
_RELATION: Final = "Relation"


class Shape(IntEnum):
    ONE = 0
    MANY = 1
    MAP = 2


@dataclass(slots=True)
class Rule:
    """What is done with one field. One that simply passes has none."""

    where: str
    """`Message.field`."""
    refused: str | None = None
    """The name of the reason."""
    only_if_true: bool = False
    """Whether the refused field is a flag, which says nothing unless it is set."""
    check: Check | None = None
    inside: "Rules | None" = None
    """For the messages that it holds."""
    shape: Shape = Shape.ONE
    numbers: frozenset[int] | None = None
    """The values of an enumeration."""


@dataclass(slots=True)
class Rules:
    """What is done with one kind of message."""

    name: str
    fields: dict[int, Rule | None] = field(default_factory=dict)
    """By number. A field that is not here is refused."""
    needs: Mapping[str, str] = field(default_factory=dict)
    is_relation: bool = False


Step = tuple[Any, Rules | None]
"""A message and its rules; without rules, the end of a relation."""

_END: Final[Step] = (None, None)


def walk(message: Message, found: Findings, bounds: Bounds) -> None:
    """Return if every part of the message may pass. Raises NOT_SUPPORTED, or what a check of a value does."""
    steps: list[Step] = [(message, rules_for(message.DESCRIPTOR))]
    count = 0
    while steps:
        message, rules = steps.pop()
        if rules is None:
            found.end()
            continue
        if len(UnknownFieldSet(message)):
            raise _not_known(rules.name, f"the field with number {UnknownFieldSet(message)[0].field_number}")
        present = message.ListFields()
        if rules.is_relation:
            found.begin(message, _kind(present))
            steps.append(_END)
        inside: list[Step] = []
        for each, value in present:
            rule = rules.fields.get(each.number, _UNLISTED)
            if rule is not None:
                _apply(rule, each, value, message, found)
                if rule.inside is not None:
                    count += 1 if rule.shape is Shape.ONE else len(value)
                    if count > bounds.messages_max:
                        raise too_much("The plan has too many parts.", "messages_max")
                    inside += _inside(rule.inside, rule.shape, value)
        for oneof, reason in rules.needs.items():
            if message.WhichOneof(oneof) is None:
                raise _missing(rules.name, oneof, reason)
        # What stands first is looked at first.
        steps += reversed(inside)


def _apply(rule: Rule, each: FieldDescriptor, value: Any, message: Message, found: Findings) -> None:
    if rule is _UNLISTED:
        raise _not_known(message.DESCRIPTOR.full_name.removeprefix(PACKAGE), f"the field {each.name}")
    if rule.refused is not None and (value or not rule.only_if_true):
        if rule.refused != USER_CODE or not found.may_run_code:
            raise verdicts().refusal(rule.where, rule.refused)
        found.has_code = True
    if rule.numbers is not None and value not in rule.numbers:
        raise _not_known(rule.where, f"the value {value}")
    if rule.check is not None:
        rule.check(found, value, message, rule.where)


def _inside(rules: Rules, shape: Shape, value: Any) -> list[Step]:
    match shape:
        case Shape.ONE:
            return [(value, rules)]
        case Shape.MANY:
            return [(one, rules) for one in value]
        case Shape.MAP:
            return [(one, rules) for one in value.values()]


def _kind(present: Sequence[tuple[FieldDescriptor, Any]]) -> str:
    kinds = [each.name for each, _ in present if each.name != _COMMON]
    if not kinds:
        raise BailiwickError(Code.PARSE_ERROR, "A Relation came without its rel_type.")
    return kinds[0]


def _missing(name: str, oneof: str, reason: str) -> BailiwickError:
    if reason:
        return verdicts().refusal(name, reason)
    return BailiwickError(Code.PARSE_ERROR, f"A {name} came without its {oneof}.")


def _not_known(where: str, what: str) -> BailiwickError:
    message = f"{where} came with {what}, which is not known here. Use a client of Spark 4.0 or 4.1."
    return BailiwickError(Code.NOT_SUPPORTED, message, details={"reason": "unknown"})


_UNLISTED: Final = Rule("")


@cache
def rules_for(kind: Descriptor) -> Rules:
    """The rules for a message and all that can be inside it."""
    return _Laying().rules(kind)


class _Laying:
    """Lays the verdicts over one message after the other. They hold one another, so each is made once."""

    def __init__(self) -> None:
        self._made: dict[str, Rules] = {}

    def rules(self, kind: Descriptor) -> Rules:
        name = kind.full_name.removeprefix(PACKAGE)
        if name not in self._made:
            made = self._made[name] = Rules(name, is_relation=name == _RELATION)
            listed = verdicts().messages.get(name)
            if listed is not None:
                made.needs = listed.needs
                for each in kind.fields:
                    self._lay(made, listed, each)
        return self._made[name]

    def _lay(self, rules: Rules, listed: MessageVerdicts, each: FieldDescriptor) -> None:
        where = f"{rules.name}.{each.name}"
        if each.name in listed.refused:
            is_flag = each.type == FieldDescriptor.TYPE_BOOL and not each.is_repeated
            rule = rules.fields[each.number] = Rule(where, listed.refused[each.name], only_if_true=is_flag)
            if rule.refused == USER_CODE:
                self._look_inside(rule, each)
        elif each.name in listed.allowed or each.name in listed.checked:
            rule = Rule(where)
            if each.name in listed.checked:
                rule.check = CHECKS[listed.checked[each.name]]
            self._look_inside(rule, each)
            is_plain = rule.check is None and rule.inside is None and rule.numbers is None
            rules.fields[each.number] = None if is_plain else rule

    def _look_inside(self, rule: Rule, each: FieldDescriptor) -> None:
        inside = each.message_type
        if each.is_repeated:
            rule.shape = Shape.MANY
        if inside is not None and inside.GetOptions().map_entry:
            rule.shape = Shape.MAP
            inside = inside.fields_by_name["value"].message_type
        if inside is not None:
            rule.inside = self.rules(inside)
        if each.enum_type is not None and not each.is_repeated:
            rule.numbers = frozenset(each.enum_type.values_by_number)
