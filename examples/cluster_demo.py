"""A Spark standalone cluster with two workers, an engine on it that joins a gateway, and what ran where.

`make cluster-demo` runs it. Everything is started on this machine and is gone afterwards: a master and two
workers of the pip package, a gateway, and `bailiwick engine` with the cluster as its master. Nothing of the
gateway is configured for the engine but the token that both know.
"""

import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bailiwick.testing.asking import rows, wait_until
from bailiwick.testing.cluster import Cluster, standalone_cluster
from bailiwick.testing.gateway import RunningGateway, running_gateway
from bailiwick.testing.keepers import KeptEngine, admitting, new_token_file

ENGINE = "cluster"
MAKE = (
    "CREATE NAMESPACE lake.demo",
    "CREATE TABLE lake.demo.readings AS SELECT id, id * 7919 % 1000 AS sensor, "
    "id * 2654435761 % 100003 AS value FROM range(0, 2000000, 1, 8)",
)
QUESTION = (
    "SELECT sensor % 10 AS room, count(*) AS readings, max(value) AS highest FROM lake.demo.readings "
    "GROUP BY room ORDER BY room"
)
WHERE_IT_RAN = (
    "SELECT query_id, node_id, state, elapsed_ms, tasks_done, rows FROM system.runtime.queries "
    "WHERE sql LIKE 'SELECT sensor%'"
)
TASKS = (
    "SELECT node_id, executor_id, count(*) AS tasks, sum(input_rows) AS input_rows, "
    "sum(elapsed_ms) AS elapsed_ms FROM system.runtime.tasks "
    "GROUP BY node_id, executor_id ORDER BY executor_id"
)
NODES = "SELECT node_id, kind, state, master, cores FROM system.runtime.nodes ORDER BY node_id"


def main() -> None:
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="bailiwick-cluster-") as scratch:
        directory = Path(scratch)
        console.print("starting a master and two workers", style="dim")
        with standalone_cluster(directory / "cluster", workers=2) as cluster:
            console.print(f"{cluster.url}, two workers of one core", style="dim")
            token = new_token_file(directory / "keeper-token")
            console.print("starting a gateway", style="dim")
            with running_gateway(directory / "gateway", settings=admitting(token)) as gateway:
                show(console, gateway, cluster, token, directory)


def show(console: Console, gateway: RunningGateway, cluster: Cluster, token: Path, directory: Path) -> None:
    engine = KeptEngine(
        ENGINE, directory / ENGINE, f"http://{gateway.http_address}", token, cluster.url, ("--memory", "1g")
    )
    console.print(f"$ bailiwick engine --gateway {engine.gateway_url} --master {cluster.url}", style="bold")
    try:
        engine.start()
        engine.wait_joined()
        wait_until("joined", lambda: [row for row in rows(gateway, NODES) if row[0] == ENGINE], 60)
        ask(console, gateway, NODES)
        for statement in MAKE:
            rows(gateway, statement)
        ask(console, gateway, QUESTION)
        ask(console, gateway, WHERE_IT_RAN)
        ask(console, gateway, TASKS)
        pids = ", ".join(map(str, cluster.executor_pids))
        console.print(f"executors on the workers: processes {pids}", style="dim")
    finally:
        engine.end()


def ask(console: Console, gateway: RunningGateway, sql: str) -> None:
    console.print(f"> {sql}", style="bold", markup=False)
    with gateway.connect() as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        answer: Any = cursor.fetch_arrow_table()
    table = Table(*answer.column_names)
    for row in answer.to_pylist():
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    console.print(table)


if __name__ == "__main__":
    main()
