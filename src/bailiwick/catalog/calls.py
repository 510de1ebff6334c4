"""What each call of the protocol does, once it is known who calls.

Nothing here knows HTTP beyond a status and a body. Calls that read answer at once, from memory, or say that
they must wait; calls that change anything block and belong in a thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bailiwick.catalog import requests, wire
from bailiwick.catalog.backend import Kind
from bailiwick.catalog.commits import Commit, Fence, Loaded
from bailiwick.catalog.refusals import (
    BadRequestError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
)
from bailiwick.catalog.routes import ENDPOINTS, Route, Target
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.shapes import Shape, matched
from bailiwick.catalog.wire import Json
from bailiwick.identity.principal import Principal
from bailiwick.names import (
    InvalidNameError,
    Namespace,
    TableName,
    checked_namespace,
    checked_part,
    checked_table,
    parted,
    spelled,
)

# Metrics are our own business: engines need not report theirs.
_CONFIG = wire.rendered(
    {"defaults": {}, "overrides": {"rest-metrics-reporting-enabled": "false"}, "endpoints": ENDPOINTS}
)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, of somebody we know."""

    target: Target
    principal: Principal
    fence: Fence
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    committed: tuple[tuple[TableName, Mapping[str, str]], ...] = ()
    """The snapshots that came to be: of which table, and what their summary says."""


_DONE = Answer(204)
CONFIG = Answer(200, _CONFIG)


class Calls:
    """The catalog as the protocol sees it."""

    def __init__(self, service: CatalogService, *, table_config: Mapping[str, str] | None = None) -> None:
        self._service = service
        # What follows the metadata in every load, rendered once.
        self._tail = b',"config":' + wire.rendered(dict(table_config or {})) + b"}"
        self._reads: dict[Route, Callable[[Call], Answer | None]] = {
            Route.LIST_NAMESPACES: self._list_namespaces,
            Route.LOAD_NAMESPACE: self._load_namespace,
            Route.NAMESPACE_EXISTS: self._namespace_exists,
            Route.LIST_TABLES: lambda call: self._list(call, Kind.TABLE),
            Route.LIST_VIEWS: lambda call: self._list(call, Kind.VIEW),
            Route.LOAD_TABLE: lambda call: self._load(call, Kind.TABLE),
            Route.LOAD_VIEW: lambda call: self._load(call, Kind.VIEW),
            Route.TABLE_EXISTS: lambda call: self._exists(call, Kind.TABLE),
            Route.VIEW_EXISTS: lambda call: self._exists(call, Kind.VIEW),
        }
        self._changes: dict[Route, Callable[[Call], Answer]] = {
            Route.CREATE_NAMESPACE: self._create_namespace,
            Route.DROP_NAMESPACE: self._drop_namespace,
            Route.UPDATE_NAMESPACE: self._update_namespace,
            Route.CREATE_TABLE: self._create_table,
            Route.COMMIT_TABLE: self._commit_table,
            Route.COMMIT_TRANSACTION: self._commit_transaction,
            Route.DROP_TABLE: lambda call: self._drop(call, Kind.TABLE),
            Route.REGISTER_TABLE: self._register_table,
            Route.RENAME_TABLE: lambda call: self._rename(call, Kind.TABLE),
            Route.CREATE_VIEW: self._create_view,
            Route.COMMIT_VIEW: self._commit_view,
            Route.DROP_VIEW: lambda call: self._drop(call, Kind.VIEW),
            Route.RENAME_VIEW: lambda call: self._rename(call, Kind.VIEW),
        }

    def read(self, call: Call) -> Answer | None:
        """The answer, or None if a file must be read first: then call `read_blocking` in a thread."""
        if not call.principal.may_read:
            return _nothing_to_see(call)
        return self._reads[call.target.route](call)

    def read_blocking(self, call: Call) -> Answer:
        """As `read`, for a load whose metadata is not in memory."""
        kind = Kind.TABLE if call.target.route is Route.LOAD_TABLE else Kind.VIEW
        return self._answer(self._service.load(_object(call, kind), kind))

    def change(self, call: Call) -> Answer:
        """Do what is asked and answer. Blocks."""
        # Before anything is looked up, so that a refusal tells nothing about what there is.
        if not call.principal.may_write:
            raise ForbiddenError("you may read here, but not change anything")
        return self._changes[call.target.route](call)

    def _list_namespaces(self, call: Call) -> Answer:
        parent = parted(call.fields.get("parent", ""))
        return _json({"namespaces": self._service.namespaces(parent)})

    def _load_namespace(self, call: Call) -> Answer:
        namespace = call.target.namespace
        properties = self._service.namespace_properties(namespace)
        return _json({"namespace": namespace, "properties": dict(properties)})

    def _namespace_exists(self, call: Call) -> Answer:
        self._service.namespace_properties(call.target.namespace)
        return _DONE

    def _list(self, call: Call, kind: Kind) -> Answer:
        find = self._service.tables if kind is Kind.TABLE else self._service.views
        names = find(call.target.namespace)
        return _json({"identifiers": [{"namespace": item.namespace, "name": item.name} for item in names]})

    def _load(self, call: Call, kind: Kind) -> Answer | None:
        loaded = self._service.load_nowait(_object(call, kind), kind)
        return None if loaded is None else self._answer(loaded)

    def _exists(self, call: Call, kind: Kind) -> Answer:
        self._service.find(_object(call, kind), kind)
        return _DONE

    def _create_namespace(self, call: Call) -> Answer:
        body = _body(call, requests.CreateNamespace)
        namespace, properties = _checked(checked_namespace, body["namespace"]), body.get("properties") or {}
        self._service.create_namespace(namespace, properties, fence=call.fence)
        return _json({"namespace": namespace, "properties": properties})

    def _drop_namespace(self, call: Call) -> Answer:
        self._service.drop_namespace(call.target.namespace, fence=call.fence)
        return _DONE

    def _update_namespace(self, call: Call) -> Answer:
        body = _body(call, requests.UpdateNamespace)
        removals, updates = body.get("removals") or [], body.get("updates") or {}
        removed = self._service.update_namespace(
            call.target.namespace, removals=removals, updates=updates, fence=call.fence
        )
        missing = [key for key in removals if key not in removed]
        return _json({"updated": list(updates), "removed": removed, "missing": missing})

    def _create_table(self, call: Call) -> Answer:
        body = _body(call, requests.CreateTable)
        name = TableName(call.target.namespace, _checked(checked_part, body["name"]))
        if body.get("stage-create"):
            metadata = self._service.commits.stage_table(name, body)
            return Answer(200, b'{"metadata":' + metadata + self._tail)
        return self._answer(self._service.commits.create_table(name, body, fence=call.fence))

    def _commit_table(self, call: Call) -> Answer:
        body = _body(call, requests.CommitTable)
        commit = _commit(_object(call, Kind.TABLE), body)
        loaded = self._service.commits.commit_tables([commit], fence=call.fence)[0]
        return self._answer(loaded, committed=_snapshots(commit))

    def _commit_transaction(self, call: Call) -> Answer:
        body = _body(call, requests.CommitTransaction)
        commits = [_commit(_identified(change.get("identifier")), change) for change in body["table-changes"]]
        self._service.commits.commit_tables(commits, fence=call.fence)
        return Answer(204, committed=tuple(item for commit in commits for item in _snapshots(commit)))

    def _register_table(self, call: Call) -> Answer:
        if not call.principal.is_admin:
            raise ForbiddenError("only an administrator may register tables")
        body = _body(call, requests.RegisterTable)
        if body.get("overwrite"):
            raise BadRequestError("a table cannot be registered over another")
        name = TableName(call.target.namespace, _checked(checked_part, body["name"]))
        location = body["metadata-location"]
        return self._answer(self._service.commits.register_table(name, location, fence=call.fence))

    def _drop(self, call: Call, kind: Kind) -> Answer:
        purge = call.fields.get("purgeRequested", "false").lower() == "true"
        self._service.drop(_object(call, kind), kind, purge=purge and kind is Kind.TABLE, fence=call.fence)
        return _DONE

    def _rename(self, call: Call, kind: Kind) -> Answer:
        body = _body(call, requests.Rename)
        source, destination = _identified(body["source"]), _identified(body["destination"])
        self._service.rename(source, destination, kind, fence=call.fence)
        return _DONE

    def _create_view(self, call: Call) -> Answer:
        body = _body(call, requests.CreateView)
        name = TableName(call.target.namespace, _checked(checked_part, body["name"]))
        return self._answer(self._service.commits.create_view(name, body, fence=call.fence))

    def _commit_view(self, call: Call) -> Answer:
        body = _body(call, requests.CommitView)
        commit = _commit(_object(call, Kind.VIEW), body)
        return self._answer(self._service.commits.commit_view(commit, fence=call.fence))

    def _answer(
        self, loaded: Loaded, committed: tuple[tuple[TableName, Mapping[str, str]], ...] = ()
    ) -> Answer:
        location = wire.rendered(loaded.entry.metadata_location)
        head = b'{"metadata-location":' + location + b',"metadata":'
        return Answer(200, b"".join((head, loaded.data, self._tail)), committed)


