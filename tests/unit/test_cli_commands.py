"""The command line as a person meets it: help, usage, exit codes, and what starts quickly."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bailiwick.cli import sql_text
from bailiwick.cli.connection import find_address, find_credentials
from bailiwick.cli.failures import UsageProblem
from bailiwick.cli.main import app
from bailiwick.client.address import Address, parse_url
from bailiwick.client.credentials import Password, Token
from bailiwick.client.errors import Unreachable

NOWHERE = {"BAILIWICK_URL": "", "BAILIWICK_PASSWORD": "", "BAILIWICK_TOKEN": ""}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        *([name, "--help"] for name in ("serve", "query", "user", "token", "doctor", "check-config")),
    ],
)
def test_every_command_explains_itself(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_without_arguments_one_gets_help() -> None:
    assert "query" in CliRunner().invoke(app, []).output


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["query"],
        ["query", "-e", "x", "--format", "xml"],
        ["query", "-e", "x", "--port", "0"],
        ["query", "-e", "x", "--protocol", "smoke"],
        ["query", "-e", "x", "--user", "ann"],
        ["query", "-e", "x", "--host", "localhost", "--port", "1", "--user", "ann"],
        ["user", "add"],
        ["token", "create"],
        ["serve"],
        ["check-config", "--config", "does-not-exist.toml"],
    ],
)
def test_bad_usage_and_bad_settings_end_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments, env=NOWHERE, input="").exit_code == 2


def test_nobody_at_the_address_is_a_configuration_error() -> None:
    result = CliRunner().invoke(
        app, ["query", "--port", "1", "--user", "ann", "--password-stdin", "-e", "SELECT 1"], input="secret\n"
    )
    assert result.exit_code == 2
    assert "no gateway answers at localhost:1" in result.output
    assert "secret" not in result.output


def test_help_and_queries_start_without_anything_heavy() -> None:
    engines = ("pyspark", "duckdb", "sqlalchemy", "uvicorn")
    for module, heavy in (("main", (*engines, "pyarrow", "grpc", "pydantic")), ("asking", engines)):
        program = f"import sys, bailiwick.cli.{module}; print([n for n in {heavy!r} if n in sys.modules])"
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert done.stdout == "[]\n", module


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("grpc://localhost:50051", Address("localhost", 50051)),
        ("flight://gateway.example", Address("gateway.example", 50051)),
        ("grpc://[::1]:7", Address("::1", 7)),
    ],
)
def test_an_address_is_a_url(url: str, address: Address) -> None:
    assert parse_url(url) == address
    assert parse_url(f"grpc://{address}") == address


@pytest.mark.parametrize(
    "url",
    [
        "localhost:50051",
        "http://x",
        "grpc://",
        "grpc://h:99999",
        "grpc://u:p@h",
        "grpc://h/path",
        "grpc://h?x=1",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Unreachable):
        parse_url(url)


def test_options_win_over_the_environment() -> None:
    environment = {"BAILIWICK_URL": "grpc://from-environment:1"}
    assert find_address("h", None, environment) == Address("h", 50051)
    assert find_address(None, 5, environment) == Address("localhost", 5)
    assert find_address(None, None, environment) == Address("from-environment", 1)
    with pytest.raises(UsageProblem, match="where is the gateway"):
        find_address(None, None, {})


def test_credentials_come_from_where_they_were_given() -> None:
    both = {"BAILIWICK_PASSWORD": "p", "BAILIWICK_TOKEN": "t"}
    assert find_credentials("ann", environment=both) == Password("ann", "p")
    assert find_credentials(None, environment=both) == Token("t")
    assert find_credentials("ann", environment={"BAILIWICK_TOKEN": "t"}) == Token("t")
    assert find_credentials("ann", environment={}, ask=lambda _: "asked") == Password("ann", "asked")
    with pytest.raises(UsageProblem, match="who asks"):
        find_credentials(None, environment={"BAILIWICK_PASSWORD": "p"})


def test_credentials_do_not_show_their_secret() -> None:
    assert "hush" not in repr((Password("ann", "hush"), Token("hush")))


def test_names_and_texts_are_quoted() -> None:
    assert sql_text.create_user("o`b'r", "it's \\ `", ["reader", "wri`ter"]) == (
        "CREATE USER `o``b'r` WITH PASSWORD 'it''s \\ `' ROLES (`reader`, `wri``ter`)"
    )
    assert sql_text.create_user("ann", "p", []) == "CREATE USER `ann` WITH PASSWORD 'p'"
    assert sql_text.change_password("ann", "'") == "ALTER USER `ann` PASSWORD ''''"
    assert sql_text.create_token("ann", "8h'") == "CREATE TOKEN FOR `ann` TTL '8h'''"
    assert sql_text.create_token("ann", None) == "CREATE TOKEN FOR `ann`"
    assert sql_text.revoke_token("t'1") == "REVOKE TOKEN 't''1'"


def test_every_mistake_in_the_settings_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bailiwick.toml"
    file.write_text('[server]\ngrpc_port = 99999\nunknown = 1\n[nowhere]\nx = "y"\n')
    result = CliRunner().invoke(app, ["check-config", "--config", str(file)])
    assert result.exit_code == 2
    for mistake in ("grpc_port", "unknown", "nowhere"):
        assert mistake in result.output


def test_settings_without_mistakes_are_fine() -> None:
    assert CliRunner().invoke(app, ["check-config"]).exit_code == 0
