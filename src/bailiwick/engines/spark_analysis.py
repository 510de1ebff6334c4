"""What Spark's AnalyzePlan tells, asked in a way that our own Java (`Analyse`) answers.

Spark's own call carries no tags, so the guard could not know for whom a table is loaded. The question travels
inside an operation instead, whose one row is the answer.
"""

from typing import Any, Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from pyspark.sql.connect import proto

from bailiwick.errors import BailiwickError, Code

ANALYSE_TYPE_URL: Final = "type.googleapis.com/bailiwick.Analyse"


def analysis_plan(request: proto.AnalyzePlanRequest) -> proto.Plan:
    """The plan that answers `request` in one row of bytes. Whose it is, the operation says."""
    plan = proto.Plan()
    plan.root.extension.CopyFrom(AnyMessage(type_url=ANALYSE_TYPE_URL, value=request.SerializeToString()))
    return plan


def read_analysis(told: Any) -> Any:
    """The `proto.AnalyzePlanResponse`. Raises INTERNAL_ERROR if it is none."""
    try:
        return proto.AnalyzePlanResponse.FromString(told)
    except (DecodeError, TypeError) as error:
        raise BailiwickError(
            Code.INTERNAL_ERROR,
            "The engine told of the plan in a way that the gateway does not understand.",
            cause_text=f"{type(error).__name__}: {error}",
        ) from error
