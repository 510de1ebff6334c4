"""The settings as the command line sees them: the file, the environment, and the options on top."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiwick.cli.failures import UsageProblem, reported

if TYPE_CHECKING:
    from bailiwick.config import Config

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A TOML file with settings.", dir_okay=False)
]


def read_settings(file: Path | None, *, server: dict[str, Any] | None = None) -> "Config":
    """The settings, with the options given for `[server]`. Every mistake is told at once."""
    from bailiwick.config import ConfigError, load

    given = {key: value for key, value in (server or {}).items() if value is not None}
    try:
        return load(file, overrides={"server": given} if given else {})
    except ConfigError as error:
        raise UsageProblem(
            "the settings do not hold:\n" + "\n".join(f"  {each}" for each in error.problems)
        ) from error


def check_certificates(settings: "Config") -> None:
    """Look at the files that the settings name for TLS, as a start would."""
    if not settings.tls.is_on:
        return
    from bailiwick.doors.certificates import UnusableCertificateError, read_certificates

    try:
        read_certificates(settings.tls)
    except UnusableCertificateError as error:
        raise UsageProblem(f"the settings do not hold:\n  {error}") from error


def check_profile(settings: "Config", data_dir: Path | None = None) -> None:
    """Refuse what is not for production, all of it at once, if that is what the settings ask for."""
    if settings.profile != "production":
        return
    from bailiwick.production import NotForProductionError, check

    try:
        check(settings, data_dir)
    except NotForProductionError as error:
        raise UsageProblem(
            'the profile is "production", and this is for trying out:\n'
            + "\n".join(f"  {each}" for each in error.problems)
        ) from error


def check_config(config: ConfigFile = None) -> None:
    """Check the settings: the file and the environment. Names every mistake at once."""
    with reported():
        settings = read_settings(config)
        check_profile(settings)
        check_certificates(settings)
        typer.echo("the settings are fine")
