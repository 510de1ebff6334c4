"""Whether what a Spark Connect client sends may pass, and what is in it.

Pure: bytes come in, a message that has been looked at all over comes out, or a typed error. What the client
says about who it is, is dropped; names and texts are collected for those who judge them (the guard, the
policies, the recipe of a session).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from google.protobuf.message import Message
from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect.findings import TEXT_LENGTH_MAX, Contents, Findings
from bailiwick.doors.spark_connect.rules import rules_for, walk
from bailiwick.doors.spark_connect.unpacking import BOUNDS, Bounds, parse, unpack
from bailiwick.doors.spark_connect.verdicts import verdicts
from bailiwick.errors import BailiwickError, Code
from bailiwick.telemetry.scrub import bounded

M = TypeVar("M", bound=Message)

CATALOG_CALLS_FOR_THE_SESSION: Final = frozenset(
    {"set_current_database", "set_current_catalog", "drop_temp_view"}
)
"""They change what the session is."""
CATALOG_CALLS_FOR_THE_LAKE: Final = frozenset({"create_table"})


class PlanKind(StrEnum):
    READ = "read"
    """Relations without a statement in them: gives rows, leaves nothing behind."""
    SQL = "sql"
    """Relations with a statement in them. It may be a command, which is then carried out."""
    SQL_COMMAND = "sql_command"
    """What `spark.sql` sends: the first of its texts is the statement, others are of frames that it names."""
    CATALOG = "catalog"
    """One call of `spark.catalog`."""
    VIEW = "view"
    """A temporary view of the session, made from a plan."""
    FUNCTION = "function"
    """A function of the session, which is code of its author's."""
    WRITE = "write"
    """Rows of a plan for a table: saveAsTable, insertInto, writeTo, mergeInto."""


@dataclass(frozen=True, slots=True)
class ScreenedPlan:
    """An ExecutePlanRequest. Who sent it is not in here."""

    plan: proto.Plan
    """Never compressed."""
    kind: PlanKind
    contents: Contents
    session_id: str
    """The client's name for its session, a UUID."""
    operation_id: str | None
    observed_session_id: str | None
    """What the client believes the server's side of the session to be called."""
    tags: tuple[str, ...]
    reattachable: bool
    chunking: proto.ResultChunkingOptions | None
    client_type: str

    @property
    def reads_compressed(self) -> bool:
        """Whether its client reads batches with zstd bodies, by its own word: PySpark does, by pyarrow."""
        return self.client_type.rpartition(" ")[2].startswith("python/")

    @property
    def names(self) -> tuple[str, ...]:
        return self.contents.names

    @property
    def sql_texts(self) -> tuple[str, ...]:
        return self.contents.sql_texts

    @property
    def text(self) -> str:
        """For the query log: the statement where the plan is one, else the kinds of its relations."""
        return _text(self.kind, self.contents)

    @property
    def may_write(self) -> bool:
        """Whether it may change the lake, so that it must not be tried twice."""
        match self.kind:
            case PlanKind.SQL | PlanKind.SQL_COMMAND | PlanKind.WRITE:
                return True
            case PlanKind.CATALOG:
                return self.catalog_call in CATALOG_CALLS_FOR_THE_LAKE
            case PlanKind.FUNCTION:
                return False
            case PlanKind.READ | PlanKind.VIEW:
                # A view is analysed when it is made, and a command in it is carried out then.
                return bool(self.contents.sql_texts)

    @property
    def changes_session(self) -> bool:
        """Whether it is known to change what the session is; of statements, only their parse can tell."""
        return self.kind is PlanKind.VIEW or self.catalog_call in CATALOG_CALLS_FOR_THE_SESSION

    @property
    def catalog_call(self) -> str | None:
        """The name of the call, as the field of `Catalog` has it."""
        call = self.contents.catalog
        return None if call is None else str(call.WhichOneof("cat_type"))


@dataclass(frozen=True, slots=True)
class ScreenedAnalysis:
    """An AnalyzePlanRequest."""

    request: proto.AnalyzePlanRequest
    """Without the client's ids, context and name; its plans are never compressed."""
    kind: str
    """The member of `analyze` that it is: schema, explain, …"""
    contents: Contents
    session_id: str
    observed_session_id: str | None
    client_type: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.contents.names

    @property
    def sql_texts(self) -> tuple[str, ...]:
        return self.contents.sql_texts

    @property
    def text(self) -> str:
        return bounded(f"{self.kind}: {self.contents.tree}", TEXT_LENGTH_MAX)


def execute(request: bytes, bounds: Bounds = BOUNDS, *, may_run_code: bool = False) -> ScreenedPlan:
    """Raises NOT_SUPPORTED, PARSE_ERROR, INVALID_ARGUMENTS or RESOURCE_EXHAUSTED, as all of these do."""
    message = parse(proto.ExecutePlanRequest, request, bounds)
    unpack(message.plan, bounds)
    found = Findings(may_run_code)
    walk(message, found, bounds)
    _need(message, "session_id", "plan")
    if message.plan.command.HasField("sql_command") and not found.sql_texts:
        raise BailiwickError(Code.PARSE_ERROR, "There is no statement in the command.")
    options = message.request_options
    chunkings = [each.result_chunking_options for each in options if each.HasField("result_chunking_options")]
    contents = found.contents()
    return ScreenedPlan(
        plan=message.plan,
        kind=_kind(message.plan, contents),
        contents=contents,
        session_id=message.session_id,
        operation_id=message.operation_id or None,
        observed_session_id=message.client_observed_server_side_session_id or None,
        tags=tuple(dict.fromkeys(message.tags)),
        reattachable=any(each.reattach_options.reattachable for each in options),
        chunking=chunkings[-1] if chunkings else None,
        client_type=bounded(message.client_type, TEXT_LENGTH_MAX),
    )


