"""What a FlightInfo says besides its schema and its tickets."""

import json

from google.protobuf.timestamp_pb2 import Timestamp

from bailiwick.ids import QueryId
from bailiwick.queries.statement import RanOn


def about(query_id: QueryId, *, ran_on: RanOn | None = None, queue_position: int | None = None) -> bytes:
    """What a FlightInfo says of its query, as JSON in its `app_metadata`."""
    said: dict[str, str | int | bool] = {"query_id": query_id}
    if ran_on is not None:
        said |= {"ran_on": ran_on.node_id, "is_fallback": ran_on.is_fallback}
    if queue_position is not None:
        said["queue_position"] = queue_position
    return json.dumps(said).encode()


def timestamp(seconds: float) -> Timestamp:
    return Timestamp(seconds=int(seconds), nanos=int(seconds % 1 * 1_000_000_000))
