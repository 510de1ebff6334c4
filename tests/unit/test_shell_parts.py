"""The shell without a terminal: its commands, its history, and how it takes what goes wrong."""

import stat
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bailiwick.cli import shell_catalog, shell_history, sql_text
from bailiwick.cli.failures import UsageProblem
from bailiwick.cli.query import Format
from bailiwick.cli.shell import Shell
from bailiwick.cli.shell_commands import (
    HELP,
    DescribeTable,
    ListCatalogs,
    ListNamespaces,
    ListTables,
    Order,
    Quit,
    SetFormat,
    SetRows,
    ShowHelp,
    SwitchProgress,
    SwitchTiming,
    read_order,
)
from bailiwick.cli.shell_history import KeptHistory, history_file, may_be_kept
from bailiwick.client.errors import QueryFailed, Unreachable
from bailiwick.client.splitter import Command, Piece, Sql


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("\\q", Quit()),
        ("\\q;", Quit()),
        ("\\?", ShowHelp()),
        ("\\l", ListCatalogs()),
        ("\\dn", ListNamespaces(None)),
        ("\\dn s*", ListNamespaces("s*")),
        ("\\dt", ListTables(None)),
        ("\\dt sales.o*", ListTables("sales.o*")),
        ("\\d", ListTables(None)),
        ("\\d ord?rs", ListTables("ord?rs")),
        ("\\d sales.orders", DescribeTable(("sales", "orders"))),
        ("\\d   `odd ``name.*`.t1", DescribeTable(("odd `name.*", "t1"))),
        ("\\d größe.2024_x", DescribeTable(("größe", "2024_x"))),
        ("\\format json", SetFormat(Format.JSON)),
        ("\\rows 50", SetRows(50)),
        ("\\timing", SwitchTiming(None)),
        ("\\timing on", SwitchTiming(True)),
        ("\\progress off", SwitchProgress(False)),
    ],
)
def test_commands_are_read(line: str, order: Order) -> None:
    assert read_order(line) == order


@pytest.mark.parametrize(
    "line",
    [
        "\\",
        "\\x",
        "\\q now",
        "\\format",
        "\\format arrow",
        "\\rows",
        "\\rows 0",
        "\\rows -1",
        "\\rows 9999999",
        *["\\timing maybe", "\\d a..b", "\\d a b", "\\d a;DROP", "\\d `a", "\\d a.", "\\d 'a'"],
    ],
)
def test_what_is_no_command_is_refused_with_a_sentence(line: str) -> None:
    with pytest.raises(UsageProblem):
        read_order(line)


def test_help_names_every_command() -> None:
    for word in ("\\d ", "\\dt", "\\dn", "\\l", "\\format", "\\rows", "\\timing", "\\progress", "\\?", "\\q"):
        assert f"  {word}" in HELP


@pytest.mark.parametrize(
    ("name", "pattern", "is_fitting"),
    [
        ("sales.orders", None, True),
        ("sales.orders", "sales.*", True),
        ("Sales.Orders", "SALES.o*", True),
        ("orders", "order?", True),
        ("orders", "order", False),
        ("a[b]", "a[b]", True),
        ("ab", "a[b]", False),
    ],
)
def test_patterns_have_stars_and_question_marks(name: str, pattern: str | None, is_fitting: bool) -> None:
    assert shell_catalog.fits(name, pattern) is is_fitting


async def scripted_catalog(statement: str) -> pa.Table:
    answers = {
        sql_text.NAMESPACES: {"namespace": ["odd ns", "sales", "sales.eu"]},
        sql_text.SYSTEM_NAMESPACES: {"namespace": ["system.runtime"]},
        sql_text.TABLES: {
            "namespace": ["sales", "sales", "sales.eu"],
            "name": ["newest", "orders", "orders"],
            "type": ["view", "table", "table"],
        },
        sql_text.SYSTEM_TABLES: {"namespace": ["system.runtime"], "name": ["queries"], "type": ["table"]},
    }
    return pa.table(answers[statement])


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, ["sales.newest", "sales.orders", "sales.eu.orders"]),
        ("orders", ["sales.orders", "sales.eu.orders"]),
        ("sales.eu.*", ["sales.eu.orders"]),
        ("nothing*", []),
        ("system.*", ["system.runtime.queries"]),
    ],
)
async def test_tables_are_listed_by_pattern(pattern: str | None, names: list[str]) -> None:
    listed = await shell_catalog.tables(scripted_catalog, pattern)
    assert [f"{row['namespace']}.{row['name']}" for row in listed.to_pylist()] == names


async def test_namespaces_are_listed_by_pattern() -> None:
    listed = await shell_catalog.namespaces(scripted_catalog, "sales*")
    assert listed.to_pydict() == {"namespace": ["sales", "sales.eu"]}
    listed = await shell_catalog.namespaces(scripted_catalog, "system*")
    assert listed.to_pydict() == {"namespace": ["system.runtime"]}


