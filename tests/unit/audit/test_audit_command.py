"""`bailiwick audit` on files and data directories, and how a person sees an entry. No gateway takes part."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from audited import audited, entry
from typer.testing import CliRunner, Result

from bailiwick.audit.chain import Anchor, Link, chain, kept
from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.cli.audit_reading import shown
from bailiwick.cli.main import app

LINKS = list(chain(kept(entry(f"SELECT {number}")) for number in range(5)))


def audit(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments], env={"BAILIWICK_URL": "", "BAILIWICK_PASSWORD": ""})


def exported(directory: Path, links: list[Link]) -> str:
    path = directory / "audit.jsonl"
    path.write_text("".join(f"{link.line()}\n" for link in links))
    return str(path)


def test_a_sound_file_is_told_with_its_anchor(tmp_path: Path) -> None:
    done = audit("verify", exported(tmp_path, LINKS))
    assert done.exit_code == 0, done.output
    assert done.output.strip() == f"sound: 5 entries, anchor {LINKS[-1].anchor}"


@pytest.mark.parametrize(
    ("links", "why"),
    [
        ([*LINKS[:2], *LINKS[3:]], "broken at entry 3: entry 3 is missing"),
        ([*LINKS[:2], replace(LINKS[2], text=LINKS[1].text), *LINKS[3:]], "broken at entry 3: its content"),
        ([replace(LINKS[0], previous="f" * 64)], "broken at entry 1"),
    ],
)
def test_a_broken_file_is_told_with_the_place_and_exit_code_1(
    tmp_path: Path, links: list[Link], why: str
) -> None:
    done = audit("verify", exported(tmp_path, links))
    assert done.exit_code == 1
    assert why in done.output


def test_a_cut_file_is_found_by_an_anchor(tmp_path: Path) -> None:
    path = exported(tmp_path, LINKS[:3])
    assert audit("verify", path, "--anchor", str(LINKS[2].anchor)).exit_code == 0
    done = audit("verify", path, "--anchor", str(LINKS[4].anchor))
    assert (done.exit_code, "its end was cut off" in done.output) == (1, True)


def test_a_part_of_a_log_says_what_it_does_not_prove(tmp_path: Path) -> None:
    done = audit("verify", exported(tmp_path, LINKS[2:]))
    assert (done.exit_code, "from 3; what was before it is not proved" in done.output) == (0, True)


@pytest.mark.parametrize("content", [b"not json\n", b"\xff\xfe\n", b"{}\n", b"[" * 100_000])
def test_a_file_of_something_else_is_broken(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    assert audit("verify", str(path)).exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "does-not-exist"),
        ("verify", "--data-dir", "."),
        ("verify", "--data-dir", "does-not-exist"),
        ("verify", "x", "--anchor", "3"),
        ("verify", "x", "--data-dir", "."),
        ("verify",),
        ("tail",),
        ("tail", "-n", "0"),
        ("export",),
        ("export", "x"),
    ],
)
def test_bad_usage_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert audit(*arguments).exit_code == 2
    assert not (tmp_path / "x").exists()


def test_a_data_directory_is_verified_without_its_gateway(tmp_path: Path) -> None:
    async def write() -> Anchor:
        async with audited(tmp_path) as world:
            for number in range(3):
                world.log.note(entry(str(number)))
            return await world.log.write(entry("last"))

    anchor = asyncio.run(write())
    done = audit("verify", "--data-dir", str(tmp_path))
    assert (done.exit_code, done.output.strip()) == (0, f"sound: 4 entries, anchor {anchor}")

    with sqlite3.connect(tmp_path / "bailiwick.db") as connection:
        connection.execute("DROP TRIGGER audit_is_never_deleted")
        connection.execute("DELETE FROM audit WHERE sequence = 4")
    done = audit("verify", "--data-dir", str(tmp_path))
    assert (done.exit_code, "its end was cut off" in done.output) == (1, True)


def test_an_entry_is_one_line_that_steers_no_terminal() -> None:
    told = AuditEntry(
        1_800_000_000.0,
        Kind.QUERY,
        "ann",
        "SELECT *\n  FROM sales.orders -- \x1b[2J",
        Outcome.FINISHED,
        actor="svc",
        tables_read=("lake.sales.orders",),
        rules=("row_filter eu_only on lake.sales.orders",),
        rows=3,
    )
    (link,) = chain([kept(told)])
    assert shown(link) == (
        "2027-01-15 08:00:00  1  svc for ann  query  finished  SELECT * FROM sales.orders -- \\x1b[2J  "
        "(row_filter eu_only on lake.sales.orders; read lake.sales.orders; 3 rows)"
    )
    (refused,) = chain([kept(replace(told, outcome=Outcome.REFUSED, code="ACCESS_DENIED", what="x" * 999))])
    assert "refused ACCESS_DENIED" in shown(refused)
    assert "…" in shown(refused)


def test_an_entry_that_is_none_is_shown_as_such() -> None:
    assert "not an audit entry" in shown(replace(LINKS[0], text="[]"))
