"""What a test puts inside a gateway's process: gates on a query's way, and a detour on the way to its engine.

A gate is a file: while it is there, whoever comes to its point with its table waits, and says by another
file that it came. So queries can be held at exact points of their lives while something is broken. The detour
leads the gateway to its engine by way of a `Line`. Nothing of it is in the product: Python imports
`sitecustomize` when it starts, and the one written here changes a few functions of the running process.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from bailiwick.testing.site import installing

GATED_NAMESPACE = "faults"
"""Only its tables come to a gate: warming up and other queries do not."""
POLL_S = 0.01
_HELD_MAX_S = 60.0
BOOK = "LEASE_BOOK"
"""In the environment of a gateway whose leases are to be written down (`lease_book`)."""
_DIRECTORY = "GATES_DIRECTORY"
_LINE = "LINE_ADDRESS"
_DETOURS = "LINES_TO_KEEPERS"
_FORGIVES = "FORGIVES_FLAPPING"
_ONLY = "only"


class Point(StrEnum):
    PLANNING = "planning"
    """Spark is planning: it has asked the catalog for a table and has no answer yet."""
    COMMITTING = "committing"
    """Spark has asked for a commit; nothing is changed yet."""
    COMMITTED = "committed"
    """The commit is made; nobody has been told."""


class Inside:
    """The test's side of it: one directory, which outlives the gateway's processes."""

    def __init__(
        self,
        directory: Path,
        line_address: Callable[[], str] | None = None,
        detours: Mapping[str, str] | None = None,
        *,
        forgives: bool = False,
    ) -> None:
        """With `line_address`, the gateway reaches its own engine there; `engine` tells where it really is.

        `detours` says by which address each engine of a keeper is reached, instead of the one that it tells.
        With them, queries can be kept to one engine. If it `forgives`, no engine is held down, as often as
        it may fail.
        """
        self._directory = directory
        self._line_address = line_address
        self._detours = dict(detours or {})
        self._forgives = forgives
        self._installing = installing("inside", directory)

    @property
    def settings(self) -> dict[str, str]:
        """What the environment of the gateway must have."""
        line = {} if self._line_address is None else {_LINE: self._line_address()}
        ways = {_DETOURS: json.dumps(self._detours)} if self._detours else {}
        mercy = {_FORGIVES: "1"} if self._forgives else {}
        return {**self._installing, _DIRECTORY: str(self._directory), **line, **ways, **mercy}

    def close(self, point: Point, table: str) -> None:
        """Whoever comes there with that table of the gated namespace waits."""
        self._reached(point, table).unlink(missing_ok=True)
        self._gate(point, table).touch()

    def keep_to(self, node_id: str) -> None:
        """No other engine is given a query."""
        (self._directory / _ONLY).write_text(node_id)

    def open_all(self) -> None:
        """Nobody waits any more, and every engine is given queries."""
        (self._directory / _ONLY).unlink(missing_ok=True)
        for gate in self._directory.glob("*.closed"):
            gate.unlink(missing_ok=True)

    def is_reached(self, point: Point, table: str) -> bool:
        return self._reached(point, table).exists()

    def engine(self) -> tuple[str, int]:
        """Where the gateway's engine is now. LookupError as long as there was none."""
        try:
            host, _, port = (self._directory / "engine").read_text().rpartition(":")
        except FileNotFoundError:
            raise LookupError("the gateway has no engine yet") from None
        return host, int(port)

    def _gate(self, point: Point, table: str) -> Path:
        return self._directory / f"{point}.{table}.closed"

    def _reached(self, point: Point, table: str) -> Path:
        return self._directory / f"{point}.{table}.reached"


def install() -> None:
    """Called once, in the gateway, before anything of it runs."""
    directory = Path(os.environ[_DIRECTORY])
    _put_gates(directory)
    _begin_when_fetched()
    if line := os.environ.get(_LINE):
        _put_detour(directory, line)
    if detours := os.environ.get(_DETOURS):
        _put_detours_to_keepers(json.loads(detours))
        _put_pin(directory)
    if os.environ.get(_FORGIVES):
        _forgive_flapping()
    if os.environ.get(BOOK):
        from bailiwick.testing import lease_book

        lease_book.install(directory)


