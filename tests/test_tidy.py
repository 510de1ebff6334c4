"""The house rules that a machine can check. When one fails, the fix is usually a better name or a split."""

import ast
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "benchmarks", "examples")
SOURCES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "_generated" not in path.parts
)
MODULES = [path for path in SOURCES if path.is_relative_to(ROOT / "src")]
LINES_MAX = 400
FUNCTION_LINES_MAX = 70
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "impl", "misc"}


def shown(path: Path, line: int | None = None) -> str:
    return str(path.relative_to(ROOT)) + (f":{line}" if line else "")


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rules ask about one module. The tree is not kept: a million nodes would slow what follows."""

    has_docstring: bool
    functions: tuple[tuple[int, int], ...]
    """First and last line of each."""
    silent_handlers: tuple[tuple[int, int], ...]
    """Of each `except …: pass`."""


@cache
def shape(path: Path) -> Shape:
    module = ast.parse(text_of(path))
    functions, silent = [], []
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append((node.lineno, node.end_lineno or node.lineno))
        elif isinstance(node, ast.ExceptHandler) and [type(each) for each in node.body] == [ast.Pass]:
            silent.append((node.lineno, node.end_lineno or node.lineno))
    return Shape(bool(ast.get_docstring(module)), tuple(functions), tuple(silent))


def tracked_files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\n") if name and (ROOT / name).is_file()]


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 100
    assert len(tracked_files()) > len(SOURCES)


def test_modules_are_short() -> None:
    """A long one usually hides a second noun."""
    assert [shown(path) for path in SOURCES if text_of(path).count("\n") > LINES_MAX] == []


def test_functions_are_short() -> None:
    long = [
        shown(path, first)
        for path in SOURCES
        for first, last in shape(path).functions
        if last - first >= FUNCTION_LINES_MAX
    ]
    assert long == []


def test_every_module_says_what_it_is() -> None:
    assert [shown(path) for path in MODULES if text_of(path).strip() and not shape(path).has_docstring] == []


def test_no_module_hides_behind_a_name_that_says_nothing() -> None:
    assert [shown(path) for path in SOURCES if NAMES_THAT_SAY_NOTHING & set(path.stem.split("_"))] == []


def test_no_mocks() -> None:
    pattern = re.compile(r"^\s*(from|import) (unittest\.)?mock\b|MagicMock\(", re.MULTILINE)
    assert [shown(path) for path in SOURCES if pattern.search(text_of(path))] == []


def test_tests_wait_for_conditions_and_do_not_just_sleep() -> None:
    """Polling goes by a named interval inside a loop with a deadline; a number of seconds is a guess."""
    pattern = re.compile(r"^\s*(await asyncio|time)\.sleep\(\d*\.?[1-9]", re.MULTILINE)
    tests = [path for path in SOURCES if path.is_relative_to(ROOT / "tests")]
    assert [shown(path) for path in tests if pattern.search(text_of(path))] == []


def test_no_error_is_swallowed_without_a_word() -> None:
    """`except …: pass` needs a comment that says why that is right."""
    silent = []
    for path in SOURCES:
        for first, last in shape(path).silent_handlers:
            if "#" not in "".join(text_of(path).split("\n")[first - 1 : last]):
                silent.append(shown(path, first))
    assert silent == []


def test_nothing_names_a_registry_or_a_path_of_one_machine() -> None:
    registries = ("pypi" + r"\.org", "repo1" + r"\.maven", "maven" + r"\.org", "pythonhosted" + r"\.org")
    pattern = re.compile("|".join((*registries, "/" + "work/", "/" + "root/")))
    telling = []
    for path in tracked_files():
        text = path.read_text(errors="replace")
        if found := pattern.search(text):
            telling.append(f"{shown(path)}: {found.group()}")
    assert telling == []


def test_requirements_are_pinned_without_addresses() -> None:
    pinned = re.compile(r"[a-z0-9._-]+==[A-Za-z0-9.]+")
    lines = [line for path in (ROOT / "requirements").glob("*.txt") for line in path.read_text().split("\n")]
    assert len(lines) > 50
    assert [
        line for line in lines if line and not line.startswith(("#", "-r ")) and not pinned.fullmatch(line)
    ] == []