def analyse(request: bytes, bounds: Bounds = BOUNDS, *, may_run_code: bool = False) -> ScreenedAnalysis:
    message = parse(proto.AnalyzePlanRequest, request, bounds)
    kind = message.WhichOneof("analyze")
    for plan in _plans(message, kind):
        unpack(plan, bounds)
        if plan.HasField("command"):
            raise BailiwickError(Code.NOT_SUPPORTED, "Commands are executed, not analysed.")
    # As if there had been a relation already: a call of the catalog is carried out, so it is not analysed.
    found = Findings(may_run_code, relation_count=1)
    walk(message, found, bounds)
    _need(message, "session_id")
    screened = ScreenedAnalysis(
        request=message,
        kind=str(kind),
        contents=found.contents(),
        session_id=message.session_id,
        observed_session_id=message.client_observed_server_side_session_id or None,
        client_type=bounded(message.client_type, TEXT_LENGTH_MAX),
    )
    for name in ("session_id", "client_observed_server_side_session_id", "user_context", "client_type"):
        message.ClearField(name)
    return screened


def config(request: bytes, bounds: Bounds = BOUNDS) -> proto.ConfigRequest:
    """Which keys may be read or set, `configs.py` knows."""
    return _plain(proto.ConfigRequest, request, bounds, "session_id", "operation")


def interrupt(request: bytes, bounds: Bounds = BOUNDS) -> proto.InterruptRequest:
    return _plain(proto.InterruptRequest, request, bounds, "session_id")


def reattach(request: bytes, bounds: Bounds = BOUNDS) -> proto.ReattachExecuteRequest:
    return _plain(proto.ReattachExecuteRequest, request, bounds, "session_id", "operation_id")


def release(request: bytes, bounds: Bounds = BOUNDS) -> proto.ReleaseExecuteRequest:
    return _plain(proto.ReleaseExecuteRequest, request, bounds, "session_id", "operation_id")


def release_session(request: bytes, bounds: Bounds = BOUNDS) -> proto.ReleaseSessionRequest:
    return _plain(proto.ReleaseSessionRequest, request, bounds, "session_id")


def fetch_error_details(request: bytes, bounds: Bounds = BOUNDS) -> proto.FetchErrorDetailsRequest:
    return _plain(proto.FetchErrorDetailsRequest, request, bounds, "session_id", "error_id")


def artifact_statuses(request: bytes, bounds: Bounds = BOUNDS) -> proto.ArtifactStatusesRequest:
    return _plain(proto.ArtifactStatusesRequest, request, bounds, "session_id")


def add_artifacts(request: bytes, bounds: Bounds = BOUNDS) -> proto.AddArtifactsRequest:
    return _plain(proto.AddArtifactsRequest, request, bounds, "session_id")


def clone_session(request: bytes, bounds: Bounds = BOUNDS) -> proto.CloneSessionRequest:
    return _plain(proto.CloneSessionRequest, request, bounds, "session_id")


def local_relation(rows: proto.LocalRelation, bounds: Bounds = BOUNDS) -> None:
    """Rows that were sent ahead of a plan, as if they stood in it."""
    walk(rows, Findings(), bounds)


def prepare() -> None:
    """Lay the rules over all messages now rather than when the first client comes."""
    for method in proto.base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods:
        if method.name in verdicts().calls:
            rules_for(method.input_type)


def _plain(kind: type[M], request: bytes, bounds: Bounds, *needed: str) -> M:
    message = parse(kind, request, bounds)
    walk(message, Findings(), bounds)
    _need(message, *needed)
    return message


def _need(message: Message, *fields: str) -> None:
    present = {field.name for field, _ in message.ListFields()}
    missing = [name for name in fields if name not in present]
    if missing:
        raise BailiwickError(
            Code.INVALID_ARGUMENTS, f"{message.DESCRIPTOR.name} came without its {' and '.join(missing)}."
        )


def _plans(request: proto.AnalyzePlanRequest, kind: str | None) -> list[proto.Plan]:
    if kind is None:
        return []
    inside = getattr(request, kind)
    return [value for field, value in inside.ListFields() if isinstance(value, proto.Plan)]


def _kind(plan: proto.Plan, contents: Contents) -> PlanKind:
    if plan.HasField("root"):
        if contents.catalog is not None:
            return PlanKind.CATALOG
        return PlanKind.SQL if contents.sql_texts else PlanKind.READ
    match plan.command.WhichOneof("command_type"):
        case "sql_command":
            return PlanKind.SQL_COMMAND
        case "create_dataframe_view":
            return PlanKind.VIEW
        case "register_function" | "register_table_function":
            return PlanKind.FUNCTION
        case _:
            return PlanKind.WRITE


def _text(kind: PlanKind, contents: Contents) -> str:
    match kind:
        case PlanKind.SQL_COMMAND if contents.sql_texts:
            return contents.sql_texts[0]
        case PlanKind.SQL if contents.tree == "sql":
            return contents.sql_texts[0]
        case PlanKind.CATALOG if contents.catalog is not None:
            return f"spark.catalog {contents.catalog.WhichOneof('cat_type')}"
        case PlanKind.VIEW if contents.view is not None:
            return bounded(f"create view {contents.view.name}: {contents.tree}", TEXT_LENGTH_MAX)
        case PlanKind.FUNCTION:
            return bounded(f"create function {contents.function}", TEXT_LENGTH_MAX)
        case PlanKind.WRITE:
            return bounded(f"write {', '.join(contents.targets)}: {contents.tree}", TEXT_LENGTH_MAX)
        case _:
            return contents.tree