def _begin_when_fetched() -> None:
    """No read begins early: whoever is to be held at a point would be past it before it is asked for."""
    # By name: what tests use stands below the doors, and imports none of them.
    beginnings = import_module("bailiwick.doors.flight_sql.beginnings")

    def leave(*_: object, **__: object) -> None:
        return None

    _replace(beginnings.Beginnings, begin=leave)


def _put_gates(directory: Path) -> None:
    from bailiwick.catalog.call import Answer, Call
    from bailiwick.catalog.calls import Calls
    from bailiwick.catalog.routes import Route

    read, read_blocking, change = Calls.read, Calls.read_blocking, Calls.change

    def is_gated(call: Call, route: Route) -> bool:
        return call.target.route is route and call.target.namespace == (GATED_NAMESPACE,)

    def gated_read(self: Calls, call: Call) -> Answer | None:
        # None sends the call to a thread, where waiting holds up nobody else.
        return None if is_gated(call, Route.LOAD_TABLE) else read(self, call)

    def gated_read_blocking(self: Calls, call: Call) -> Answer:
        if is_gated(call, Route.LOAD_TABLE):
            _pass(directory, Point.PLANNING, call.target.name)
        return read(self, call) or read_blocking(self, call)

    def gated_change(self: Calls, call: Call) -> Answer:
        if not is_gated(call, Route.COMMIT_TABLE):
            return change(self, call)
        _pass(directory, Point.COMMITTING, call.target.name)
        answer = change(self, call)
        _pass(directory, Point.COMMITTED, call.target.name)
        return answer

    _replace(Calls, read=gated_read, read_blocking=gated_read_blocking, change=gated_change)


def _pass(directory: Path, point: Point, table: str) -> None:
    gate = directory / f"{point}.{table}.closed"
    deadline = time.monotonic() + _HELD_MAX_S
    while gate.exists() and time.monotonic() < deadline:
        (directory / f"{point}.{table}.reached").touch()
        time.sleep(POLL_S)


def _put_detour(directory: Path, line_address: str) -> None:
    from bailiwick.engines.embedded import Channel, Connect, EmbeddedEngine

    made = EmbeddedEngine.__init__

    def detoured(self: EmbeddedEngine, *arguments: Any, connect: Connect, **options: Any) -> None:
        def by_the_line(address: str, token: str) -> Channel:
            fresh = directory / "engine.fresh"
            fresh.write_text(address)
            fresh.replace(directory / "engine")
            return connect(line_address, token)

        made(self, *arguments, connect=by_the_line, **options)

    _replace(EmbeddedEngine, __init__=detoured)


def _put_detours_to_keepers(detours: Mapping[str, str]) -> None:
    from bailiwick.fleet.link import EngineChannel, PlainLink

    opened = PlainLink.open

    def detoured(self: PlainLink, address: str, token: str) -> EngineChannel:
        return opened(self, detours.get(address, address), token)

    _replace(PlainLink, open=detoured)


def _put_pin(directory: Path) -> None:
    from bailiwick.fleet.schedule import EngineLoad, LeastLoaded, Obstacle, Work

    found = LeastLoaded._obstacle

    def pinned(self: LeastLoaded, engine: EngineLoad, work: Work) -> Obstacle | None:
        try:
            is_shunned = (directory / _ONLY).read_text() != engine.node_id
        except FileNotFoundError:
            is_shunned = False
        return found(self, engine, work) or (Obstacle.BUSY if is_shunned else None)

    _replace(LeastLoaded, _obstacle=pinned)


def _forgive_flapping() -> None:
    from bailiwick.fleet.vitals import HealthRules

    def not_at_all(self: HealthRules, flaps: int) -> float:
        del self, flaps
        return 0.0

    _replace(HealthRules, hold_down_for_s=not_at_all)


def _replace(changed: type, **functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        setattr(changed, name, function)
