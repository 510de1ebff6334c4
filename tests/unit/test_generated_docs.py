"""The reference pages say what the code does."""

from pathlib import Path

import pytest

from bailiwick.cli.reference import PAGES, errors_page, main, settings_page
from bailiwick.config import Config, sections
from bailiwick.errors import Code


def test_the_pages_in_the_repository_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_checking_tells_which_page_differs_and_writing_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"], directory=tmp_path) == 1
    assert all(name in capsys.readouterr().err for name in ["errors.md"])
    assert main([], directory=tmp_path) == 0
    assert main(["--check"], directory=tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES)


def test_every_code_is_explained() -> None:
    page = errors_page()
    assert [page.count(f"| `{code}` |") for code in Code] == [2] * len(Code)


def test_every_setting_is_explained() -> None:
    page = settings_page()
    for name, model in sections(Config).items():
        assert f"## [{name}]" in page
        assert all(f"| `{key}` |" in page for key in model.model_fields)
