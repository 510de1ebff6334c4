"""The catalog as the protocol sees it: every call, once it is known who calls.

Calls that read answer at once, from memory, or say that they must wait; calls that change anything block and
belong in a thread.
"""

from collections.abc import Callable, Mapping

from bailiwick.catalog import wire
from bailiwick.catalog.authority import Authority
from bailiwick.catalog.backend import Kind, Outcome
from bailiwick.catalog.call import DONE, Answer, Call, json_answer, object_of
from bailiwick.catalog.changes import Changes
from bailiwick.catalog.commits import Loaded
from bailiwick.catalog.facts import Facts
from bailiwick.catalog.idempotency import LIFETIME_TEXT
from bailiwick.catalog.ownership import MadeHere, Nobody, Ownership
from bailiwick.catalog.reads import Loads, Reads
from bailiwick.catalog.refusals import DamagedMetadataError
from bailiwick.catalog.routes import ENDPOINTS, Route
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.stamping import Stamping
from bailiwick.policy.stamp import StampKey

CATALOG = "lake"

# Metrics are our own business: engines need not report theirs.
_CONFIG = wire.rendered(
    {
        "defaults": {},
        "overrides": {"rest-metrics-reporting-enabled": "false"},
        "endpoints": ENDPOINTS,
        "idempotency-key-lifetime": LIFETIME_TEXT,
    }
)
CONFIG = Answer(200, _CONFIG)

_ANSWERED_WITH_METADATA = frozenset(
    {Route.CREATE_TABLE, Route.COMMIT_TABLE, Route.REGISTER_TABLE, Route.CREATE_VIEW, Route.COMMIT_VIEW}
)


class Calls:
    """`stamp_key` gives the key of the engine's present life; `ownership` keeps account of who made what."""

    def __init__(
        self,
        service: CatalogService,
        *,
        catalog: str = CATALOG,
        stamp_key: Callable[[], StampKey | None] = lambda: None,
        ownership: Ownership | None = None,
        table_config: Mapping[str, str] | None = None,
    ) -> None:
        self._service = service
        facts, made_here, stamping = Facts(catalog), MadeHere(catalog), Stamping(stamp_key)
        self._authority = Authority(facts, made_here)
        self._loads = Loads(facts, self._authority, stamping, table_config or {})
        self._reads = Reads(service, facts, self._authority, stamping, self._loads)
        self._changes = Changes(
            service, catalog, self._authority, self._loads, made_here, ownership or Nobody()
        )
        self.idempotency = service.idempotency

    def read(self, call: Call) -> Answer | None:
        """The answer, or None if a file must be read first: then call `read_blocking` in a thread."""
        return self._reads.read(call)

    def read_blocking(self, call: Call) -> Answer:
        """As `read`, for a load whose metadata is not in memory."""
        return self._reads.read_blocking(call)

    def change(self, call: Call) -> Answer:
        """Do what is asked and answer. Blocks."""
        if not call.idempotency_key:
            return self._changes.change(call)
        return self.idempotency.once(call, self._changes.change, self._again)

    def _again(self, call: Call, outcome: Outcome) -> Answer:
        """What was answered when the call was done, with what is to be known of it now."""
        match call.target.route:
            case route if route in _ANSWERED_WITH_METADATA:
                return self._loads.answer_done(call, self._as_it_was(call, outcome))
            case Route.CREATE_NAMESPACE:
                body = wire.parsed_object(call.body)
                return json_answer(
                    {"namespace": body["namespace"], "properties": body.get("properties") or {}}
                )
            case Route.UPDATE_NAMESPACE:
                body = wire.parsed_object(call.body)
                removed, updated = body.get("removals") or [], list(body.get("updates") or {})
                return json_answer({"updated": updated, "removed": removed, "missing": []})
            case _:
                return DONE

    def _as_it_was(self, call: Call, outcome: Outcome) -> Loaded:
        """The table or view right after the call; or as it is now, if that is not to be had any more."""
        for place in outcome.places:
            try:
                return Loaded(place.name, place.entry, self._service.metadata_at(place.entry))
            except DamagedMetadataError:
                return self._service.load(place.name, place.entry.kind)
        # There was nothing to do, and what is there now is all that can be shown.
        kind = Kind.VIEW if call.target.route is Route.COMMIT_VIEW else Kind.TABLE
        return self._service.load(object_of(call, kind), kind)
