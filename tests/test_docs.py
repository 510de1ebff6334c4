"""Documentation is a part that is tested: links lead somewhere, commands exist, claims name their test."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bailiwick.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FEATURE_ROWS_MIN = 20


def commands(page: Path) -> list[str]:
    """The command lines of a page's shell blocks, continued lines joined."""
    blocks = re.findall(r"```(?:bash|console|sh)\n(.*?)```", page.read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").split("\n")
    return [line.removeprefix("$ ").strip() for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_in_pages_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in commands(page):
        if line.startswith("make "):
            target = line.split()[1]
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_bailiwick_commands_in_pages_exist(page: Path) -> None:
    root = typer.main.get_command(app)
    for line in commands(page):
        words = shlex.split(line, comments=True)
        if words and Path(words[0]).name == "bailiwick":
            assert_understood(root, words[1:], line)


def assert_understood(command: Any, words: list[str], line: str) -> None:
    """Walk down to the command that `words` name, and look at the options that are left."""
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"no such command: {line}"
        command, words = command.commands[words[0]], words[1:]
    options = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in options, f"{word} is not an option: {line}"


def test_every_claim_names_a_test_that_exists() -> None:
    rows = re.findall(
        r"^\| ([A-N]\d+) \|(.*)\| (works|partial|planned) \|(.*)\|$", status_page(), re.MULTILINE
    )
    assert len(rows) >= FEATURE_ROWS_MIN
    for feature, _promise, status, evidence in rows:
        named = re.findall(r"`(tests/[^`]+?\.py)(?:::(\w+))?`", evidence)
        assert named or status == "planned", f"{feature} claims to work but names no test"
        for path, function in named:
            text = (ROOT / path).read_text()
            assert not function or f"def {function}(" in text, f"{feature}: {path} has no {function}"


def status_page() -> str:
    return (ROOT / "docs/reference/status.md").read_text()
