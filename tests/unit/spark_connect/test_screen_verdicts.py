"""Every message and field of the installed Spark Connect has a verdict, and every verdict holds."""

from typing import Any

import pytest
from pyspark.sql.connect import proto
from pyspark.sql.connect.proto import base_pb2
from spark_connect_messages import JUDGES, inside, name_of, paths, put, reaching, refused_fields

from bailiwick.doors.spark_connect.rules import PACKAGE, rules_for
from bailiwick.doors.spark_connect.values import CHECKS
from bailiwick.doors.spark_connect.verdicts import verdicts
from bailiwick.errors import USER_CODE, BailiwickError, Code

SERVICE: Any = base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"]
POOL: Any = base_pb2.DESCRIPTOR.pool
UNKNOWN_NUMBER = 2047
UNKNOWN_FIELD = b"\xf8\x7f\x01"
"""Number 2047, a varint: 1."""
UNKNOWN_VALUE = 99


IN_NEED = frozenset(
    {
        *("Read", "Catalog", "Command", "SqlCommand"),
        *("CommonInlineUserDefinedFunction", "CommonInlineUserDefinedTableFunction"),
    }
)
"""They cannot be empty."""


def kind_of(name: str) -> Any:
    return POOL.FindMessageTypeByName(PACKAGE + name)


def test_every_call_has_a_verdict() -> None:
    """It fails when a new Spark brings a call: decide, and say so in verdicts.toml."""
    assert verdicts().calls == {method.name for method in SERVICE.methods}
    assert set(JUDGES) == {method.input_type.name for method in SERVICE.methods}


def test_every_field_of_every_message_that_may_be_sent_has_a_verdict() -> None:
    """It fails when a new Spark brings a message or a field: decide, and say so in verdicts.toml."""
    missing, gone = [], []
    for name in [*paths(), "Plan.CompressedOperation"]:
        listed = verdicts().messages.get(name)
        known = set() if listed is None else {*listed.allowed, *listed.checked, *listed.refused}
        present = {field.name for field in kind_of(name).fields}
        missing += [f"{name}.{field}" for field in present - known]
        gone += [f"{name}.{field}" for field in known - present]
    assert (missing, gone) == ([], [])


def test_there_is_no_verdict_on_a_message_that_is_not_there_or_cannot_be_sent() -> None:
    assert set(verdicts().messages) == {*paths(), "Plan.CompressedOperation"}


def test_every_kind_is_named_for_people() -> None:
    for name in ("Relation", "Expression", "Command", "Catalog", "AnalyzePlanRequest"):
        for oneof in kind_of(name).oneofs:
            for field in oneof.fields:
                if not oneof.name.startswith("_"):
                    assert f"{name}.{field.name}" in verdicts().pyspark
    named = {f"{name}.{field}" for name, field, _ in refused_fields()}
    assert named <= set(verdicts().pyspark)


def test_every_reason_and_every_check_is_used_and_known() -> None:
    used = {check for listed in verdicts().messages.values() for check in listed.checked.values()}
    assert used == set(CHECKS)
    reasons = {reason for _, _, reason in refused_fields()}
    of_values = {
        "artifacts", "column_marks", "nested_catalog", "option", "reflection", "table_format", "user_type"
    }  # fmt: skip
    assert reasons | of_values == set(verdicts().reasons)


@pytest.mark.parametrize("name", paths())
def test_every_message_that_may_be_sent_is_reached_and_passes(name: str) -> None:
    """Empty as it is, except where it cannot do without a part."""
    if name in IN_NEED:
        with pytest.raises(BailiwickError, match=r"came without its|no statement"):
            reaching(name).judge()
    else:
        reaching(name).judge()


@pytest.mark.parametrize(("name", "field", "reason"), refused_fields())
def test_what_is_refused_says_what_and_why(name: str, field: str, reason: str) -> None:
    reached = reaching(name)
    put(reached.message, kind_of(name).fields_by_name[field])
    with pytest.raises(BailiwickError) as caught:
        reached.judge(may_run_code=reason != USER_CODE)
    why = verdicts().reasons[reason]
    assert caught.value.code is Code.NOT_SUPPORTED
    assert caught.value.message.startswith(f"{name}.{field}")
    assert caught.value.message.endswith(f"{why.because} {why.instead}")
    assert caught.value.details == {"reason": reason, "kind": f"{name}.{field}"}


@pytest.mark.parametrize("name", paths())
def test_unknown_fields_are_refused_wherever_they_are(name: str) -> None:
    reached = reaching(name)
    reached.message.MergeFromString(UNKNOWN_FIELD)
    with pytest.raises(BailiwickError) as caught:
        reached.judge()
    assert caught.value.code is Code.NOT_SUPPORTED
    assert caught.value.message.startswith(f"{name} came with the field with number {UNKNOWN_NUMBER}")


def enumerations() -> list[tuple[str, str]]:
    return [
        (name, field.name)
        for name in paths()
        for field in kind_of(name).fields
        if field.enum_type is not None and field.name not in verdicts().messages[name].refused
    ]


@pytest.mark.parametrize(("name", "field"), enumerations())
def test_unknown_values_of_enumerations_are_refused(name: str, field: str) -> None:
    reached = reaching(name)
    setattr(reached.message, field, UNKNOWN_VALUE)
    with pytest.raises(BailiwickError, match=f"{name}.{field} came with the value {UNKNOWN_VALUE}") as caught:
        reached.judge()
    assert caught.value.code is Code.NOT_SUPPORTED


def test_flags_that_are_not_set_say_nothing() -> None:
    reached = reaching("Deduplicate")
    reached.message.within_watermark = False
    assert reached.judge().text == "deduplicate"


def test_a_field_without_a_verdict_is_refused() -> None:
    """As one is that a newer Spark brings, until someone has looked at it."""
    rules = rules_for(proto.ExecutePlanRequest.DESCRIPTOR)
    number = proto.ExecutePlanRequest.DESCRIPTOR.fields_by_name["client_type"].number
    kept = rules.fields.pop(number)
    try:
        reached = reaching("ExecutePlanRequest")
        reached.message.client_type = "x"
        with pytest.raises(BailiwickError, match="came with the field client_type") as caught:
            reached.judge()
        assert caught.value.code is Code.NOT_SUPPORTED
    finally:
        rules.fields[number] = kept


def test_no_message_that_may_be_sent_holds_anything_of_anybody_s() -> None:
    """`Any` can be everything, so only refused fields lead to it."""
    holders = [
        f"{name}.{field.name}"
        for name in paths()
        for field in kind_of(name).fields
        if inside(field) is not None and not inside(field).full_name.startswith(PACKAGE)
    ]
    assert set(holders) <= {f"{name}.{field}" for name, field, _ in refused_fields()}
    assert name_of(proto.Relation.DESCRIPTOR) == "Relation"
