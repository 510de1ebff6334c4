"""The calls that change nothing. They answer at once, from memory, or say that they must wait.

Whoever calls sees what they hold a privilege on, and the rest of the catalog is not there.
"""

from collections.abc import Callable, Mapping

from bailiwick.catalog import canary, wire
from bailiwick.catalog.authority import Authority
from bailiwick.catalog.backend import Kind
from bailiwick.catalog.call import DONE, Answer, Call, Client, json_answer, missing, object_of
from bailiwick.catalog.commits import Loaded
from bailiwick.catalog.facts import Facts
from bailiwick.catalog.read_restrictions import read_restrictions
from bailiwick.catalog.refusals import ForbiddenError
from bailiwick.catalog.routes import Route
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.stamping import Stamping
from bailiwick.names import parted
from bailiwick.policy.decide import Decision
from bailiwick.policy.model import Privilege


class Loads:
    """Answers that carry a table or view, with what goes along for whoever gets it."""

    def __init__(
        self,
        facts: Facts,
        authority: Authority,
        stamping: Stamping,
        table_config: Mapping[str, str],
    ) -> None:
        self._facts = facts
        self._authority = authority
        self._stamping = stamping
        self._config = dict(table_config)

    def answer(self, call: Call, loaded: Loaded) -> Answer:
        """What is to be known of a table or view. Raises if it is nothing at all."""
        if loaded.entry.kind is Kind.VIEW:
            return self._plain(loaded)
        if call.client is Client.ENGINE:
            return self._stamped(call, loaded, self._authority.standing(call, loaded))
        # Nobody stands between another engine and the files: so it must be allowed to read.
        decision = self._authority.required(call, loaded, Privilege.SELECT)
        table = self._facts.table(loaded)
        if not decision.is_restricted:
            return self._plain(loaded)
        if call.client is Client.PLAIN:
            raise ForbiddenError(
                f"some of {table} is hidden from you, and this client does not say that it honours read "
                "restrictions: read the table through this gateway"
            )
        restrictions = read_restrictions(table, decision, call.principal)
        return _answer(loaded, {"config": self._config, "read-restrictions": restrictions})

    def answer_done(self, call: Call, loaded: Loaded) -> Answer:
        """What a change has made, for the one who made it: nothing may go wrong with that any more."""
        if loaded.entry.kind is Kind.VIEW or call.client is not Client.ENGINE:
            return self._plain(loaded)
        return self._stamped(call, loaded, self._authority.standing(call, loaded))

    def answer_for_policy(self, call: Call, loaded: Loaded) -> Answer:
        """A table that a rule reads, under the rule's own right."""
        table = self._facts.table(loaded)
        stamp = self._stamping.config_for_policy(call, table, self._facts.prefixes(loaded))
        return _answer(loaded, {"config": {**self._config, **stamp}})

    def staged_answer(self, call: Call, loaded: Loaded) -> Answer:
        """A table that is not there yet, for the one who is about to make it."""
        config = self._config
        if call.client is Client.ENGINE:
            config = self._stamped_config(call, loaded, self._authority.standing(call, loaded))
        return Answer(200, b'{"metadata":' + loaded.data + b',"config":' + wire.rendered(config) + b"}")

    def _plain(self, loaded: Loaded) -> Answer:
        return _answer(loaded, {"config": self._config})

    def _stamped(self, call: Call, loaded: Loaded, decision: Decision) -> Answer:
        return _answer(loaded, {"config": self._stamped_config(call, loaded, decision)})

    def _stamped_config(self, call: Call, loaded: Loaded, decision: Decision) -> dict[str, str]:
        table, prefixes = self._facts.table(loaded), self._facts.prefixes(loaded)
        return {**self._config, **self._stamping.config(call, table, decision, prefixes)}


