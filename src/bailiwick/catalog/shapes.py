"""What the parts of table and view metadata look like.

These models only look: what they accept stays the JSON it was, unknown fields and all. A field that is absent
is fine where Iceberg says so; one that is null where a reader wants a number is not.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bailiwick.catalog import schemas, types
from bailiwick.catalog.refusals import BadRequestError
from bailiwick.catalog.wire import Json

_PROBLEMS_SHOWN_MAX = 3


def _hyphenated(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


class Shape(BaseModel):
    """Strict about types, indifferent to fields it does not know."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, alias_generator=_hyphenated)


def matched(shape: type[Shape], value: Any) -> None:
    """Return if `value` looks like `shape`. Raises BadRequestError that says where it does not."""
    try:
        shape.model_validate(value)
    except ValidationError as error:
        raise BadRequestError(explained(error)) from error


def explained(error: ValidationError) -> str:
    """Places and reasons, without the values: they may be long, or nobody's business."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    shown = [
        f"{'.'.join(str(part) for part in problem['loc'])[:200]}: {problem['msg'][:300]}"
        for problem in problems
    ]
    return "; ".join(shown[:_PROBLEMS_SHOWN_MAX])


def _check_schema(value: Json) -> Json:
    schemas.check(value)
    return value


def _check_transform(value: str) -> str:
    types.check_transform(value)
    return value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


Int32 = Annotated[int, Field(ge=0, le=2**31 - 1)]
LastAdded = Annotated[int, Field(ge=-1, le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Field(ge=1, le=2**63 - 1)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Properties = dict[
    Annotated[str, Field(min_length=1, max_length=1024)], Annotated[str, Field(max_length=1 << 20)]
]
SchemaJson = Annotated[Json, AfterValidator(_check_schema)]
Transform = Annotated[str, AfterValidator(_check_transform)]


class PartitionField(Shape):
    name: Text
    transform: Transform
    source_id: Int32
    field_id: Int32 = 0


class PartitionSpec(Shape):
    spec_id: Int32 = 0
    fields_: list[PartitionField] = Field(alias="fields", max_length=1000)


class SortField(Shape):
    transform: Transform
    source_id: Int32
    direction: Annotated[Literal["asc", "desc"], BeforeValidator(_lower)]
    null_order: Annotated[Literal["nulls-first", "nulls-last"], BeforeValidator(_lower)]


class SortOrder(Shape):
    order_id: Int32 = 0
    fields_: list[SortField] = Field(alias="fields", max_length=1000)


class Snapshot(Shape):
    snapshot_id: Int64
    timestamp_ms: Int64
    parent_snapshot_id: Int64 = 0
    sequence_number: Int64 = 0
    schema_id: Int32 = 0
    manifest_list: Text = ""
    manifests: list[Text] = []
    summary: dict[str, str] = {}
    first_row_id: Int64 | None = None
    added_rows: Int64 | None = None
    key_id: str | None = None


class SnapshotReference(Shape):
    snapshot_id: Int64
    type_: Literal["branch", "tag"] = Field(alias="type")
    max_ref_age_ms: Positive | None = None
    max_snapshot_age_ms: Positive | None = None
    min_snapshots_to_keep: Positive | None = None


class Blob(Shape):
    type_: Text = Field(alias="type")
    snapshot_id: Int64
    sequence_number: Int64
    fields_: list[int] = Field(alias="fields")
    properties: dict[str, str] = {}


class StatisticsFile(Shape):
    snapshot_id: Int64
    statistics_path: Text
    file_size_in_bytes: Int64
    file_footer_size_in_bytes: Int64
    blob_metadata: list[Blob]


class PartitionStatisticsFile(Shape):
    snapshot_id: Int64
    statistics_path: Text
    file_size_in_bytes: Int64


class EncryptedKey(Shape):
    key_id: Text
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] = {}


class SnapshotLogEntry(Shape):
    snapshot_id: Int64
    timestamp_ms: Int64


class MetadataLogEntry(Shape):
    metadata_file: Text
    timestamp_ms: Int64


class TableMetadata(Shape):
    """What every version has once `metadata.opened` has seen it."""

    format_version: Annotated[int, Field(ge=1, le=3)]
    table_uuid: Text
    location: Text
    last_sequence_number: Int64 = 0
    last_updated_ms: Int64
    last_column_id: Int32
    current_schema_id: Int32
    schemas: list[SchemaJson] = Field(min_length=1)
    default_spec_id: Int32
    partition_specs: list[PartitionSpec] = Field(min_length=1)
    last_partition_id: Int32
    default_sort_order_id: Int32
    sort_orders: list[SortOrder] = Field(min_length=1)
    properties: Properties = {}
    current_snapshot_id: Annotated[int, Field(ge=-1)] | None = None
    next_row_id: Int64 = 0
    refs: dict[Text, SnapshotReference] = {}
    snapshots: list[Snapshot] = []
    statistics: list[StatisticsFile] = []
    partition_statistics: list[PartitionStatisticsFile] = []
    encryption_keys: list[EncryptedKey] = []
    snapshot_log: list[SnapshotLogEntry] = []
    metadata_log: list[MetadataLogEntry] = []


class Representation(Shape):
    type_: Literal["sql"] = Field(alias="type")
    sql: Annotated[str, Field(min_length=1)]
    dialect: Text


class ViewVersion(Shape):
    version_id: Int32
    schema_id: LastAdded
    timestamp_ms: Int64
    summary: dict[str, str]
    representations: list[Representation] = Field(min_length=1, max_length=100)
    default_catalog: str | None = None
    default_namespace: list[str]


class VersionLogEntry(Shape):
    version_id: Int32
    timestamp_ms: Int64


class ViewMetadata(Shape):
    view_uuid: Text
    format_version: Literal[1]
    location: Text
    schemas: list[SchemaJson] = Field(min_length=1)
    current_version_id: Int32
    versions: list[ViewVersion] = Field(min_length=1)
    version_log: list[VersionLogEntry]
    properties: Properties = {}
