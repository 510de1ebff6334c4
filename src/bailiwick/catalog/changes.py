"""The calls that change something: each is judged, done, and told to whoever keeps account of owners. Block.

A commit is judged outside of the catalog's critical section, because manifests are read for it, and made only
if the table is still the one that it was judged on.
"""

from collections.abc import Callable, Sequence

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import needs as what_is_needed
from bailiwick.catalog import requests, wire
from bailiwick.catalog import requirements as requirement_checks
from bailiwick.catalog.authority import Authority
from bailiwick.catalog.backend import Change, Create, Drop, Entry, Kind, Rename, Swap
from bailiwick.catalog.call import (
    DONE,
    Answer,
    Call,
    body_of,
    checked,
    commit_of,
    identified,
    json_answer,
    object_of,
    snapshots_of,
)
from bailiwick.catalog.commits import Commit, Loaded
from bailiwick.catalog.ownership import MadeHere, Ownership
from bailiwick.catalog.reads import Loads
from bailiwick.catalog.refusals import BadRequestError, BaseMovedError, CommitFailedError
from bailiwick.catalog.routes import Route
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.state import Witness
from bailiwick.names import TableName, checked_namespace, checked_part
from bailiwick.policy.model import Privilege, Securable
from bailiwick.telemetry.logs import logger

JUDGED_MAX = 5
"""How often a commit is judged again because somebody else's came first."""


