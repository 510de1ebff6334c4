"""No value that opens a door shows itself: not when printed, not in a log line, not in a dump of settings."""

import dataclasses
import importlib
import inspect
import io
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import bailiwick
from bailiwick.client.credentials import Password, Token
from bailiwick.config import Config, ConfigError, load
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.statements import parse, redacted
from bailiwick.policy.stamp import StampKey
from bailiwick.secrets import Secret, new_secret
from bailiwick.telemetry import logs
from bailiwick.telemetry.config import LoggingConfig

TELLING = re.compile(r"password|passphrase|secret|token|credential|cookie|stamp$|handle$|signing_key|sealing")
HARMLESS = {
    # Files, not what is in them.
    "GatewayOptions.client_key",
    "KeeperConfig.token_file",
    "KeptEngine.token_file",
    # gRPC's own object.
    "ChannelSecurity.credentials",
    # Of a test's engine.
    "Executed.handle",
}
SECRET = "correct-horse-battery-9"


def values() -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    """Every field of every dataclass of ours."""
    for module in pkgutil.walk_packages(bailiwick.__path__, "bailiwick."):
        if "_generated" in module.name:
            continue
        for name, found in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(found) and found.__module__ == module.name and dataclasses.is_dataclass(found):
                for field in dataclasses.fields(found):
                    yield f"{name}.{field.name}", field


def test_no_value_shows_a_secret_when_it_is_printed() -> None:
    fields = dict(values())
    assert len(fields) > 300
    shown = [
        name
        for name, field in fields.items()
        if TELLING.search(name.partition(".")[2])
        and field.repr
        and field.type not in (Secret, "Secret", float, "float", int, "int", bool, "bool")
        and name not in HARMLESS
    ]
    assert shown == []


def test_what_callers_bring_does_not_show_itself() -> None:
    for value in (
        Password("ann", SECRET),
        Token(SECRET),
        Secret(SECRET),
        parse(f"CREATE USER ann PASSWORD '{SECRET}'"),
        parse(f"ALTER USER ann PASSWORD '{SECRET}'"),
    ):
        assert SECRET not in f"{value!r} {value}"


def test_keys_do_not_show_themselves() -> None:
    key = StampKey.new()
    assert key.text not in repr(key)
    secret = new_secret()
    assert secret.reveal() not in f"{secret} {secret!r}"


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE USER ann PASSWORD '{SECRET}'",
        f"create user ann with password '{SECRET}' roles (reader)",
        f"ALTER USER ann PASSWORD '{SECRET}' and then some",
        f"CREATE USER ann PASSWORD '{SECRET}",
        f"CREATE USR ann PASSWORD '{SECRET}'",
        f"/* x */ ALTER USER ann -- y\n PASSWORD '{SECRET}'",
    ],
)
def test_a_statement_is_kept_without_its_password(sql: str) -> None:
    assert SECRET not in redacted(sql)


def test_a_wrong_setting_is_told_without_the_value_of_a_secret() -> None:
    for environment in (
        {"BAILIWICK__IDENTITY__PASSWORD": SECRET},
        {"BAILIWICK__SECRET__TOKEN": SECRET},
        {f"BAILIWICK__X__{name}": SECRET for name in ("A", "B")},
    ):
        with pytest.raises(ConfigError) as refused:
            load(environment=environment)
        assert SECRET not in f"{refused.value} {refused.value.problems}"


def test_the_settings_hold_no_secret_to_dump() -> None:
    """Secrets are drawn, or read from files by those who use them; a dump of the settings may be shown."""
    names = [
        f"{section}.{key}"
        for section, settings in Config().model_dump().items()
        if isinstance(settings, dict)
        for key in settings
    ]
    assert len(names) > 20
    harmless = ("_s", "_max", "_file", "_max_s")
    assert [name for name in names if TELLING.search(name) and not name.endswith(harmless)] == []


@pytest.mark.parametrize("format_name", ["json", "console"])
def test_an_error_with_a_secret_in_its_cause_is_logged_without_it(format_name: str) -> None:
    stream = io.StringIO()
    logs.configure(LoggingConfig.model_validate({"format": format_name}), stream=stream)
    error = BailiwickError(
        Code.INTERNAL_ERROR,
        f"x bw_0123456789ab_{SECRET.replace('-', '')}",
        cause_text=f"fs.s3a.secret.key={SECRET} X-Bailiwick-Session: {SECRET}",
    )
    try:
        raise error
    except BailiwickError:
        logs.logger("x").exception("call_failed", cause=error.cause_text, headers={"authorization": SECRET})
    assert "call_failed" in stream.getvalue()
    assert SECRET not in stream.getvalue()
    assert SECRET.replace("-", "") not in stream.getvalue()
