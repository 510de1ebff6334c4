"""Settings: who wins, and that every mistake is told at once with its place."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from bailiwick.config import Config, ConfigError, gather, load, sections


def written(directory: Path, text: str) -> Path:
    file = directory / "bailiwick.toml"
    file.write_text(text)
    return file


def problems(
    file: Path | None = None, environment: dict[str, str] | None = None, **overrides: dict[str, object]
) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(file, environment or {}, overrides)
    return caught.value.problems


def test_nothing_given_is_fine() -> None:
    config = load(None, {}, {})
    assert config.server.bind == ("127.0.0.1", "::1")
    assert config == Config()


def test_options_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "[server]\ngrpc_port = 1\nhttp_port = 2\ndrain_s = 3\n")
    environment = {"BAILIWICK__SERVER__HTTP_PORT": "20", "BAILIWICK__SERVER__DRAIN_S": "30"}
    config = load(file, environment, {"server": {"drain_s": 300}})
    assert (config.server.grpc_port, config.server.http_port, config.server.drain_s) == (1, 20, 300)


def test_variables_are_read_by_the_type_of_their_setting() -> None:
    config = load(
        None,
        {
            "BAILIWICK__SERVER__BIND": "127.0.0.1, ::1",
            "BAILIWICK__LOGGING__BREADCRUMBS": "true",
            "BAILIWICK__POOL__SESSIONS": "",
            "BAILIWICK__ENGINE__JAVA_HOME": "/opt/java",
            "BAILIWICK__LIMITS__TIMEOUT_S": "1.5",
            "BAILIWICK_PASSWORD": "not one of these settings",
        },
    )
    assert config.server.bind == ("127.0.0.1", "::1")
    assert config.logging.breadcrumbs is True
    assert config.pool.sessions is None
    assert config.engine.java_home == Path("/opt/java")
    assert config.limits.timeout_s == 1.5


def test_every_mistake_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        'loose = 1\n[server]\ngrpc_prot = 1\ngrpc_port = 99999\n[poool]\nx = 1\n[logging]\nlevel = "loud"\n',
    )
    environment = {
        "BAILIWICK__LIMITS__TIMEOUT_S": "soon",
        "BAILIWICK__POOL__QUEUE_LENGHT_MAX": "3",
        "BAILIWICK__FOO": "1",
    }
    told = problems(file, environment, server={"http_port": -1})
    assert told == [
        "bailiwick.toml: `loose` stands outside of any [section]",
        "BAILIWICK__FOO: must be BAILIWICK__SECTION__KEY",
        "bailiwick.toml: [server] grpc_prot: there is no such setting; did you mean grpc_port?",
        "bailiwick.toml: [poool] x: there is no section [poool]; did you mean pool?",
        "BAILIWICK__POOL__QUEUE_LENGHT_MAX: there is no such setting; "
        "did you mean queue_length_max or queue_length_per_tenant_max?",
        "bailiwick.toml: [server] grpc_port: input should be less than or equal to 65535, not 99999",
        "--http-port: input should be greater than or equal to 0, not -1",
        "BAILIWICK__LIMITS__TIMEOUT_S: input should be a valid number, unable to parse string as a number, "
        "not 'soon'",
        "bailiwick.toml: [logging] level: input should be 'debug', 'info', 'warning' or 'error', not 'loud'",
    ]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.2", "gateway.example"])  # noqa: S104
def test_nobody_outside_is_served_in_the_clear(address: str) -> None:
    [problem] = problems(server={"bind": ("127.0.0.1", address)})
    assert problem.startswith(f"{address} would be served without encryption")


def test_an_empty_address_is_not_every_address() -> None:
    assert problems(server={"bind": ("127.0.0.1", "")}) == ["--bind: an address is empty"]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_addresses_are_served(address: str) -> None:
    assert load(None, {}, {"server": {"bind": (address,)}}).server.bind == (address,)


def test_sections_that_contradict_one_another_are_refused() -> None:
    assert problems(server={"grpc_port": 8080}) == ["server.grpc_port and server.http_port must differ"]
    assert load(None, {}, {"server": {"grpc_port": 0, "http_port": 0}}).server.grpc_port == 0
    assert problems(limits={"timeout_s": 10.0, "timeout_max_s": 5.0}) == [
        "limits.timeout_s must not be above limits.timeout_max_s"
    ]


def test_a_file_that_cannot_be_read_is_a_problem_like_any_other(tmp_path: Path) -> None:
    assert "No such file" in problems(tmp_path / "missing.toml")[0]
    assert "not TOML" in problems(written(tmp_path, "[server"))[0]
    (tmp_path / "bailiwick.toml").write_bytes(b"\xff\xfe")
    assert "not TOML" in problems(tmp_path / "bailiwick.toml")[0]
    assert "larger than" in problems(written(tmp_path, "#" * (1 << 20) + "##"))[0]


class VaultConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    key: SecretStr | None = None


class WithSecret(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    vault: VaultConfig = VaultConfig()


def test_a_secret_comes_from_the_environment() -> None:
    config = gather(WithSecret, None, {"BAILIWICK__VAULT__KEY": "s3cret"}, {})
    assert config.vault.key is not None
    assert config.vault.key.get_secret_value() == "s3cret"


def test_a_secret_comes_from_a_file_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    config = gather(WithSecret, None, {"BAILIWICK__VAULT__KEY_FILE": str(file)}, {})
    assert config.vault.key is not None
    assert config.vault.key.get_secret_value() == "s3cret"
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0600"):
        gather(WithSecret, None, {"BAILIWICK__VAULT__KEY_FILE": str(file)}, {})


def test_a_secret_in_the_settings_file_is_refused_without_being_shown(tmp_path: Path) -> None:
    file = written(tmp_path, '[vault]\nkey = "s3cret"\n')
    with pytest.raises(ConfigError) as caught:
        gather(WithSecret, file, {}, {})
    [problem] = caught.value.problems
    assert "BAILIWICK__VAULT__KEY" in problem
    assert "s3cret" not in problem


def test_every_setting_has_a_description_and_every_name_its_unit() -> None:
    for name, model in sections(Config).items():
        for key, field in model.model_fields.items():
            assert field.description, f"{name}.{key}"
            assert not key.endswith(("_seconds", "_ms", "_timeout", "_size")), (
                f"{name}.{key}: _s, _bytes, _max"
            )
