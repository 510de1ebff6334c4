"""The house rules that a machine can check. When one of these fails, the fix is usually a better name or a split."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "_generated" not in path.parts
)
MODULES = [path for path in SOURCES if path.is_relative_to(ROOT / "src")]
LINES_MAX = 400
FUNCTION_LINES_MAX = 70
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "impl", "misc"}


def tracked_text_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 30


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LINES_MAX, (
        f"{path.name} is over {LINES_MAX} lines: which noun is hiding in it?"
    )
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{path.name}:{node.lineno} {node.name} has {length} lines"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is(path: Path) -> None:
    if path.name == "__init__.py" and not path.read_text().strip():
        return
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path.name} has no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_hides_behind_a_name_that_says_nothing(path: Path) -> None:
    assert not FORBIDDEN_NAMES & set(path.stem.split("_")), f"{path.name}: a noun is still missing"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_mocks_and_no_sleeping(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"unittest\.mock|from mock |MagicMock|monkeypatch\.setattr", text) or path == Path(
        __file__
    )
    if path.is_relative_to(ROOT / "tests") and path != Path(__file__):
        assert not re.search(r"\btime\.sleep\((?!0\.0)", text), "wait for a condition with a deadline instead"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_error_is_swallowed_without_a_word(path: Path) -> None:
    """`except …: pass` needs a comment that says why that is right."""
    lines = path.read_text().split("\n")
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.ExceptHandler) and [type(s) for s in node.body] == [ast.Pass]:
            block = "\n".join(lines[node.lineno - 1 : (node.end_lineno or node.lineno)])
            assert "#" in block, f"{path.name}:{node.lineno} swallows an error silently"


def test_nothing_names_a_registry_or_a_path_of_one_machine() -> None:
    registries = "|".join(
        ("pypi" + r"\.org", "repo1" + r"\.maven", "maven" + r"\.org", "pythonhosted" + r"\.org")
    )
    pattern = re.compile(rf"{registries}|/" + r"work/main|/" + r"root/")
    for path in tracked_text_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        assert not pattern.search(text), f"{path.relative_to(ROOT)}: {pattern.search(text)}"


def test_requirements_are_pinned_without_addresses() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        for line in path.read_text().split("\n"):
            if line and not line.startswith(("#", "-r ")):
                assert re.fullmatch(r"[a-z0-9._-]+==[A-Za-z0-9.]+", line), f"{path.name}: {line}"
