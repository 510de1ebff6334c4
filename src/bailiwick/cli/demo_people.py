"""Three people ask the same question, and a policy made by SQL gives each another answer.

The admin makes it all through the gateway, with statements that may be repeated: a second run changes nothing
but the passwords, which are drawn anew and kept in files for their owner alone.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from bailiwick.cli.demo_client import Client
from bailiwick.cli.demo_show import Question, print_code, print_title, show_answer
from bailiwick.cli.sql_text import change_password, create_user
from bailiwick.cli.steps import step
from bailiwick.cli.table import draw_answer
from bailiwick.client.errors import QueryFailed
from bailiwick.errors import Code
from bailiwick.secrets import new_secret, write_secret


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    role: str
    what: str


ANA = Person("ana", "reader", "an analyst for Europe")
AUDREY = Person("audrey", "auditor", "an auditor")

POLICY = (
    "CREATE ROLE IF NOT EXISTS analyst",
    "CREATE ROLE IF NOT EXISTS inspector",
    "GRANT ROLE analyst TO USER ana",
    "GRANT ROLE inspector TO USER audrey",
    "GRANT SELECT ON TABLE lake.shop.customers TO ROLE analyst, ROLE inspector",
    "GRANT SELECT ON TABLE lake.shop.orders TO ROLE analyst, ROLE inspector",
    "GRANT INSERT ON TABLE lake.shop.products TO ROLE analyst",
    """CREATE OR REPLACE ROW FILTER eu_only ON TABLE lake.shop.customers
  FOR ROLE analyst, ROLE inspector EXCEPT ROLE auditor USING (region = 'EU')""",
    """CREATE OR REPLACE MASK hide_email ON TABLE lake.shop.customers COLUMN email
  FOR ROLE analyst, ROLE inspector USING (concat(left(sha2(email, 256), 8), '@hidden'))""",
    "ALTER TABLE lake.shop.customers ALTER COLUMN phone SET TAGS ('pii')",
    """CREATE OR REPLACE MASK pii_last_4 ON TAG pii
  FOR ROLE analyst, ROLE inspector EXCEPT ROLE auditor ACTION 'show_last_4'""",
)
QUESTION = """SELECT name, country, region, email, phone, count(*) OVER () AS customers
FROM shop.customers ORDER BY customer_since DESC, customer_id LIMIT 6"""
NOT_HERS_TO_READ = "SELECT name, price FROM shop.products LIMIT 3"
NOT_THERE_FOR_HER = "SELECT count(*) FROM shop.order_lines"
HER_TABLES = "SHOW TABLES IN shop"
EXPLAINED = ["kind", "rule", "column", "because"]
ON_RECORD = Question(
    "It is all on record",
    """SELECT principal, replace(left(what, 45), chr(10), ' ') AS asked, outcome, code, len(rules) AS rules
FROM system.runtime.audit WHERE kind = 'query' ORDER BY sequence DESC LIMIT 6""",
)


async def show_people(address: str, admin: Client, data_dir: Path, console: Console) -> None:
    """Make people and policy, then let each of the three ask."""
    print_title(console, "One policy: who may see which tables, rows and columns")
    print_code(console, ";\n".join(POLICY) + ";", "sql")
    with step(console, "Making people and policy", done="People and policy are made"):
        passwords = {person.name: await _ensure_person(admin, person, data_dir) for person in (ANA, AUDREY)}
        for statement in POLICY:
            await admin.ask(statement)
    async with AsyncExitStack() as stack:
        ana, audrey = [
            await stack.enter_async_context(Client.connected(address, name, password))
            for name, password in passwords.items()
        ]
        await _ask_all(admin, ana, audrey, console)
        await _show_refusals(ana, console)
        await _show_why(audrey, console)
        await show_answer(audrey, ON_RECORD, console)


async def _ensure_person(admin: Client, person: Person, data_dir: Path) -> str:
    """Nobody has a password that somebody else could know beforehand."""
    password = new_secret(18)
    await asyncio.to_thread(write_secret, password_path(data_dir, person), password)
    known = (await admin.ask("SHOW USERS")).column("name").to_pylist()
    if person.name in known:
        await admin.ask(change_password(person.name, password.reveal()))
    else:
        await admin.ask(create_user(person.name, password.reveal(), [person.role]))
    return password.reveal()


def password_path(data_dir: Path, person: Person) -> Path:
    return data_dir / f"{person.name}-password"


async def _ask_all(admin: Client, ana: Client, audrey: Client, console: Console) -> None:
    print_title(console, "Three people ask the same question")
    print_code(console, QUESTION, "sql")
    for client, who in (
        (admin, "admin sees everything"),
        (ana, f"{ANA.name}, {ANA.what}, sees its customers, without addresses and numbers"),
        (audrey, f"{AUDREY.name}, {AUDREY.what}, is exempt from two of the rules, not from the third"),
    ):
        answer = await client.ask(QUESTION)
        console.print(f"\n[bold]{escape(who)}[/bold]")
        draw_answer(sys.stdout, answer)


async def _show_refusals(ana: Client, console: Console) -> None:
    print_title(console, "A refusal explains itself")
    console.print(f"{ANA.name} may add products, and not read them:")
    await _show_refusal(ana, NOT_HERS_TO_READ, console)
    console.print(f"\nWhat {ANA.name} has no privilege on is not there, whatever she asks:")
    print_code(console, HER_TABLES, "sql")
    tables = await ana.ask(HER_TABLES)
    draw_answer(sys.stdout, tables)
    await _show_refusal(ana, NOT_THERE_FOR_HER, console)


async def _show_refusal(client: Client, sql: str, console: Console) -> None:
    print_code(console, sql, "sql")
    try:
        await client.ask(sql)
    except QueryFailed as refusal:
        said = refusal.message.partition("\n")[0]
        console.print(f"[red]{refusal.code}[/red]: {escape(said)}", soft_wrap=True)
    else:
        raise QueryFailed(Code.INTERNAL_ERROR, f"this should have been refused: {sql}")


async def _show_why(audrey: Client, console: Console) -> None:
    print_title(console, f"Why does {ANA.name} see what she sees? {AUDREY.name} may ask")
    sql = f"EXPLAIN POLICY {QUESTION} AS USER {ANA.name}"
    print_code(console, sql, "sql")
    explained = await audrey.ask(sql)
    draw_answer(sys.stdout, explained.select(EXPLAINED))
