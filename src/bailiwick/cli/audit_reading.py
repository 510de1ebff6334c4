"""The audit log on its way to a person or a file, and back from a file. Believes no gateway: it verifies."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from bailiwick.audit.chain import Anchor, Break, Link, Verification, Verifier
from bailiwick.audit.entry import AuditEntry
from bailiwick.cli import sql_text
from bailiwick.cli.asking import client_of
from bailiwick.cli.cells import printable
from bailiwick.cli.failures import UsageProblem
from bailiwick.cli.gateway_options import FoundGateway
from bailiwick.client.credentials import Credentials
from bailiwick.client.flight import FlightClient

PAGE_MAX: Final = 1_000
FOLLOW_EVERY_S: Final = 2.0
LINE_BYTES_MAX: Final = 4 << 20
WHAT_SHOWN_MAX: Final = 200
_OWN_LOOKS: Final = "SHOW AUDIT "
"""Following the log is itself in the log; showing that would never end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    who: str | None = None
    since: str | None = None
    limit: int = PAGE_MAX
    after: int | None = None

    def statement(self) -> str:
        return sql_text.show_audit(self.who, self.since, self.after, self.limit)


def show_tail(
    gateway: FoundGateway, credentials: Credentials, wanted: Wanted, *, is_followed: bool, is_json: bool
) -> None:
    async def run() -> None:
        async with client_of(gateway, credentials) as client:
            async for link in _tail(client, wanted, is_followed=is_followed):
                sys.stdout.write((link.line() if is_json else shown(link)) + "\n")
                sys.stdout.flush()

    asyncio.run(run())


def export_to(file: Path, gateway: FoundGateway, credentials: Credentials, *, after: int) -> Verification:
    """Write everything after that entry, and verify it on the way. A file that is not whole is removed."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageProblem(f"{file} exists already") from None
    except OSError as error:
        raise UsageProblem(f"{file} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as target:
            return asyncio.run(_export(target.write, client_of(gateway, credentials), after))
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def verified_file(file: Path, anchors: Sequence[Anchor]) -> Verification:
    """Look at every line of an exported log."""
    verifier = Verifier(anchors, is_part=True)
    try:
        for number, line in enumerate(_lines(file), 1):
            try:
                verifier.look(Link.from_line(line))
            except ValueError:
                verifier.refuse(number, f"line {number} is no line of an exported log")
            if verifier.is_broken:
                break
    except OSError as error:
        raise UsageProblem(f"{file} cannot be read: {error.strerror}") from error
    return verifier.end()


def verification_of(answer: pa.Table) -> Verification:
    """What a gateway found of its own log."""
    (row,) = answer.to_pylist()
    found = Verification(1, row["entries"], Anchor.parse(row["anchor"]), gaps=row["gaps"])
    return found if row["is_sound"] else replace(found, broken=Break(row["broken_at"], row["why"]))


def shown(link: Link) -> str:
    """One entry on one line, for people."""
    try:
        entry = link.entry
    except ValueError as error:
        return f"{link.sequence}  {error}"
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    ended = " ".join(part for part in (entry.outcome.value, entry.code) if part)
    parts = [when, str(link.sequence), _who(entry), entry.kind.value, ended, _what(entry), *_reached(entry)]
    return printable("  ".join(parts))


def _who(entry: AuditEntry) -> str:
    return entry.principal if entry.actor is None else f"{entry.actor} for {entry.principal}"


def _what(entry: AuditEntry) -> str:
    text = " ".join(entry.what.split())
    return text if len(text) <= WHAT_SHOWN_MAX else f"{text[:WHAT_SHOWN_MAX]}…"


def _reached(entry: AuditEntry) -> list[str]:
    reached = [*entry.rules]
    if entry.tables_read:
        reached.append(f"read {', '.join(entry.tables_read)}")
    if entry.tables_written:
        reached.append(f"wrote {', '.join(entry.tables_written)}")
    if entry.rows is not None:
        reached.append(f"{entry.rows} rows")
    return [f"({'; '.join(reached)})"] if reached else []


async def _tail(client: FlightClient, wanted: Wanted, *, is_followed: bool) -> AsyncIterator[Link]:
    page = await _page(client, wanted)
    for link in page:
        yield link
    at = page[-1].sequence if page else 0
    while is_followed:
        page = await _page(client, replace(wanted, after=at, limit=PAGE_MAX))
        for link in page:
            if not _is_look(link):
                yield link
            at = link.sequence
        if len(page) < PAGE_MAX:
            await asyncio.sleep(FOLLOW_EVERY_S)


def _is_look(link: Link) -> bool:
    try:
        return link.entry.what.startswith(_OWN_LOOKS)
    except ValueError:
        return False


async def _export(write: Callable[[str], object], client: FlightClient, after: int) -> Verification:
    verifier = Verifier(is_part=after > 0)
    async with client:
        while page := await _page(client, Wanted(after=after)):
            for link in page:
                verifier.look(link)
                write(link.line() + "\n")
            after = page[-1].sequence
            if len(page) < PAGE_MAX:
                break
    return verifier.end()


async def _page(client: FlightClient, wanted: Wanted) -> list[Link]:
    async with client.execute(wanted.statement()) as answer:
        table = await answer.table()
    columns = [table.column(name).to_pylist() for name in ("sequence", "previous", "hash", "entry")]
    return [Link(*row) for row in zip(*columns, strict=True)]


def _lines(file: Path) -> Iterator[str]:
    with file.open("rb") as source:
        while line := source.readline(LINE_BYTES_MAX):
            yield line.decode("utf-8", errors="replace")