class Reads:
    def __init__(
        self, service: CatalogService, facts: Facts, authority: Authority, stamping: Stamping, loads: Loads
    ) -> None:
        self._service = service
        self._facts = facts
        self._authority = authority
        self._stamping = stamping
        self._loads = loads
        self._routes: dict[Route, Callable[[Call], Answer | None]] = {
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

    def read(self, call: Call) -> Answer | None:
        """The answer, or None if a file must be read first: then call `read_blocking` in a thread."""
        if canary.is_asked_for(call):
            return canary.answer(call)
        if call.policy_stamp:
            return self._for_policy(call)
        return self._routes[call.target.route](call)

    def read_blocking(self, call: Call) -> Answer:
        """As `read`, for a load whose metadata is not in memory."""
        kind = Kind.TABLE if call.target.route is Route.LOAD_TABLE else Kind.VIEW
        name = object_of(call, kind)
        if not call.policy_stamp:
            # Not only the load is refused: it must not take longer for what is there than for what is not.
            self._authority.seen(call, self._service.contents, name, kind)
            return self._answer(call, self._service.load(name, kind))
        self._check_policy_reads(call)
        return self._loads.answer_for_policy(call, self._service.load(name, kind))

    def _list_namespaces(self, call: Call) -> Answer:
        parent, contents = parted(call.fields.get("parent", "")), self._service.contents
        if parent:
            self._authority.seen_namespace(call, contents, parent)
        seen = [item for item in contents.children(parent) if self._authority.sees_namespace(call, item)]
        return json_answer({"namespaces": seen})

    def _load_namespace(self, call: Call) -> Answer:
        namespace, contents = call.target.namespace, self._service.contents
        self._authority.seen_namespace(call, contents, namespace)
        properties = contents.namespace(namespace).properties
        return json_answer({"namespace": namespace, "properties": dict(properties)})

    def _namespace_exists(self, call: Call) -> Answer:
        self._authority.seen_namespace(call, self._service.contents, call.target.namespace)
        return DONE

    def _list(self, call: Call, kind: Kind) -> Answer:
        namespace, contents = call.target.namespace, self._service.contents
        self._authority.seen_namespace(call, contents, namespace)
        seen = [
            {"namespace": namespace, "name": name.name}
            for name in contents.names(kind, namespace)
            if self._authority.sees_table(call, name, contents.entry(name, kind).uuid)
        ]
        return json_answer({"identifiers": seen})

    def _load(self, call: Call, kind: Kind) -> Answer | None:
        name = object_of(call, kind)
        self._authority.seen(call, self._service.contents, name, kind)
        loaded = self._service.load_nowait(name, kind)
        if loaded is None or not self._facts.is_quick(loaded):
            return None
        return self._answer(call, loaded)

    def _exists(self, call: Call, kind: Kind) -> Answer:
        self._authority.seen(call, self._service.contents, object_of(call, kind), kind)
        return DONE

    def _answer(self, call: Call, loaded: Loaded) -> Answer:
        if loaded.entry.kind is Kind.VIEW:
            # A view's text is its content: to know that it is there is less.
            self._authority.required(call, loaded, Privilege.SELECT)
        return self._loads.answer(call, loaded)

    def _for_policy(self, call: Call) -> Answer | None:
        self._check_policy_reads(call)
        name = object_of(call, Kind.TABLE)
        if call.target.route is Route.TABLE_EXISTS:
            self._service.find(name)
            return DONE
        loaded = self._service.load_nowait(name)
        return None if loaded is None else self._loads.answer_for_policy(call, loaded)

    def _check_policy_reads(self, call: Call) -> None:
        """Return if the rules that are being resolved read this table. To them nothing else is there."""
        route = call.target.route
        if route in (Route.LOAD_VIEW, Route.VIEW_EXISTS):
            raise missing(Kind.VIEW, object_of(call, Kind.VIEW))
        if route not in (Route.LOAD_TABLE, Route.TABLE_EXISTS):
            raise ForbiddenError("the rules of a table read tables, and nothing else")
        name = object_of(call, Kind.TABLE)
        if (self._facts.catalog, *name.parts) not in self._stamping.read_by_rules(call):
            raise missing(Kind.TABLE, name)


def _answer(loaded: Loaded, rest: Mapping[str, object]) -> Answer:
    location = wire.rendered(loaded.entry.metadata_location)
    tail = wire.rendered(dict(rest))[1:]
    return Answer(
        200, b"".join((b'{"metadata-location":', location, b',"metadata":', loaded.data, b",", tail))
    )
