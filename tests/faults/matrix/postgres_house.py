"""A house whose gateway keeps everything in PostgreSQL."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil

from bailiwick.testing.faults import Part
from bailiwick.testing.postgres import PrivatePostgres
from faults.matrix.houses import GatewayHouse


class PostgresHouse(GatewayHouse):
    def __init__(self, directory: Path, stack: ExitStack, postgres: PrivatePostgres) -> None:
        self._postgres = postgres
        database = postgres.new_database()
        assert database.url is not None
        self._database_url = database.url.get_secret_value()
        super().__init__(directory, stack)

    def pids(self, part: Part, node_id: str | None) -> Sequence[int]:
        return self._server() if part is Part.DATABASE else super().pids(part, node_id)

    def mend(self) -> None:
        if not self._server():
            self._postgres.kill()
            self._postgres.start()
        super().mend()

    def _settings(self) -> dict[str, str]:
        return {**super()._settings(), "BAILIWICK__DATABASE__URL": self._database_url}

    def _server(self) -> list[int]:
        """The server and the processes that it has for its clients; none if it is dead."""
        for process in psutil.Process().children():
            try:
                if f"port={self._postgres.port}" in process.cmdline():
                    return [process.pid, *(child.pid for child in process.children(recursive=True))]
            except psutil.Error:
                continue
        return []
