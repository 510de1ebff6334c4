"""A house with two engines that keepers look after, each behind a line of its own."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

from bailiwick.testing.asking import rows, wait_until
from bailiwick.testing.faults import Part
from bailiwick.testing.inside import Inside
from bailiwick.testing.keepers import KeptEngine, admitting, new_token_file
from bailiwick.testing.line import Line, laid
from faults.matrix.houses import PLACES, WELL_WITHIN_S, GatewayHouse

NAMES = ("left", "right")


class FleetHouse(GatewayHouse):
    """The gateway keeps its ports over restarts, so that keepers find it again."""

    def __init__(self, directory: Path, stack: ExitStack, *, forgives: bool = True) -> None:
        """Where engines are hit again and again on purpose, the gateway `forgives`: it holds none down."""
        self._forgives = forgives
        self._http_port = _free_port()
        self._token_file = new_token_file(directory / "keeper-token")
        ports = {name: _free_port() for name in NAMES}
        self._lines_to = {
            name: stack.enter_context(laid(partial(_on_loopback, port))) for name, port in ports.items()
        }
        self._detours = {f"127.0.0.1:{port}": self._lines_to[name].address for name, port in ports.items()}
        self._engines = {name: self._engine(name, port, directory) for name, port in ports.items()}
        for engine in self._engines.values():
            stack.callback(engine.end)
            engine.start()
        # It is not ready before an engine has joined, as it has none of its own.
        super().__init__(directory, stack)
        self.wait_all_healthy()

    def pids(self, part: Part, node_id: str | None) -> Sequence[int]:
        engines = [engine for name, engine in self._engines.items() if node_id in (None, name)]
        match part:
            case Part.KEEPER:
                return [engine.pid for engine in engines]
            case Part.ENGINE:
                return [engine.engine_pid for engine in engines]
            case _:
                return super().pids(part, node_id)

    def lines(self, node_id: str | None) -> Sequence[Line]:
        return [line for name, line in self._lines_to.items() if node_id in (None, name)]

    def gather(self, random: Random) -> str | None:
        node_id = random.choice(NAMES)
        self.inside.keep_to(node_id)
        return node_id

    def mend(self) -> None:
        super().mend()
        for engine in self._engines.values():
            engine.mend()

    def wait_well(self) -> None:
        super().wait_well()
        self.wait_all_healthy()

    def health(self) -> dict[str, str]:
        """The condition of each engine, as the gateway tells it."""
        return dict(rows(self.gateway, "SELECT node_id, health FROM system.runtime.nodes"))

    def wait_all_healthy(self) -> None:
        healthy = dict.fromkeys(NAMES, "healthy")
        wait_until("all healthy", lambda: self.health() == healthy, WELL_WITHIN_S)

    def _inside(self, directory: Path) -> Inside:
        return Inside(directory, detours=self._detours, forgives=self._forgives)

    def _settings(self) -> dict[str, str]:
        return {
            **admitting(self._token_file),
            "BAILIWICK__FLEET__EMBEDDED": "false",
            "BAILIWICK__FLEET__HEARTBEAT_S": "1",
        }

    def _arguments(self) -> Sequence[str]:
        return ("--http-port", str(self._http_port))

    def _engine(self, name: str, port: int, directory: Path) -> KeptEngine:
        return KeptEngine(
            name,
            directory / name,
            f"http://127.0.0.1:{self._http_port}",
            self._token_file,
            arguments=("--port", str(port), "--memory", "1g", "--cores", str(PLACES)),
        )


def _on_loopback(port: int) -> tuple[str, int]:
    return "127.0.0.1", port


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
