"""What the doctor finds, and that each trouble comes with advice."""

import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bailiwick.cli.checks import (
    Finding,
    Verdict,
    asker,
    check_disk,
    check_engine,
    check_jars,
    check_java,
    check_port,
    check_tls,
    examine,
)
from bailiwick.cli.main import app
from bailiwick.config import Config, load
from bailiwick.doors.config import TlsConfig
from bailiwick.testing.certificates import DAY, Authority


def settings(**server: object) -> Config:
    return load(None, {}, {"server": server})


def nobody(_path: str) -> None:
    return None


def test_a_java_that_is_not_there_is_wrong_and_says_what_to_do(tmp_path: Path) -> None:
    found = check_java(load(None, {}, {"engine": {"java_home": str(tmp_path)}}))
    assert found.verdict is Verdict.WRONG
    assert "java_home" in found.advice


def test_missing_and_damaged_jars_are_wrong(tmp_path: Path) -> None:
    assert check_jars(tmp_path).verdict is Verdict.WRONG
    assert "make setup" in check_jars(tmp_path).advice


def test_the_disk_of_a_directory_that_does_not_exist_yet_is_looked_at(tmp_path: Path) -> None:
    assert str(tmp_path) in check_disk(tmp_path / "not" / "yet").told


def test_a_port_that_another_program_uses_is_wrong() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = check_port(settings(), "grpc", port, nobody)
        assert found.verdict is Verdict.WRONG
        assert "--grpc-port" in found.advice
        assert check_port(settings(), "grpc", port, lambda _path: 200).verdict is Verdict.FINE
    assert check_port(settings(), "grpc", port, nobody).verdict is Verdict.FINE
    assert check_port(settings(), "grpc", 0, nobody).verdict is Verdict.FINE


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(200, Verdict.FINE), (503, Verdict.WRONG), (404, Verdict.NOTE), (None, Verdict.NOTE)],
)
def test_the_engine_is_as_the_running_gateway_says(status: int | None, verdict: Verdict) -> None:
    assert check_engine(lambda _path: status).verdict is verdict


def test_asking_a_port_where_nobody_listens_is_no_failure() -> None:
    assert asker("127.0.0.1", 1)("/healthz") is None
    assert asker("127.0.0.1", 0)("/healthz") is None


def test_a_certificate_is_looked_at_before_it_expires(tmp_path: Path) -> None:
    def examined(days: float) -> Finding:
        issued = Authority(tmp_path).issue(ends=datetime.now(UTC) + days * DAY)
        return check_tls(TlsConfig(certificate_file=issued.certificate, key_file=issued.key))

    assert check_tls(TlsConfig()).verdict is Verdict.FINE
    assert examined(100).verdict is Verdict.FINE
    assert examined(5.5).told == "the certificate expires in 5 days"
    assert examined(5.5).verdict is Verdict.NOTE
    assert examined(-1).verdict is Verdict.WRONG


def test_all_subjects_are_looked_at(tmp_path: Path) -> None:
    subjects = [found.subject for found in examine(settings(grpc_port=0, http_port=0), tmp_path)]
    assert subjects == ["java", "jars", "disk", "tls", "grpc port", "http port", "engine"]


def test_trouble_ends_with_1(tmp_path: Path) -> None:
    file = tmp_path / "bailiwick.toml"
    file.write_text(f'[engine]\njava_home = "{tmp_path}"\n')
    result = CliRunner().invoke(app, ["doctor", "--config", str(file), "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "no Java that Spark can use" in result.output
