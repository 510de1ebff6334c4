"""The show: questions to the lake by ADBC, a client that we did not write, and how one connects oneself."""

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.syntax import Syntax

from bailiwick.cli.table import draw_answer

if TYPE_CHECKING:
    from bailiwick.app import Gateway


@dataclass(frozen=True, slots=True)
class Question:
    title: str
    sql: str


QUESTIONS = (
    Question(
        "Where do the customers come from?",
        "SELECT country, orders, revenue FROM shop.revenue_by_country ORDER BY revenue DESC LIMIT 5",
    ),
    Question(
        "How does this half year compare with the one before?",
        """WITH months AS (
  SELECT date_trunc('month', day) AS month, sum(revenue) AS revenue, sum(orders) AS orders
  FROM shop.daily_revenue GROUP BY 1)
SELECT date_format(month, 'yyyy-MM') AS month, orders, revenue,
       round(100 * (revenue / lag(revenue, 6) OVER (ORDER BY month) - 1), 1) AS percent_more
FROM months ORDER BY month DESC LIMIT 6""",
    ),
    Question(
        "What sells best?",
        """SELECT p.category, p.name, sum(l.quantity) AS sold, sum(l.quantity * l.unit_price) AS revenue
FROM shop.order_lines l JOIN shop.products p USING (product_id)
GROUP BY ALL ORDER BY revenue DESC LIMIT 5""",
    ),
    Question(
        "Iceberg remembers: what happened to the orders?",
        "SELECT committed_at, operation, summary['added-records'] AS added FROM shop.orders.snapshots",
    ),
    Question(
        "And what has the gateway just done?",
        """SELECT id, door, state, rows, round(finished_at - started_at, 3) AS seconds
FROM system.runtime.queries ORDER BY created_at DESC LIMIT 5""",
    ),
)
FETCH = "SELECT * FROM shop.order_lines"


async def ask(gateway: "Gateway", sql: str) -> pa.Table:
    """The whole answer. The client blocks, and the gateway lives on this loop: so it gets a thread."""
    return await asyncio.to_thread(_ask, gateway.grpc_address, gateway.admin_password, sql)


async def show_queries(gateway: "Gateway", console: Console) -> None:
    for question in QUESTIONS:
        console.print()
        console.print(Rule(escape(question.title), align="left", style="cyan"))
        console.print(Syntax(question.sql, "sql", background_color="default", word_wrap=True))
        started = time.monotonic()
        answer = await ask(gateway, question.sql)
        took_s = time.monotonic() - started
        draw_answer(sys.stdout, answer)
        console.print(f"[dim]{answer.num_rows} rows in {took_s:.2f} s[/dim]")
    console.print()
    console.print(Rule("And all of the order lines, as Arrow", align="left", style="cyan"))
    started = time.monotonic()
    answer = await ask(gateway, FETCH)
    took_s = time.monotonic() - started
    speed = answer.num_rows / took_s
    console.print(
        f"{answer.num_rows:,} rows, {answer.nbytes / 1e6:.0f} MB in {took_s:.2f} s: {speed:,.0f} rows/s"
    )


def print_how_to_connect(gateway: "Gateway", data_dir: Path, console: Console) -> None:
    host, _, port = gateway.grpc_address.rpartition(":")
    password = data_dir / "admin-password"
    adbc = f'''from pathlib import Path
from adbc_driver_flightsql import dbapi

password = Path("{password}").read_text().strip()
credentials = {{"username": "admin", "password": password}}
with dbapi.connect("grpc://{host}:{port}", credentials, autocommit=True) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM shop.customers LIMIT 10")
        print(cursor.fetch_arrow_table())'''  # noqa: S608 - a text to read
    shell = f'''BAILIWICK_PASSWORD=$(cat {password}) \\
  {Path(sys.argv[0])} query --host {host} --port {port} --user admin -e "SHOW TABLES IN shop"'''
    jdbc = f"jdbc:arrow-flight-sql://{host}:{port}?useEncryption=false&user=admin&password=…"
    console.print()
    console.print(Rule("Connect", align="left", style="green"))
    console.print("[bold]Python[/bold] (ADBC, pandas, polars)")
    console.print(Syntax(adbc, "python", background_color="default"))
    console.print("[bold]Shell[/bold]")
    console.print(Syntax(shell, "bash", background_color="default"))
    console.print(f"[bold]JDBC[/bold] (DBeaver and others; the password is in {escape(str(password))})")
    console.print(f"  {escape(jdbc)}", soft_wrap=True)
    console.print("[bold]Health and metrics[/bold]")
    console.print(
        f"  http://{gateway.http_address}/readyz, http://{gateway.http_address}/metrics", soft_wrap=True
    )


def _ask(address: str, password: str, sql: str) -> pa.Table:
    from adbc_driver_flightsql import dbapi

    credentials = {"username": "admin", "password": password}
    with (
        dbapi.connect(f"grpc://{address}", credentials, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
        return cursor.fetch_arrow_table()
