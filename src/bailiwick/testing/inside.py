"""What a test puts inside a gateway's process: gates on a query's way, and a detour on the way to its engine.

A gate is a file: while it is there, whoever comes to its point waits, and says by another file that it came.
So a query can be held at an exact point of its life while something is broken. The detour leads the gateway
to its engine by way of a `Line`. Nothing of it is in the product: Python imports `sitecustomize` when it
starts, and the one written here changes a few functions of the running process.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

GATED_NAMESPACE = "faults"
"""Only its tables come to a gate: warming up and other queries do not."""
POLL_S = 0.01
_HELD_MAX_S = 60.0
_DIRECTORY = "GATES_DIRECTORY"
_LINE = "LINE_ADDRESS"
_DETOURS = "LINES_TO_KEEPERS"
_SITE = "from bailiwick.testing import inside\n\ninside.install()\n"


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
    ) -> None:
        """With `line_address`, the gateway reaches its own engine there; `engine` tells where it really is.

        `detours` says by which address each engine of a keeper is reached, instead of the one that it tells.
        """
        self._directory = directory
        self._line_address = line_address
        self._detours = dict(detours or {})
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "sitecustomize.py").write_text(_SITE)

    @property
    def settings(self) -> dict[str, str]:
        """What the environment of the gateway must have."""
        line = {} if self._line_address is None else {_LINE: self._line_address()}
        ways = {_DETOURS: json.dumps(self._detours)} if self._detours else {}
        return {"PYTHONPATH": str(self._directory), _DIRECTORY: str(self._directory), **line, **ways}

    def close(self, point: Point) -> None:
        self._reached(point).unlink(missing_ok=True)
        self._gate(point).touch()

    def open_all(self) -> None:
        for point in Point:
            self._gate(point).unlink(missing_ok=True)

    def is_reached(self, point: Point) -> bool:
        return self._reached(point).exists()

    def engine(self) -> tuple[str, int]:
        """Where the gateway's engine is now. LookupError as long as there was none."""
        try:
            host, _, port = (self._directory / "engine").read_text().rpartition(":")
        except FileNotFoundError:
            raise LookupError("the gateway has no engine yet") from None
        return host, int(port)

    def _gate(self, point: Point) -> Path:
        return self._directory / f"{point}.closed"

    def _reached(self, point: Point) -> Path:
        return self._directory / f"{point}.reached"


def install() -> None:
    """Called once, in the gateway, before anything of it runs."""
    directory = Path(os.environ[_DIRECTORY])
    _put_gates(directory)
    if line := os.environ.get(_LINE):
        _put_detour(directory, line)
    if detours := os.environ.get(_DETOURS):
        _put_detours_to_keepers(json.loads(detours))


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
            _pass(directory, Point.PLANNING)
        return read(self, call) or read_blocking(self, call)

    def gated_change(self: Calls, call: Call) -> Answer:
        if not is_gated(call, Route.COMMIT_TABLE):
            return change(self, call)
        _pass(directory, Point.COMMITTING)
        answer = change(self, call)
        _pass(directory, Point.COMMITTED)
        return answer

    _replace(Calls, read=gated_read, read_blocking=gated_read_blocking, change=gated_change)


def _pass(directory: Path, point: Point) -> None:
    gate = directory / f"{point}.closed"
    deadline = time.monotonic() + _HELD_MAX_S
    while gate.exists() and time.monotonic() < deadline:
        (directory / f"{point}.reached").touch()
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


def _replace(changed: type, **functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        setattr(changed, name, function)
