from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Bearer(_message.Message):
    __slots__ = ("name", "tenant", "actor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    actor: str
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., actor: _Optional[str] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("catalog", "namespace", "time_zone", "double_quoted_identifiers", "timeout_s", "placement")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_QUOTED_IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    namespace: _containers.RepeatedScalarFieldContainer[str]
    time_zone: str
    double_quoted_identifiers: bool
    timeout_s: float
    placement: str
    def __init__(self, catalog: _Optional[str] = ..., namespace: _Optional[_Iterable[str]] = ..., time_zone: _Optional[str] = ..., double_quoted_identifiers: _Optional[bool] = ..., timeout_s: _Optional[float] = ..., placement: _Optional[str] = ...) -> None: ...

class Read(_message.Message):
    __slots__ = ("sql", "schema", "query_id", "parameters", "settings", "submission_key")
    SQL_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_KEY_FIELD_NUMBER: _ClassVar[int]
    sql: str
    schema: bytes
    query_id: str
    parameters: bytes
    settings: Settings
    submission_key: str
    def __init__(self, sql: _Optional[str] = ..., schema: _Optional[bytes] = ..., query_id: _Optional[str] = ..., parameters: _Optional[bytes] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., submission_key: _Optional[str] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("query_id", "gateway", "messages")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    gateway: str
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, query_id: _Optional[str] = ..., gateway: _Optional[str] = ..., messages: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Lookup(_message.Message):
    __slots__ = ("command", "time_zone")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    command: bytes
    time_zone: str
    def __init__(self, command: _Optional[bytes] = ..., time_zone: _Optional[str] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("bearer", "read", "outcome", "lookup")
    BEARER_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_FIELD_NUMBER: _ClassVar[int]
    bearer: Bearer
    read: Read
    outcome: Outcome
    lookup: Lookup
    def __init__(self, bearer: _Optional[_Union[Bearer, _Mapping]] = ..., read: _Optional[_Union[Read, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., lookup: _Optional[_Union[Lookup, _Mapping]] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("bearer", "sql", "kind", "schema", "described_at", "parameter_count", "parameters", "settings")
    BEARER_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_AT_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_COUNT_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    bearer: Bearer
    sql: str
    kind: str
    schema: bytes
    described_at: float
    parameter_count: int
    parameters: bytes
    settings: Settings
    def __init__(self, bearer: _Optional[_Union[Bearer, _Mapping]] = ..., sql: _Optional[str] = ..., kind: _Optional[str] = ..., schema: _Optional[bytes] = ..., described_at: _Optional[float] = ..., parameter_count: _Optional[int] = ..., parameters: _Optional[bytes] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...
