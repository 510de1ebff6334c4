"""Every promise of the threat model names a test that exists, and every attack family is named there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"


def named() -> list[tuple[str, str]]:
    return re.findall(r"`(tests/[^`]+?\.py)(?:::(\w+))?`", PAGE.read_text())


def test_every_promise_names_a_test_that_exists() -> None:
    assert len(named()) > 40
    for path, function in named():
        text = (ROOT / path).read_text()
        assert not function or f"def {function}(" in text, f"{path} has no {function}"


def test_every_attack_family_holds_a_promise() -> None:
    paths = {path for path, _ in named()}
    families = {str(file.relative_to(ROOT)) for file in (ROOT / "tests/e2e/attacks").glob("test_attack_*.py")}
    assert len(families) >= 15
    assert families - paths == set()
