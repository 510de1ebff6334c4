"""`bailiwick engine` tells what is wrong in one sentence, with exit code 2, before it starts anything."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from bailiwick.cli.main import app
from bailiwick.testing.certificates import Authority


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


def told(directory: Path, *arguments: str, gateway: str = "http://127.0.0.1:1") -> tuple[int, str]:
    words = [
        "--gateway",
        gateway,
        "--data-dir",
        str(directory / "data"),
        "--token-file",
        str(directory / "tokens"),
    ]
    result = CliRunner().invoke(app, ["engine", *words, *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "No such file or directory"),
        (("--bind", "10.0.0.1"), "give --certificate, --key and --authority"),
        (("--certificate", "c.pem"), "given together or not at all"),
        (("--memory", "lots"), "--memory"),
        (("--name", "embedded"), "--name"),
        (("--properties", "nothing-there"), "No such file"),
    ],
)
def test_a_wrong_option_is_told_in_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, output = told(tmp_path, *arguments)
    assert code == 2
    assert said in output
    assert "Traceback" not in output
    assert output.count("\n") == 1


def test_another_machine_is_not_sent_secrets_in_the_clear(tmp_path: Path) -> None:
    code, output = told(tmp_path, gateway="http://gateway.example:8080")
    assert code == 2
    assert "use https://" in output


def test_certificates_that_do_not_hold_are_told_before_java_is_looked_for(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("keeper")
    issued.key.chmod(0o644)
    files = (
        "--certificate",
        str(issued.certificate),
        "--key",
        str(issued.key),
        "--authority",
        str(authority.file),
    )
    code, output = told(tmp_path, *files)
    assert code == 2
    assert "chmod 0600" in output
