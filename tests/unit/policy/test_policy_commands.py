"""The policy commands refuse a file that they cannot read before they ask anybody."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bailiwick.cli.main import app
from bailiwick.cli.policy import FILE_BYTES_MAX

NOWHERE = {"BAILIWICK_URL": "grpc://127.0.0.1:1", "BAILIWICK_TOKEN": "t"}


@pytest.mark.parametrize("command", ["apply", "diff"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"#" * (FILE_BYTES_MAX + 1), "at most"),
    ],
)
def test_a_file_that_cannot_be_read_is_bad_usage(
    tmp_path: Path, command: str, content: bytes | None, says: str
) -> None:
    file = tmp_path / "policy.toml"
    if content is not None:
        file.write_bytes(content)
    result = CliRunner().invoke(app, ["policy", command, str(file)], env=NOWHERE)
    assert result.exit_code == 2
    assert says in result.output


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["policy", "diff", str(tmp_path)], env=NOWHERE)
    assert result.exit_code == 2


def test_without_a_gateway_nothing_is_shown() -> None:
    result = CliRunner().invoke(app, ["policy", "show"], env=NOWHERE)
    assert result.exit_code == 2
    assert result.stdout == ""
