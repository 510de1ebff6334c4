"""The show: questions to the lake, and how one connects oneself."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.syntax import Syntax

from bailiwick.cli.demo_client import Client
from bailiwick.cli.table import draw_answer


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
)
FETCH = "SELECT * FROM shop.order_lines"


async def show_queries(client: Client, console: Console) -> None:
    for question in QUESTIONS:
        await show_answer(client, question, console)
    print_title(console, "And all of the order lines, as Arrow")
    started = time.monotonic()
    answer = await client.ask(FETCH)
    took_s = time.monotonic() - started
    speed = answer.num_rows / took_s
    console.print(
        f"{answer.num_rows:,} rows, {answer.nbytes / 1e6:.0f} MB in {took_s:.2f} s: {speed:,.0f} rows/s"
    )


async def show_answer(client: Client, question: Question, console: Console) -> None:
    print_title(console, question.title)
    print_code(console, question.sql, "sql")
    started = time.monotonic()
    answer = await client.ask(question.sql)
    took_s = time.monotonic() - started
    draw_answer(sys.stdout, answer)
    console.print(f"[dim]{_counted(answer.num_rows)} in {took_s:.2f} s[/dim]")


def print_title(console: Console, title: str) -> None:
    console.print()
    console.print(Rule(escape(title), align="left", style="cyan"))


def print_how_to_connect(
    grpc_address: str, http_address: str, password: Path, others: Sequence[Path], console: Console
) -> None:
    """`password` is the file that holds the admin's, `others` those of the other people."""
    host, _, port = grpc_address.rpartition(":")
    somebody = _name(others[0])
    adbc = f'''from pathlib import Path
from adbc_driver_flightsql import dbapi

password = Path("{password}").read_text().strip()
credentials = {{"username": "admin", "password": password}}
with dbapi.connect("grpc://{host}:{port}", credentials, autocommit=True) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM shop.customers LIMIT 10")
        print(cursor.fetch_arrow_table())'''  # noqa: S608 - a text to read
    asks = f"BAILIWICK_PASSWORD=$(cat {password}) \\\n  {Path(sys.argv[0])}"
    where = f"--host {host} --port {port}"
    shell = f'{asks} query {where} --user admin -e "SHOW TABLES IN shop"'
    token = f"export BAILIWICK_TOKEN=$({asks} token create {where} --for {somebody} --ttl 8h)"
    # With a token, PySpark sends plaintext only to a host that is spelled so.
    pyspark = f"""import os
from pyspark.sql import SparkSession

url = f"sc://localhost:{port}/;token={{os.environ['BAILIWICK_TOKEN']}}"
spark = SparkSession.builder.remote(url).getOrCreate()
spark.table("shop.customers").groupBy("region").count().show()"""
    jdbc = f"jdbc:arrow-flight-sql://{host}:{port}?useEncryption=false&user=admin&password=…"
    console.print()
    console.print(Rule("Connect", align="left", style="green"))
    console.print("[bold]Python[/bold] (ADBC, pandas, polars)")
    print_code(console, adbc, "python")
    console.print(f"[bold]PySpark[/bold] (4.0 and 4.1 as they are; here as {escape(somebody)})")
    print_code(console, token, "bash")
    print_code(console, pyspark, "python")
    console.print("[bold]Shell[/bold]")
    print_code(console, shell, "bash")
    console.print(f"[bold]JDBC[/bold] (DBeaver and others; the password is in {escape(str(password))})")
    console.print(f"  {escape(jdbc)}", soft_wrap=True)
    console.print("[bold]As somebody else[/bold] (user and password)")
    for path in others:
        console.print(f"  {_name(path)}, {escape(str(path))}", soft_wrap=True)
    console.print("[bold]Health and metrics[/bold]")
    console.print(f"  http://{http_address}/readyz, http://{http_address}/metrics", soft_wrap=True)


def print_code(console: Console, code: str, language: str) -> None:
    """In colours, and never cut or broken by us: one may want to copy it."""
    console.print(Syntax("", language, background_color="default").highlight(code), end="", soft_wrap=True)


def _name(password: Path) -> str:
    return password.name.removesuffix("-password")


def _counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"
