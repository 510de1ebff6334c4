"""What may be asked of the catalog: the bodies of the protocol's calls.

Kinds of updates and requirements are listed here; any other is refused, since nobody has looked at it.
"""

from typing import Annotated, Literal

from pydantic import Field

from bailiwick.catalog.shapes import (
    EncryptedKey,
    Int32,
    Int64,
    LastAdded,
    PartitionSpec,
    PartitionStatisticsFile,
    Properties,
    SchemaJson,
    Shape,
    Snapshot,
    SnapshotReference,
    SortOrder,
    StatisticsFile,
    Text,
    ViewVersion,
)

UPDATES_MAX = 10_000
TABLES_MAX = 100


class AssignUuid(Shape):
    action: Literal["assign-uuid"]
    uuid: Text


class UpgradeFormatVersion(Shape):
    action: Literal["upgrade-format-version"]
    format_version: Annotated[int, Field(ge=1, le=3)]


class AddSchema(Shape):
    action: Literal["add-schema"]
    schema_: SchemaJson = Field(alias="schema")


class SetCurrentSchema(Shape):
    action: Literal["set-current-schema"]
    schema_id: LastAdded


class AddSpec(Shape):
    action: Literal["add-spec"]
    spec: PartitionSpec


class SetDefaultSpec(Shape):
    action: Literal["set-default-spec"]
    spec_id: LastAdded


class AddSortOrder(Shape):
    action: Literal["add-sort-order"]
    sort_order: SortOrder


class SetDefaultSortOrder(Shape):
    action: Literal["set-default-sort-order"]
    sort_order_id: LastAdded


class AddSnapshot(Shape):
    action: Literal["add-snapshot"]
    snapshot: Snapshot


class SetSnapshotRef(SnapshotReference):
    action: Literal["set-snapshot-ref"]
    ref_name: Text


class RemoveSnapshots(Shape):
    action: Literal["remove-snapshots"]
    snapshot_ids: list[Int64]


class RemoveSnapshotRef(Shape):
    action: Literal["remove-snapshot-ref"]
    ref_name: Text


class SetLocation(Shape):
    action: Literal["set-location"]
    location: Text


class SetProperties(Shape):
    action: Literal["set-properties"]
    updates: Properties


class RemoveProperties(Shape):
    action: Literal["remove-properties"]
    removals: list[str]


class SetStatistics(Shape):
    action: Literal["set-statistics"]
    statistics: StatisticsFile


class RemoveStatistics(Shape):
    action: Literal["remove-statistics", "remove-partition-statistics"]
    snapshot_id: Int64


class SetPartitionStatistics(Shape):
    action: Literal["set-partition-statistics"]
    partition_statistics: PartitionStatisticsFile


class RemoveSpecs(Shape):
    action: Literal["remove-partition-specs"]
    spec_ids: list[Int32]


class RemoveSchemas(Shape):
    action: Literal["remove-schemas"]
    schema_ids: list[Int32]


class AddEncryptionKey(Shape):
    action: Literal["add-encryption-key"]
    encryption_key: EncryptedKey


class RemoveEncryptionKey(Shape):
    action: Literal["remove-encryption-key"]
    key_id: Text


class AddViewVersion(Shape):
    action: Literal["add-view-version"]
    view_version: ViewVersion


class SetCurrentViewVersion(Shape):
    action: Literal["set-current-view-version"]
    view_version_id: LastAdded


TableUpdate = Annotated[
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemoveSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey,
    Field(discriminator="action"),
]
ViewUpdate = Annotated[
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion,
    Field(discriminator="action"),
]


class AssertCreate(Shape):
    type_: Literal["assert-create"] = Field(alias="type")


class AssertTableUuid(Shape):
    type_: Literal["assert-table-uuid"] = Field(alias="type")
    uuid: Text


class AssertViewUuid(Shape):
    type_: Literal["assert-view-uuid"] = Field(alias="type")
    uuid: Text


class AssertRefSnapshotId(Shape):
    type_: Literal["assert-ref-snapshot-id"] = Field(alias="type")
    ref: Text
    snapshot_id: Int64 | None = None
    """Null says that there must be no such ref."""


class AssertLastAssignedFieldId(Shape):
    type_: Literal["assert-last-assigned-field-id"] = Field(alias="type")
    last_assigned_field_id: int


class AssertCurrentSchemaId(Shape):
    type_: Literal["assert-current-schema-id"] = Field(alias="type")
    current_schema_id: int


class AssertLastAssignedPartitionId(Shape):
    type_: Literal["assert-last-assigned-partition-id"] = Field(alias="type")
    last_assigned_partition_id: int


class AssertDefaultSpecId(Shape):
    type_: Literal["assert-default-spec-id"] = Field(alias="type")
    default_spec_id: int


class AssertDefaultSortOrderId(Shape):
    type_: Literal["assert-default-sort-order-id"] = Field(alias="type")
    default_sort_order_id: int


Requirement = Annotated[
    AssertCreate
    | AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId,
    Field(discriminator="type_"),
]


class TableIdentifier(Shape):
    namespace: list[str]
    name: str


class CommitTable(Shape):
    identifier: TableIdentifier | None = None
    requirements: list[Requirement] = Field(max_length=1000)
    updates: list[TableUpdate] = Field(max_length=UPDATES_MAX)


class CommitView(Shape):
    identifier: TableIdentifier | None = None
    requirements: list[AssertViewUuid] = Field(default=[], max_length=1000)
    updates: list[ViewUpdate] = Field(max_length=UPDATES_MAX)


class CommitTransaction(Shape):
    table_changes: list[CommitTable] = Field(min_length=1, max_length=TABLES_MAX)


class CreateTable(Shape):
    name: str
    location: str | None = None
    schema_: SchemaJson = Field(alias="schema")
    partition_spec: PartitionSpec | None = None
    write_order: SortOrder | None = None
    stage_create: bool | None = None
    properties: Properties | None = None


class CreateView(Shape):
    name: str
    location: str | None = None
    schema_: SchemaJson = Field(alias="schema")
    view_version: ViewVersion
    properties: Properties | None = None


class RegisterTable(Shape):
    name: str
    metadata_location: Text
    overwrite: bool = False


class Rename(Shape):
    source: TableIdentifier
    destination: TableIdentifier


class CreateNamespace(Shape):
    namespace: list[str]
    properties: Properties | None = None


class UpdateNamespace(Shape):
    removals: list[str] | None = None
    updates: Properties | None = None
