"""A table without a stamp, to find out whether an engine would read it.

An engine whose guard is missing or broken would serve everything to everybody. So before one is used, and in
each new session, it is asked to read this table, which is there for the gateway's own canary and for nobody
else. It is empty, has no files, and its load carries no stamp: a guard refuses it.
"""

from typing import Final

from bailiwick.catalog import metadata as tables
from bailiwick.catalog import wire
from bailiwick.catalog.call import DONE, Answer, Call
from bailiwick.catalog.routes import Route
from bailiwick.engines.canary import PRINCIPAL
from bailiwick.names import TableName

__all__ = ["PRINCIPAL", "TABLE", "answer", "is_asked_for"]

TABLE: Final = TableName(("bailiwick_canary",), "unstamped")

_UUID: Final = "00000000-0000-4000-8000-000000000000"
_LOCATION: Final = "file:/bailiwick-canary/unstamped-0000000000000000"
_REQUEST: Final = {
    "name": TABLE.name,
    "schema": {
        "type": "struct",
        "fields": [{"id": 1, "name": "sings", "required": False, "type": "boolean"}],
    },
}


def is_asked_for(call: Call) -> bool:
    """Whether this is the canary looking at its table."""
    return (
        call.principal.name == PRINCIPAL.name
        and call.target.namespace == TABLE.namespace
        and call.target.name == TABLE.name
        and call.target.route in (Route.LOAD_TABLE, Route.TABLE_EXISTS)
    )


def answer(call: Call) -> Answer:
    return DONE if call.target.route is Route.TABLE_EXISTS else Answer(200, _LOADED)


def _loaded() -> bytes:
    metadata = tables.closed(tables.create(_REQUEST, uuid=_UUID, location=_LOCATION, now_ms=0))
    return wire.rendered(
        {
            "metadata-location": f"{_LOCATION}/metadata/00000-{_UUID}.metadata.json",
            "metadata": metadata,
            "config": {},
        }
    )


_LOADED: Final = _loaded()
