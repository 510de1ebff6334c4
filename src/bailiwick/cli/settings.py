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
    """Refuse what cannot keep the profile, all of it at once."""
    from bailiwick.doors.listening import is_loopback

    if settings.profile == "dev-local" and all(map(is_loopback, settings.server.bind)):
        # It promises no more than that, and most starts are such: what follows takes its time to import.
        return
    from bailiwick.profiles import ProfileError, check

    try:
        check(settings, data_dir)
    except ProfileError as error:
        raise UsageProblem(
            f'the profile is "{error.profile}", and this is in its way:\n'
            + "\n".join(f"  {each}" for each in error.problems)
        ) from error


def check_config(config: ConfigFile = None) -> None:
    """Check the settings: the file and the environment. Names every mistake at once."""
    with reported():
        settings = read_settings(config)
        check_profile(settings)
        check_certificates(settings)
        typer.echo("the settings are fine")
