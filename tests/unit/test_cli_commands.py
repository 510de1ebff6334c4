"""The command line as a person meets it: help, usage, exit codes, and what starts quickly."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bailiwick.cli import sql_text
from bailiwick.cli.connection import find_credentials
from bailiwick.cli.failures import UsageProblem
from bailiwick.cli.gateway_options import GatewayOptions, find_address, find_gateway
from bailiwick.cli.main import app
from bailiwick.client.address import Address, parse_url
from bailiwick.client.credentials import Password, Token
from bailiwick.client.encryption import Encryption
from bailiwick.client.errors import Unreachable

NOWHERE = {"BAILIWICK_URL": "", "BAILIWICK_PASSWORD": "", "BAILIWICK_TOKEN": ""}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        *(
            [name, "--help"]
            for name in ("serve", "query", "user", "token", "audit", "doctor", "check-config")
        ),
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
        ("grpc+tls://gateway.example:7", Address("gateway.example", 7, is_encrypted=True)),
    ],
)
def test_an_address_is_a_url(url: str, address: Address) -> None:
    assert parse_url(url) == address
    assert parse_url(f"grpc{'+tls' * address.is_encrypted}://{address}") == address


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
    assert find_address("h", None, environment) == Address("h", 50051, is_encrypted=True)
    assert find_address(None, 5, environment) == Address("localhost", 5)
    assert find_address(None, None, environment) == Address("from-environment", 1)
    with pytest.raises(UsageProblem, match="where is the gateway"):
        find_address(None, None, {})


def test_a_host_that_is_not_this_machine_is_spoken_to_over_tls_unless_told_otherwise() -> None:
    for host, is_encrypted in (
        ("gateway.example", True),
        ("10.0.0.1", True),
        ("localhost", False),
        ("::1", False),
    ):
        assert find_address(host, 1, {}).is_encrypted is is_encrypted
        assert find_address(host, 1, {}, tls=True).is_encrypted
        assert not find_address(host, 1, {}, tls=False).is_encrypted
    assert find_address(None, None, {"BAILIWICK_URL": "grpc://h:1"}, tls=True).is_encrypted


def test_files_for_tls_come_from_options_or_the_environment_and_mean_tls() -> None:
    url = {"BAILIWICK_URL": "grpc+tls://h:1", "BAILIWICK_CA": "e.pem", "BAILIWICK_CLIENT_CERT": "c.pem"}
    found = find_gateway(GatewayOptions(ca=Path("o.pem")), {**url, "BAILIWICK_CLIENT_KEY": "c.key"})
    assert found.encryption == Encryption(Path("o.pem"), Path("c.pem"), Path("c.key"))
    assert find_gateway(GatewayOptions(), {**url, "BAILIWICK_URL": "grpc://h:1"}).encryption is None
    by_option = find_gateway(GatewayOptions(port=1, ca=Path("o.pem")), {})
    assert by_option.encryption == Encryption(Path("o.pem"))
    with pytest.raises(UsageProblem, match="--no-tls contradicts"):
        find_gateway(GatewayOptions(port=1, tls=False, ca=Path("o.pem")), {})


def test_verification_is_skipped_by_name_only_and_never_silently(capsys: pytest.CaptureFixture[str]) -> None:
    tls = {"BAILIWICK_URL": "grpc+tls://h:1"}
    assert find_gateway(GatewayOptions(), tls).encryption == Encryption(is_verified=True)
    assert capsys.readouterr().err == ""
    found = find_gateway(GatewayOptions(insecure_skip_verify=True), tls)
    assert found.encryption == Encryption(is_verified=False)
    assert "not verified" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["query"], ["user", "add"], ["user", "list"], ["user", "password"]])
@pytest.mark.parametrize("option", ["--host", "--tls", "--no-tls", "--ca", "--client-cert", "--client-key"])
def test_every_command_of_a_client_can_speak_tls(command: list[str], option: str) -> None:
    assert option in CliRunner().invoke(app, [*command, "--help"]).output


def test_a_file_for_tls_that_cannot_be_read_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for file, told in (("missing.pem", "cannot read"), ("empty.pem", "is not a PEM file")):
        arguments = ["query", "--port", "1", "--ca", str(tmp_path / file), "-e", "SELECT 1"]
        result = CliRunner().invoke(app, arguments, env={**NOWHERE, "BAILIWICK_TOKEN": "t"})
        assert result.exit_code == 2
        assert told in result.output


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
    assert sql_text.create_user("a", "p", [], "x'") == "CREATE USER `a` WITH PASSWORD 'p' TENANT 'x'''"
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
