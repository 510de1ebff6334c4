"""Whether a text can be a rule: the question as our Java (`PolicyCheck`) takes it, and the answer."""

import json
from typing import Final

from google.protobuf.any_pb2 import Any as AnyMessage
from pyspark.sql.connect import proto

from bailiwick.engines.description import full_name
from bailiwick.errors import BailiwickError, Code
from bailiwick.policy.expressions import Checked, ExpressionKind

CHECK_TYPE_URL: Final = "type.googleapis.com/bailiwick.CheckExpression"


def check_plan(
    table: tuple[str, ...] | None, kind: ExpressionKind, sql: str, value_type: str | None
) -> proto.Plan:
    """The plan that answers in one row of JSON what `sql` is on the table, or with a `value` of that type."""
    question = {"table": table or (), "kind": kind, "sql": sql, "value_type": value_type}
    plan = proto.Plan()
    value = proto.SQL(query=json.dumps(question)).SerializeToString()
    plan.root.extension.CopyFrom(AnyMessage(type_url=CHECK_TYPE_URL, value=value))
    return plan


def checked(text: str) -> Checked:
    """Raises INVALID_ARGUMENTS if the answer is that it is no rule."""
    try:
        told = json.loads(text)
        if "error" in told:
            raise BailiwickError(Code.INVALID_ARGUMENTS, str(told["error"]))
        return Checked(
            columns=tuple(map(str, told["columns"])),
            tables=tuple(full_name(parts) for parts in told.get("tables", ())),
            functions=tuple(map(str, told["functions"])),
            type=str(told["type"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BailiwickError(
            Code.INTERNAL_ERROR,
            "Spark described the expression in a way that the gateway does not understand.",
            cause_text=f"{type(error).__name__}: {error}: {text[:1000]}",
        ) from error
