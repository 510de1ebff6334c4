"""The gateway dies after it made a change and before it told anybody: the change is made once, and known."""

import subprocess
import sys
import time
import uuid as uuids
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bailiwick.catalog.wire import Json
from bailiwick.database.database import Database
from bailiwick.database.schema import catalog_outcomes
from bailiwick.testing.asking import start_client, value
from bailiwick.testing.gateway import RunningGateway, clean_environment, command, running_gateway
from bailiwick.testing.iceberg import create_request
from bailiwick.testing.manifests import append

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]

T = "/namespaces/db/tables/t"
HEADERS = {"authorization": "Bearer credential", "x-bailiwick-session": "s", "x-bailiwick-lease": "L"}

# Ends its process, without any goodbye, when the change of a certain table is done and not yet answered.
DEADLY = """
import os, signal
from bailiwick.catalog.calls import Calls
done = Calls.change
def change(self, call):
    answer = done(self, call)
    if any(table.name == "fatal" or call.fields.get("fatal") for table, _ in answer.committed):
        os.kill(os.getpid(), signal.SIGKILL)
    return answer
Calls.change = change
"""

# A catalog as the gateway serves it to its engine, and nothing else.
SERVING = """
import sys, threading
from pathlib import Path
from bailiwick.catalog.server import FacadeServer
from bailiwick.catalog.service import CatalogService
from bailiwick.catalog.sql import SqlBackend
from bailiwick.database.database import Database
from bailiwick.identity.principal import Principal
from bailiwick.policy.access import Access
from bailiwick.policy.model import EMPTY
class Anybody:
    def holder(self, handle, lease):
        return Access(Principal("ada", frozenset({"admin"})), EMPTY)
directory = Path(sys.argv[1])
database = Database.open(directory / "bailiwick.db")
service = CatalogService(SqlBackend(database.synchronous), directory / "warehouse")
print(FacadeServer(service, Anybody(), "credential").start(), flush=True)
threading.Event().wait()
"""


def new_key() -> str:
    """A key of version 7, as Iceberg makes it."""
    milliseconds = time.time_ns() // 1_000_000
    return str(uuids.UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62) | uuids.uuid4().int >> 70))


@contextmanager
def serving(directory: Path) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        [sys.executable, "-c", DEADLY + SERVING, str(directory)], stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{process.stdout.readline().strip()}/iceberg/v1"
            with httpx.Client(base_url=url, headers=HEADERS, timeout=30) as client:
                yield client, process
        finally:
            process.kill()


def commit(client: httpx.Client, updates: list[Json], key: str, **fields: str) -> httpx.Response:
    body = {"requirements": [], "updates": updates}
    return client.post(T, json=body, params=fields, headers={"idempotency-key": key})


def snapshots(client: httpx.Client) -> list[int]:
    metadata = client.get(T).json()["metadata"]
    return [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]


def test_a_commit_whose_answer_died_with_the_gateway_is_answered_by_the_next_one(tmp_path: Path) -> None:
    key, other = new_key(), new_key()
    with serving(tmp_path) as (client, process):
        client.post("/namespaces", json={"namespace": ["db"]}).raise_for_status()
        made = client.post("/namespaces/db/tables", json=create_request("t"))
        updates = append(made.json()["metadata"], 11)
        with pytest.raises(httpx.TransportError):
            commit(client, updates, key, fatal="yes")
        assert process.wait(10) == -9
    with serving(tmp_path) as (client, _):
        assert snapshots(client) == [11]
        again = commit(client, updates, key, fatal="yes")
        assert again.status_code == 200
        assert again.json()["metadata"]["current-snapshot-id"] == 11
        assert snapshots(client) == [11]
        assert commit(client, updates[:1], key, fatal="yes").status_code == 422
        # Without the key it would be another change, and this one cannot be made twice.
        assert commit(client, updates, other).status_code == 400
        assert snapshots(client) == [11]


@pytest.mark.spark
def test_one_can_ask_what_became_of_a_change_that_a_dying_gateway_made(tmp_path: Path) -> None:
    deadly = tmp_path / "deadly"
    deadly.mkdir()
    (deadly / "sitecustomize.py").write_text(DEADLY)
    data_dir = tmp_path / "data"
    with running_gateway(data_dir, settings={"PYTHONPATH": str(deadly)}) as gateway:
        # By clients in processes of their own: a connection whose gateway dies cannot be closed in peace.
        assert start_client(gateway, "CREATE NAMESPACE lake.late").wait(60) == 0
        assert start_client(gateway, "CREATE TABLE lake.late.fatal (n BIGINT)").wait(60) == 0
        assert start_client(gateway, "INSERT INTO lake.late.fatal VALUES (1), (2)").wait(60) != 0
        assert gateway.process.wait(60) == -9
    key = last_key(data_dir)
    with running_gateway(data_dir) as gateway:
        assert value(gateway, "SELECT count(*) FROM lake.late.fatal") == 2
        assert show(gateway, key).startswith("committed: the change was made\nlate.fatal, by admin, ")
        assert show(gateway, new_key()).startswith("not committed")
        assert show(gateway, str(uuids.uuid4())).startswith("unknown")


def last_key(data_dir: Path) -> str:
    """The key that the engine gave to the last change: whoever asks would find it in the audit log."""
    database = Database.open(data_dir / "bailiwick.db")
    with database.synchronous_reads.begin() as connection:
        found = connection.execute(
            catalog_outcomes.select().order_by(catalog_outcomes.c.sequence.desc()).limit(1)
        ).one()
    database.synchronous_reads.dispose()
    database.synchronous.dispose()
    return str(found.key)


def show(gateway: RunningGateway, key: str) -> str:
    settings = {"BAILIWICK_URL": gateway.uri, "BAILIWICK_PASSWORD": gateway.admin_password}
    done = subprocess.run(
        [command(), "commit", "show", key],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment(settings),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
