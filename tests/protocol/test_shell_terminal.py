"""The shell of `bailiwick query` at a real terminal, and statements through a pipe, scripted."""

import asyncio
import stat
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from flight_door import PASSWORD, Door, serving

from bailiwick.testing.gateway import clean_environment, command
from bailiwick.testing.scripted_queries import Script
from bailiwick.testing.terminal import Terminal, at_terminal

PROMPT = "^bailiwick>"
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody in front of the door. What they do blocks, so it is done in a thread."""

    door: Door
    state: Path

    @property
    def history(self) -> Path:
        return self.state / "bailiwick" / "history"

    @property
    def environment(self) -> dict[str, str]:
        given = {"BAILIWICK_URL": self.door.uri, "BAILIWICK_PASSWORD": PASSWORD}
        return clean_environment({**given, "XDG_STATE_HOME": str(self.state)})

    @contextmanager
    def shell(self, *arguments: str, columns: int = 100) -> Iterator[Terminal]:
        line = [command(), "query", "--user", "ann", *arguments]
        with at_terminal(line, self.environment, columns=columns) as terminal:
            terminal.expect(PROMPT)
            yield terminal

    def piped(self, text: str | bytes, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [command(), "query", "--user", "ann", *arguments],
            input=text.encode() if isinstance(text, str) else text,
            env=self.environment,
            capture_output=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
async def person(tmp_path: Path) -> AsyncIterator[Person]:
    async with serving() as door:
        yield Person(door, tmp_path)


async def doing(action: Callable[[], Value]) -> Value:
    return await asyncio.to_thread(action)


async def test_statements_are_answered_until_one_leaves(person: Person) -> None:
    def session() -> int:
        with person.shell() as shell:
            shell.enter("numbers;")
            shown = shell.expect(r"10 rows \(\d+\.\d\d s\)")
            assert "id   name" in shown
            assert " 9   n9" in shown
            shell.expect(PROMPT)
            shell.enter("insert;")
            shell.expect(r"done, 3 rows changed \(")
            shell.expect(PROMPT)
            shell.press_ctrl_d()
            return shell.wait()

    assert await doing(session) == 0


@pytest.mark.parametrize("farewell", ["\\q", "exit", "QUIT"])
async def test_one_leaves_in_words_too(person: Person, farewell: str) -> None:
    def session() -> int:
        with person.shell() as shell:
            shell.enter(farewell)
            return shell.wait()

    assert await doing(session) == 0


async def test_a_statement_goes_on_over_lines_until_its_semicolon(person: Person) -> None:
    person.door.queries.by_prefix["SELECT ';'"] = Script(pa.table({"found": ["it"]}))

    def session() -> None:
        with person.shell() as shell:
            shell.enter("SELECT ';'")
            shell.expect(r"\.\.\.")
            shell.enter("-- no; end")
            shell.expect(r"\.\.\.")
            shell.enter(";")
            shell.expect(r"1 row \(")

    await doing(session)
    assert person.door.queries.runs[-1].statement.sql == "SELECT ';'\n-- no; end"


async def test_several_statements_at_once_run_in_turn_and_stop_at_a_failure(person: Person) -> None:
    def session() -> None:
        with person.shell() as shell:
            shell.enter("show; nonsense; numbers;")
            shell.expect(r"1 row \(")
            shell.expect("SYNTAX_ERROR: no such script")
            shell.expect(PROMPT)
            shell.enter("empty;")
            shell.expect(r"0 rows \(")

    await doing(session)
    assert [run.statement.sql for run in person.door.queries.runs] == ["show", "empty"]


async def test_failures_are_shown_with_their_code_and_one_goes_on(person: Person) -> None:
    def session() -> str:
        with person.shell() as shell:
            shell.enter("fails late;")
            shown = shell.expect("DIVISION_BY_ZERO: Division by zero")
            shell.expect(PROMPT)
            shell.enter("\\nowhere")
            shell.expect(r"error: there is no \\nowhere here; \\\? lists")
            shell.expect(PROMPT)
            shell.enter("show;")
            shell.expect(r"1 row \(")
            return shown

    await doing(session)


async def test_ctrl_c_cancels_what_runs_and_the_shell_stays(person: Person) -> None:
    person.door.queries.hold("numbers")

    def session() -> None:
        with person.shell() as shell:
            shell.enter("numbers;")
            asyncio.run_coroutine_threadsafe(person.door.queries.started.wait(), loop).result(30)
            shell.press_ctrl_c()
            shell.expect("^cancelled")
            shell.expect(PROMPT)
            shell.enter("show;")
            shell.expect(r"1 row \(")

    loop = asyncio.get_running_loop()
    await doing(session)
    run = person.door.queries.runs[0]
    await asyncio.wait_for(run.ended.wait(), 30)
    assert run.cancelled


async def test_ctrl_c_while_typing_throws_the_line_away(person: Person) -> None:
    def session() -> None:
        with person.shell() as shell:
            shell.type("nonsense")
            shell.expect("nonsense")
            shell.press_ctrl_c()
            shell.expect(PROMPT)
            shell.enter("show;")
            shell.expect(r"1 row \(")

    await doing(session)
    assert [run.statement.sql for run in person.door.queries.runs] == ["show"]


async def test_how_answers_look_can_be_changed(person: Person) -> None:
    def session() -> None:
        with person.shell() as shell:
            shell.enter("\\timing off")
            shell.expect("timing is off")
            shell.enter("\\rows 3")
            shell.expect("at most 3 rows are shown")
            shell.enter("numbers;")
            shell.expect(r"first 3 rows; there are more: \\rows N shows more\n")
            shell.enter("\\format csv")
            shell.expect("answers come as csv")
            shell.enter("numbers;")
            assert "2,n2" in shell.expect("first 3 rows; there are more")
            shell.enter("\\format json")
            shell.expect("answers come as json")
            shell.enter("show;")
            shell.expect('{"id": 0, "name": "n0"}')
            shell.enter("\\format xml")
            shell.expect("takes one of table, csv, json")
            shell.enter("\\progress")
            shell.expect("progress is off")
            shell.enter("\\?")
            shell.expect(r"\\q +leave")

    await doing(session)


async def test_a_result_wider_than_the_terminal_is_shown_as_records(person: Person) -> None:
    row = {f"column_{number}": [f"value {number}"] for number in range(8)}
    person.door.queries.scripts["wide"] = Script(pa.table(row))

    def session() -> str:
        with person.shell(columns=60) as shell:
            shell.enter("wide;")
            return shell.expect(r"1 row \(")

    shown = await doing(session)
    assert "row 1" in shown
    assert all(len(line) <= 60 for line in shown.split("\n"))


async def test_history_comes_back_for_its_owner_alone_and_without_passwords(person: Person) -> None:
    def first() -> None:
        with person.shell() as shell:
            for entry in ("show;", "CREATE USER eve PASSWORD 'sesame';", " empty;"):
                shell.enter(entry)
                shell.expect(r"SYNTAX_ERROR|rows? \(")
                shell.expect(PROMPT)
            shell.type("\x1b[A")
            shell.expect("show;")

    def second() -> None:
        with person.shell() as shell:
            shell.type("\x1b[A")
            shell.expect("show;")
            shell.enter("")
            shell.expect(r"1 row \(")

    await doing(first)
    kept = person.history.read_text()
    assert kept == '"show;"\n'
    assert stat.S_IMODE(person.history.stat().st_mode) == 0o600
    assert stat.S_IMODE(person.history.parent.stat().st_mode) == 0o700
    await doing(second)


async def test_a_shell_that_cannot_sign_in_ends_with_1(person: Person) -> None:
    def session() -> int:
        environment = {**person.environment, "BAILIWICK_PASSWORD": "wrong"}
        with at_terminal([command(), "query", "--user", "ann"], environment) as shell:
            shell.expect("AUTHENTICATION_FAILED")
            return shell.wait()

    assert await doing(session) == 1


async def test_the_statements_of_a_pipe_run_in_turn(person: Person) -> None:
    done = await doing(lambda: person.piped("show;\n\nempty;\n-- the last\n;;show", "--format", "csv"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split() == ["id,name", "0,n0", "id,name", "id,name", "0,n0"]
    assert [run.statement.sql for run in person.door.queries.runs] == ["show", "empty", "show"]


async def test_the_first_failure_is_the_end_of_a_pipe(person: Person) -> None:
    done = await doing(lambda: person.piped("show; nonsense; insert;"))
    assert done.returncode == 1
    assert b"SYNTAX_ERROR" in done.stderr
    assert [run.statement.sql for run in person.door.queries.runs] == ["show"]


@pytest.mark.parametrize(
    ("text", "told"), [("show; SELECT 'half", b"SYNTAX_ERROR"), (b"show;\xff\xfe;", b"not UTF-8")]
)
async def test_what_cannot_be_read_to_its_end_is_an_error(
    person: Person, text: str | bytes, told: bytes
) -> None:
    done = await doing(lambda: person.piped(text))
    assert done.returncode in (1, 2)
    assert told in done.stderr


async def test_a_password_may_come_before_the_statements(person: Person) -> None:
    done = await doing(
        lambda: person.piped(f"{PASSWORD}\nshow;empty;", "--password-stdin", "--format", "csv")
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split() == ["id,name", "0,n0", "id,name"]


async def test_a_pipe_that_stays_open_gets_each_answer_when_its_statement_is_complete(person: Person) -> None:
    def session() -> bytes:
        line = [command(), "query", "--user", "ann", "--format", "csv"]
        with subprocess.Popen(
            line, env=person.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"show;\n")
            process.stdin.flush()
            first = process.stdout.readline() + process.stdout.readline()
            process.stdin.close()
            assert process.wait(30) == 0
            return first

    assert await doing(session) == b"id,name\n0,n0\n"


async def test_an_empty_pipe_is_fine(person: Person) -> None:
    done = await doing(lambda: person.piped("-- nothing\n"))
    assert (done.returncode, done.stdout) == (0, b"")
