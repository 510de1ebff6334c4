"""`bailiwick serve`: the gateway with its embedded engine, until SIGINT or SIGTERM."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiwick.cli.failures import UsageProblem, reported
from bailiwick.cli.grpc_noise import silence_grpc
from bailiwick.cli.settings import ConfigFile, check_profile, read_settings

if TYPE_CHECKING:
    from bailiwick.config import Config


def serve(
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data-dir", metavar="DIR", file_okay=False, help="Where everything is kept; made if missing."
        ),
    ],
    bind: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on, may be given several times."),
    ] = None,
    grpc_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Flight SQL; 0 takes a free port.")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Health and metrics; 0 takes a free port.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Serve a data directory. Prints `ready grpc=HOST:PORT http=HOST:PORT` when queries work.

    On an empty directory the user `admin` is made, and its password printed once. SIGINT and SIGTERM let
    running queries end, then stop everything that was started. Logs go to stderr. Nothing is
    started while anything is in the way of the profile.
    """
    with reported():
        server = {"bind": tuple(bind) if bind else None, "grpc_port": grpc_port, "http_port": http_port}
        settings = read_settings(config, server=server)
        check_profile(settings, data_dir)
        _serve(settings, data_dir)


def _serve(settings: "Config", data_dir: Path) -> None:
    silence_grpc()
    # The gateway is behind these imports; other commands start without it.
    import uvloop

    from bailiwick.app import serve as serve_gateway
    from bailiwick.errors import CannotStartError

    try:
        uvloop.run(serve_gateway(settings, data_dir, _announce))
    except CannotStartError as error:
        raise UsageProblem(str(error)) from error
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise UsageProblem(f"cannot use {data_dir}: {error.strerror}") from error


def _announce(line: str) -> None:
    # At once, also into a pipe: whoever started us waits for this line.
    print(line, flush=True)  # noqa: T201