@pytest.mark.parametrize(
    "entry",
    [
        "CREATE USER ann PASSWORD 'x';",
        "create /* hidden */ user ann with\npassword 'x';",
        "SELECT 1; ALTER USER ann PASSWORD 'x';",
        "alter user ann disable;",
        "CREATE OR REPLACE USER x",
        "CREATE -- no\n USER x",
        "SELECT 1 WHERE password = 'x';",
        " SELECT 1;",
        "",
        "x" * (shell_history.ENTRY_CHARS_MAX + 1),
    ],
)
def test_what_may_tell_a_secret_is_not_kept(entry: str) -> None:
    assert not may_be_kept(entry)


@pytest.mark.parametrize("entry", ["SELECT 1;", "SELECT user, password_hash FROM t;", "SHOW USERS;", "\\d"])
def test_ordinary_entries_are_kept(entry: str) -> None:
    assert may_be_kept(entry)


def test_history_is_kept_newest_first_without_repetitions(tmp_path: Path) -> None:
    file = tmp_path / "state" / "history"
    history = KeptHistory(file)
    for entry in ("SELECT 1;", "SELECT\n2;", "SELECT\n2;", "ALTER USER a PASSWORD 'x';"):
        history.append_string(entry)
    assert list(KeptHistory(file).load_history_strings()) == ["SELECT\n2;", "SELECT 1;"]
    assert history.get_strings() == ["SELECT 1;", "SELECT\n2;"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_history_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text('"old;"\nnot ours\n17\n')
    file.chmod(0o644)
    KeptHistory(file).append_string("new;")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(KeptHistory(file).load_history_strings()) == ["new;", "old;"]


def test_a_long_history_forgets_its_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_history, "ENTRIES_MAX", 3)
    file = tmp_path / "history"
    for number in range(7):
        KeptHistory(file).store_string(str(number))
    assert list(KeptHistory(file).load_history_strings()) == ["6", "5", "4"]
    assert file.read_text().split() == ['"4"', '"5"', '"6"']


def test_where_nothing_can_be_kept_the_shell_works_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = KeptHistory(tmp_path / "file" / "history")
    history.append_string("SELECT 1;")
    assert list(history.load_history_strings()) == []


def test_history_lives_in_the_state_directory(tmp_path: Path) -> None:
    assert history_file({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "bailiwick" / "history"
    assert history_file({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local/state/bailiwick/history"


class Typist:
    """Types its lines and then leaves; a line may be a key that raises."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines = list(lines)

    async def read(self) -> str:
        line = self._lines.pop(0) if self._lines else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line


class Gateway:
    def __init__(
        self, failure: Exception | None = None, *, sign_in: Callable[[], None] = lambda: None
    ) -> None:
        self.done: list[Piece] = []
        self.sign_ins = 0
        self._failure = failure
        self._check_sign_in = sign_in

    async def carry_out(self, piece: Piece) -> bool:
        self.done.append(piece)
        if self._failure is not None:
            raise self._failure
        return piece != Command("\\q")

    async def sign_in(self) -> None:
        self.sign_ins += 1
        self._check_sign_in()


async def shell(gateway: Gateway, *lines: str | BaseException) -> None:
    await Shell(Typist(*lines), gateway.carry_out, gateway.sign_in).run()


async def test_everything_typed_is_carried_out_until_the_end() -> None:
    gateway = Gateway()
    await shell(gateway, "a; b;", KeyboardInterrupt(), "\\d", "", "c")
    assert gateway.done == [Sql("a"), Sql("b"), Command("\\d"), Sql("c")]


async def test_nothing_is_carried_out_after_leaving() -> None:
    for farewell in ("\\q", "exit", " Quit "):
        gateway = Gateway()
        await shell(gateway, farewell, "a;")
        assert gateway.done == [Command("\\q")]


async def test_an_expired_session_is_signed_in_again(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway(QueryFailed("SESSION_EXPIRED", "Sign in again."))
    await shell(gateway, "a; b;")
    assert gateway.sign_ins == 1
    assert gateway.done == [Sql("a")]
    assert "signed in again; send it once more" in capsys.readouterr().err


async def test_a_sign_in_that_fails_is_no_end(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise Unreachable("nobody there")

    gateway = Gateway(QueryFailed("SESSION_EXPIRED", "Sign in again."), sign_in=refuse)
    await shell(gateway, "a;", "b;")
    assert gateway.sign_ins == 2
    assert "signing in again failed" in capsys.readouterr().err


async def test_a_gateway_that_is_gone_is_told_and_the_shell_waits_for_it() -> None:
    gateway = Gateway(Unreachable("no gateway answers"))
    await shell(gateway, "a;", "b;")
    assert gateway.done == [Sql("a"), Sql("b")]
