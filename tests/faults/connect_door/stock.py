"""The test's side of `clients.py`: the process in which stock clients live, and what they have said."""

import json
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bailiwick.testing.asking import wait_until
from bailiwick.testing.gateway import clean_environment
from faults.connect_door.house import Door

TESTS = Path(__file__).parents[2]
ENDED_WITHIN_S = 200.0
SAID_WITHIN_S = 120.0


class StockClients:
    def __init__(self, process: "subprocess.Popen[str]", errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._said: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._listening = threading.Thread(target=self._listen, name="listening")
        self._listening.start()

    def has_said(self, who: str, what: str) -> bool:
        """AssertionError if it never will: it has ended, or its process has."""
        if any(what in line for line in self._said[who]):
            return True
        assert self._process.poll() is None, self._errors.read_text()[-3000:]
        assert not self._ends(who), self._said[who]
        return False

    def wait_said(self, who: str, what: str) -> None:
        wait_until(f"{who}: {what}", lambda: self.has_said(who, what), SAID_WITHIN_S)

    def let_go_on(self, who: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{who}\n")
        self._process.stdin.flush()

    def end_of(self, who: str) -> dict[str, Any]:
        """How that client ended, as soon as it has."""
        return dict(wait_until(f"{who} ended", lambda: self._is_over(who), ENDED_WITHIN_S)[0])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.kill()
        self._process.stdin.close()
        self._process.wait()
        self._listening.join()

    def _ends(self, who: str) -> list[dict[str, Any]]:
        return [line["ended"] for line in self._said[who] if "ended" in line]

    def _is_over(self, who: str) -> list[dict[str, Any]]:
        assert self._ends(who) or self._process.poll() is None, self._errors.read_text()[-3000:]
        return self._ends(who)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                if line.startswith('{"who"'):
                    said = json.loads(line)
                    self._said[said["who"]].append(said)


@contextmanager
def stock_clients(door: Door, names: Sequence[str]) -> Iterator[StockClients]:
    """These clients, all of them ann's, in a process that ends with the block."""
    address = f"sc://localhost:{door.port}/;token={door.tokens['ann']}"
    errors = door.directory / f"{'-'.join(names)}.errors"
    with errors.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "faults.connect_door.clients", *names],
            env=clean_environment({"ADDRESS": address, "PYTHONPATH": str(TESTS)}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    clients = StockClients(process, errors)
    try:
        yield clients
    finally:
        clients.close()
