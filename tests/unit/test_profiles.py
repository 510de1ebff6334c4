"""Profiles: what cannot keep one refuses to start, and everything in the way is named at once."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from typer.testing import CliRunner

from bailiwick.cli.main import app
from bailiwick.config import Config, ConfigError, ServerConfig, load, sections
from bailiwick.profiles import (
    NOT_YET,
    ProfileError,
    check,
    file_system_of,
    mark_as_demo,
    problems,
)
from bailiwick.testing.certificates import Authority

SOUND: dict[str, Any] = {"profile": "single-node-durable"}


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, Path]:
    issued = Authority(tmp_path).issue("gateway")
    return {"certificate_file": issued.certificate, "key_file": issued.key}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    (directory / "keys").mkdir(parents=True, mode=0o700)
    directory.chmod(0o700)
    key = directory / "keys" / "token-signing"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    return directory


def told(config: Config, data_dir: Path | None = None) -> list[str]:
    with pytest.raises(ProfileError) as refused:
        check(config, data_dir)
    return refused.value.problems


def test_sound_settings_and_a_sound_directory_pass(tls: dict[str, Path], data_dir: Path) -> None:
    check(Config.model_validate({**SOUND, "tls": tls}), data_dir)


def test_a_directory_that_is_not_there_yet_is_fine(tls: dict[str, Path], tmp_path: Path) -> None:
    check(Config.model_validate({**SOUND, "tls": tls}), tmp_path / "new")


def test_the_defaults_are_for_this_machine_and_say_so_where_that_is_not_enough() -> None:
    check(Config())
    check(Config(profile="single-node-durable"))
    problem, *others = told(Config(profile="distributed-durable"))
    assert problem.startswith("tls.certificate_file and tls.key_file are not set")
    assert others[0].startswith("database.url is not set")


def test_everything_in_the_way_is_named_at_once(data_dir: Path) -> None:
    data_dir.chmod(0o755)
    mark_as_demo(data_dir)
    (data_dir / "keys" / "token-signing").chmod(0o640)
    (data_dir / "keys" / "short").write_bytes(b"1234")
    (data_dir / "keys" / "short").chmod(0o600)
    (data_dir / "keys" / "elsewhere").symlink_to("token-signing")
    config = Config.model_validate(
        {
            "profile": "single-node-durable",
            "server": {"plaintext": "allowed", "grpc_port": 0, "http_port": 0},
            "tracing": {"plaintext": "allowed"},
            "engine": {"master": "spark://elsewhere:7077"},
            "identity": {"failure_delay_s": 0, "static_token_ttl_max_s": 10 * 366 * 86_400},
            "logging": {"level": "debug", "breadcrumbs": True},
        }
    )
    wanted = [
        "server.plaintext",
        "tracing.plaintext",
        "server.grpc_port",
        "server.http_port",
        "engine.master",
        "identity.failure_delay_s",
        "identity.static_token_ttl_max_s",
        "logging.level",
        "logging.breadcrumbs",
        "the data directory can be entered by others (mode 755)",
        "the data directory is a demo's",
        "keys/elsewhere is no plain file",
        "keys/short has only 4 bytes",
        "keys/token-signing can be read by others (mode 640)",
    ]
    found = told(config, data_dir)
    assert len(found) == len(wanted)
    assert all(problem.startswith(start) for problem, start in zip(found, wanted, strict=True)), found


def test_a_certificate_that_is_no_use_is_among_them(tls: dict[str, Path]) -> None:
    tls["key_file"].chmod(0o644)
    config = Config.model_validate({**SOUND, "tls": tls, "logging": {"level": "debug"}})
    key, level = told(config)
    assert "key_file" in key
    assert level.startswith("logging.level")


def test_another_users_directory_is_refused(tls: dict[str, Path], data_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(data_dir, 12345, -1)
    config = Config.model_validate({**SOUND, "tls": tls})
    assert any("belongs to another user" in problem for problem in problems(config, data_dir))


@pytest.mark.parametrize("source", ["file", "environment"])
def test_the_profile_is_set_before_all_sections_or_by_a_variable(tmp_path: Path, source: str) -> None:
    file = tmp_path / "bailiwick.toml"
    file.write_text('profile = "single-node-durable"\n' if source == "file" else "")
    variables = {"BAILIWICK_PROFILE": "single-node-durable"} if source == "environment" else {}
    assert load(file, variables).profile == "single-node-durable"


def test_a_profile_that_does_not_exist_is_refused_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "bailiwick.toml"
    file.write_text('profile = "prod"\n')
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    assert refused.value.problems == [
        "bailiwick.toml: profile: input should be 'dev-local', 'single-node-durable' or "
        "'distributed-durable', not 'prod'"
    ]
    with pytest.raises(ConfigError) as refused:
        load(None, {"BAILIWICK_PROFILE": ""})
    assert refused.value.problems[0].startswith("BAILIWICK_PROFILE: ")


def test_the_commands_refuse_before_anything_is_started_or_made(tmp_path: Path) -> None:
    variables = {"BAILIWICK_PROFILE": "distributed-durable", "BAILIWICK__LOGGING__LEVEL": "debug"}
    for command in (["serve", "--data-dir", str(tmp_path / "data")], ["check-config"]):
        ended = CliRunner(env=variables).invoke(app, command)
        assert ended.exit_code == 2
        for reason in ("tls.certificate_file", "logging.level", "database.url", *NOT_YET):
            assert reason in ended.output
    assert not (tmp_path / "data").exists()


def test_the_demo_is_for_trying_out() -> None:
    ended = CliRunner(env={"BAILIWICK_PROFILE": "single-node-durable"}).invoke(app, ["demo"])
    assert ended.exit_code == 2
    assert "the profile is single-node-durable" in ended.output


def serving(address: str, **settings: Any) -> Config:
    """Settings of a gateway that serves that address, whatever else may be said of it."""
    server = ServerConfig().model_copy(update={"bind": (address,)})
    return Config.model_validate(settings).model_copy(update={"server": server})


def test_dev_local_serves_this_machine_only() -> None:
    check(serving("127.0.0.1"))
    (problem,) = told(serving("0.0.0.0"))  # noqa: S104
    assert problem.startswith("server.bind has 0.0.0.0")


def test_a_durable_gateway_is_for_this_machine_or_encrypted(tls: dict[str, Path]) -> None:
    check(serving("127.0.0.1", **SOUND))
    check(serving("192.0.2.1", **SOUND, tls=tls))
    (problem,) = told(serving("192.0.2.1", **SOUND))
    assert problem.endswith("192.0.2.1 would be served without encryption")


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_what_is_promised_is_not_kept_in_memory(data_dir: Path, kind: str) -> None:
    (problem,) = problems(Config.model_validate(SOUND), data_dir, file_system=lambda _path: kind)
    assert problem.startswith(f"the data directory is in memory ({kind})")
    assert not list(problems(Config.model_validate(SOUND), data_dir, file_system=lambda _path: None))


@pytest.mark.skipif(not Path("/proc/self/mounts").exists(), reason="Linux tells what is mounted where")
def test_the_file_system_of_a_directory_is_known_before_it_is_made(tmp_path: Path) -> None:
    assert file_system_of(Path("/proc/self/none/at/all")) == "proc"
    assert file_system_of(tmp_path / "a" / "b") == file_system_of(tmp_path)


def test_a_distributed_gateway_is_refused_for_what_is_not_there_yet(
    tls: dict[str, Path], data_dir: Path
) -> None:
    """Everything that can be set is: what is left is what nobody can set."""
    url = SecretStr("postgresql://me@db.example.org/bailiwick?sslmode=verify-full")
    settings = {"profile": "distributed-durable", "tls": tls, "database": {"url": url}}
    assert told(Config.model_validate(settings), data_dir) == list(NOT_YET)


def test_a_distributed_gateway_verifies_its_database(tls: dict[str, Path]) -> None:
    url = SecretStr("postgresql://me@db.example.org/bailiwick?sslmode=require")
    problem, *others = told(
        Config.model_validate({"profile": "distributed-durable", "tls": tls, "database": {"url": url}})
    )
    assert problem.startswith("database.url does not verify")
    assert others == list(NOT_YET)


def test_no_default_secret_exists() -> None:
    """Nothing that opens a door has a value before somebody gave it one."""
    suspicious = ("password", "secret", "token", "key", "credential")
    for name, model in sections(Config).items():
        for key, field in model.model_fields.items():
            default = field.get_default(call_default_factory=True)
            is_secret = SecretStr in (field.annotation, *getattr(field.annotation, "__args__", ()))
            is_named_so = any(word in key.split("_") for word in suspicious)
            if is_secret or (is_named_so and not isinstance(default, int | float)):
                assert default is None, f"{name}.{key} has a default"
            assert not isinstance(default, BaseModel)
