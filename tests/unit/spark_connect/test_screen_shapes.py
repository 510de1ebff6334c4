"""What Spark takes for granted of a plan, and fails over inside if it is not so."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.connect import proto
from spark_connect_messages import SESSION

from bailiwick.doors.spark_connect import screen
from bailiwick.errors import BailiwickError, Code


def of_two_types(literal: Any) -> Any:
    for name in ("a", "b"):
        literal.data_type.struct.fields.add(name=name).data_type.integer.SetInParent()
    return literal


WRONG_STRUCTS: dict[str, Callable[[Any], Any]] = {
    "a struct with one element and two types": lambda literal: of_two_types(literal).struct.elements.add(),
    "a struct whose type is none": lambda literal: (
        literal.struct.elements.add(),
        literal.struct.struct_type.integer.SetInParent(),
    ),
}


@pytest.mark.parametrize("name", WRONG_STRUCTS)
def test_structs_have_a_type_for_each_element(name: str) -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    WRONG_STRUCTS[name](request.plan.root.project.expressions.add().literal)
    with pytest.raises(BailiwickError, match="elements and"):
        screen.execute(request.SerializeToString())


def test_structs_with_their_types_pass() -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    literal = of_two_types(request.plan.root.project.expressions.add().literal)
    for number in (1, 2):
        literal.struct.elements.add(integer=number)
    screen.execute(request.SerializeToString())


@pytest.mark.parametrize("field", ["match_actions", "not_matched_actions", "not_matched_by_source_actions"])
def test_a_merge_is_made_of_actions(field: str) -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    merge = request.plan.command.merge_into_table_command
    merge.source_table_plan.range.end = 1
    getattr(merge, field).add().merge_action.action_type = proto.MergeAction.ACTION_TYPE_DELETE
    screen.execute(request.SerializeToString())
    getattr(merge, field).add().unresolved_star.SetInParent()
    with pytest.raises(BailiwickError, match="no action of a merge"):
        screen.execute(request.SerializeToString())


ROWS_OF_NOTHING: dict[str, Callable[[Any], Any]] = {
    "whole": lambda root: root.cached_local_relation.SetInParent(),
    "in pieces": lambda root: root.chunked_cached_local_relation.SetInParent(),
    "a schema alone": lambda root: setattr(root.chunked_cached_local_relation, "schemaHash", "f" * 64),
    "no bytes": lambda root: setattr(root.local_relation, "data", b""),
}


@pytest.mark.parametrize("name", ROWS_OF_NOTHING)
def test_rows_that_are_mentioned_or_sent_are_some(name: str) -> None:
    request = proto.ExecutePlanRequest(session_id=SESSION)
    ROWS_OF_NOTHING[name](request.plan.root)
    with pytest.raises(BailiwickError) as caught:
        screen.execute(request.SerializeToString())
    assert caught.value.code is Code.PARSE_ERROR