def _json(value: Any) -> Answer:
    return Answer(200, wire.rendered(value))


def _body(call: Call, shape: type[Shape]) -> Json:
    body = wire.parsed_object(call.body)
    matched(shape, body)
    return body


def _checked(check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except InvalidNameError as error:
        raise BadRequestError(str(error)) from error


def _object(call: Call, kind: Kind) -> TableName:
    """What the path names. A name that nothing can have is one that does not exist."""
    try:
        return checked_table(call.target.namespace, call.target.name)
    except InvalidNameError as error:
        shown = spelled((*call.target.namespace, call.target.name))[:200]
        if kind is Kind.TABLE:
            raise NoSuchTableError(f"Table does not exist: {shown}") from error
        raise NoSuchViewError(f"View does not exist: {shown}") from error


def _identified(identifier: Json | None) -> TableName:
    if identifier is None:
        raise BadRequestError("a table change needs the table's identifier")
    return TableName(
        _checked(checked_namespace, identifier["namespace"]), _checked(checked_part, identifier["name"])
    )


def _commit(name: TableName, body: Json) -> Commit:
    return Commit(name, body.get("requirements") or [], body["updates"])


def _snapshots(commit: Commit) -> tuple[tuple[TableName, Mapping[str, str]], ...]:
    return tuple(
        (commit.name, update["snapshot"].get("summary", {}))
        for update in commit.updates
        if update["action"] == "add-snapshot"
    )


def _nothing_to_see(call: Call) -> Answer:
    """What the catalog looks like to one who may not read: empty."""
    match call.target.route:
        case Route.LIST_NAMESPACES if "parent" not in call.fields:
            return _json({"namespaces": []})
        case Route.LOAD_TABLE | Route.TABLE_EXISTS:
            raise NoSuchTableError(f"Table does not exist: {_shown(call.target.namespace, call.target.name)}")
        case Route.LOAD_VIEW | Route.VIEW_EXISTS:
            raise NoSuchViewError(f"View does not exist: {_shown(call.target.namespace, call.target.name)}")
        case _:
            raise NoSuchNamespaceError(f"Namespace does not exist: {_shown(call.target.namespace)}")


def _shown(namespace: Namespace, *names: str) -> str:
    return spelled((*namespace, *names))[:200]