class Changes:
    def __init__(
        self,
        service: CatalogService,
        catalog: str,
        authority: Authority,
        loads: Loads,
        made_here: MadeHere,
        ownership: Ownership,
    ) -> None:
        self._service = service
        self._catalog = catalog
        self._authority = authority
        self._loads = loads
        self._made_here = made_here
        self._ownership = ownership
        self._log = logger(__name__)
        self._routes: dict[Route, Callable[[Call], Answer]] = {
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

    def change(self, call: Call) -> Answer:
        """Do what is asked and answer."""
        return self._routes[call.target.route](call)

    def _create_namespace(self, call: Call) -> Answer:
        body = body_of(call, requests.CreateNamespace)
        namespace, properties = checked(checked_namespace, body["namespace"]), body.get("properties") or {}
        self._authority.required_of_namespace(call, self._service.contents, namespace[:-1], Privilege.CREATE)
        self._service.create_namespace(namespace, properties, fence=self._fence(call))
        # Not before: until now the name could have become somebody else's.
        self._tell(lambda: self._ownership.created("namespace", namespace, None, call.principal))
        self._made_here.note(call.lease, call.access, Securable(self._catalog, namespace))
        return json_answer({"namespace": namespace, "properties": properties})

    def _drop_namespace(self, call: Call) -> Answer:
        namespace = call.target.namespace
        self._authority.required_of_namespace(call, self._service.contents, namespace, Privilege.DROP)
        self._service.drop_namespace(namespace, fence=self._fence(call))
        self._tell(lambda: self._ownership.dropped("namespace", namespace, None))
        return DONE

    def _update_namespace(self, call: Call) -> Answer:
        namespace = call.target.namespace
        self._authority.required_of_namespace(call, self._service.contents, namespace, Privilege.ALTER)
        body = body_of(call, requests.UpdateNamespace)
        removals, updates = body.get("removals") or [], body.get("updates") or {}
        removed = self._service.update_namespace(
            namespace, removals=removals, updates=updates, fence=self._fence(call)
        )
        missing = [key for key in removals if key not in removed]
        return json_answer({"updated": list(updates), "removed": removed, "missing": missing})

    def _create_table(self, call: Call) -> Answer:
        self._may_create_in(call)
        body = body_of(call, requests.CreateTable)
        name = TableName(call.target.namespace, checked(checked_part, body["name"]))
        if not body.get("stage-create"):
            loaded = self._service.commits.create_table(name, body, fence=self._fence(call))
            return self._loads.answer_done(call, loaded)
        data = self._service.commits.stage_table(name, body)
        uuid = wire.parsed_object(data)["table-uuid"]
        self._made_here.note(call.lease, call.access, Securable.table(self._catalog, name, uuid))
        return self._loads.staged_answer(call, Loaded(name, Entry(Kind.TABLE, uuid, f"staged:{uuid}"), data))

    def _register_table(self, call: Call) -> Answer:
        self._authority.required_admin(call, "register tables")
        body = body_of(call, requests.RegisterTable)
        if body.get("overwrite"):
            raise BadRequestError("a table cannot be registered over another")
        name = TableName(call.target.namespace, checked(checked_part, body["name"]))
        location = body["metadata-location"]
        loaded = self._service.commits.register_table(name, location, fence=self._fence(call))
        return self._loads.answer_done(call, loaded)

    def _create_view(self, call: Call) -> Answer:
        self._may_create_in(call)
        body = body_of(call, requests.CreateView)
        name = TableName(call.target.namespace, checked(checked_part, body["name"]))
        loaded = self._service.commits.create_view(name, body, fence=self._fence(call))
        return self._loads.answer_done(call, loaded)

    def _commit_table(self, call: Call) -> Answer:
        body = body_of(call, requests.CommitTable)
        commit = commit_of(object_of(call, Kind.TABLE), body)
        (loaded,) = self._commit(call, [commit])
        answer = self._loads.answer_done(call, loaded)
        return Answer(answer.status, answer.body, snapshots_of([commit]))

    def _commit_transaction(self, call: Call) -> Answer:
        body = body_of(call, requests.CommitTransaction)
        commits = [
            commit_of(identified(change.get("identifier")), change) for change in body["table-changes"]
        ]
        self._commit(call, commits)
        return Answer(204, committed=snapshots_of(commits))

    def _commit(self, call: Call, commits: Sequence[Commit]) -> list[Loaded]:
        for _ in range(JUDGED_MAX):
            bases = {commit.name: self._judged(call, commit) for commit in commits}
            try:
                return self._service.commits.commit_tables(commits, bases=bases, fence=self._fence(call))
            except BaseMovedError:
                continue
        raise CommitFailedError("the table is being changed by others all the time: look again and retry")

    def _judged(self, call: Call, commit: Commit) -> str | None:
        """Where the metadata is on which the commit may be made; None if it makes the table."""
        if requirement_checks.creates(commit.requirements):
            self._may_create(call, commit)
            return None
        self._authority.seen(call, self._service.contents, commit.name, Kind.TABLE)
        loaded = self._service.load(commit.name)
        location, old = loaded.entry.metadata_location, wire.parsed_object(loaded.data)
        new = tables.commit(old, commit.requirements, commit.updates, now_ms=0, base_location=location)
        measure = self._service.measuring(old["location"]).measure
        needs = what_is_needed.needs(tables.opened(old), commit.updates, measure)
        lost = frozenset() if new is None else what_is_needed.columns_lost(tables.opened(old), new)
        self._authority.required_of_commit(call, loaded, needs, lost)
        return location

    def _may_create(self, call: Call, commit: Commit) -> None:
        contents = self._service.contents
        self._authority.required_of_namespace(call, contents, commit.name.namespace, Privilege.CREATE)
        if contents.find(commit.name) is None:
            location = tables.create_by_commit(commit.updates, now_ms=0)["location"]
            if location is not None:
                what_is_needed.created(commit.updates, self._service.measuring(location).measure)

    def _commit_view(self, call: Call) -> Answer:
        name = object_of(call, Kind.VIEW)
        self._authority.seen(call, self._service.contents, name, Kind.VIEW)
        loaded = self._service.load(name, Kind.VIEW)
        self._authority.required(call, loaded, Privilege.ALTER)
        commit = commit_of(name, body_of(call, requests.CommitView))
        fence = self._fence(call, loaded.entry.uuid)
        return self._loads.answer_done(call, self._service.commits.commit_view(commit, fence=fence))

    def _drop(self, call: Call, kind: Kind) -> Answer:
        name = object_of(call, kind)
        self._authority.seen(call, self._service.contents, name, kind)
        loaded = self._service.load(name, kind)
        self._authority.required(call, loaded, Privilege.DROP)
        purge = call.fields.get("purgeRequested", "false").lower() == "true" and kind is Kind.TABLE
        self._service.drop(name, kind, purge=purge, fence=self._fence(call, loaded.entry.uuid))
        self._tell(lambda: self._ownership.dropped(kind.value, name, loaded.entry.uuid))
        return DONE

    def _rename(self, call: Call, kind: Kind) -> Answer:
        body = body_of(call, requests.Rename)
        source, destination = identified(body["source"]), identified(body["destination"])
        contents = self._service.contents
        self._authority.seen(call, contents, source, kind)
        loaded = self._service.load(source, kind)
        self._authority.required(call, loaded, Privilege.DROP)
        self._authority.required_of_namespace(call, contents, destination.namespace, Privilege.CREATE)
        self._service.rename(source, destination, kind, fence=self._fence(call, loaded.entry.uuid))
        self._tell(lambda: self._ownership.renamed(kind.value, source, destination, loaded.entry.uuid))
        return DONE

    def _tell(self, what: Callable[[], None]) -> None:
        """Whatever comes of it: what was done is done, and its client is told so."""
        try:
            what()
        except Exception:
            self._log.exception("ownership_not_kept")

    def _may_create_in(self, call: Call) -> None:
        self._authority.required_of_namespace(
            call, self._service.contents, call.target.namespace, Privilege.CREATE
        )

    def _fence(self, call: Call, uuid: str | None = None) -> Callable[[], Witness]:
        """The call's own, with a witness who sees to it that what is changed is still what was judged, by
        its `uuid`, and that new tables and views get their owner."""

        def fence() -> Witness:
            further = call.fence()

            def witness(changes: Sequence[Change]) -> Sequence[Change]:
                for change in changes:
                    self._witnessed(call, change, uuid)
                return () if further is None else further(changes)

            return witness

        return fence

    def _witnessed(self, call: Call, change: Change, uuid: str | None) -> None:
        match change:
            case Create(name, entry):
                self._ownership.created(entry.kind.value, name, entry.uuid, call.principal)
                self._made_here.note(
                    call.lease, call.access, Securable.table(self._catalog, name, entry.uuid)
                )
            case Swap(_, entry, _) | Drop(_, entry) | Rename(_, _, entry):
                if uuid is not None and entry.uuid != uuid:
                    raise CommitFailedError("it was replaced by somebody else: look again and retry")
            case _:
                pass
