"""`bailiwick engine`: the keeper of one engine, until SIGINT or SIGTERM."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiwick.cli.failures import UsageProblem, reported
from bailiwick.ids import NodeId

if TYPE_CHECKING:
    from bailiwick.engines.config import EngineConfig
    from bailiwick.keeper.config import KeeperConfig, KeeperFiles

_Gateway = Annotated[
    str, typer.Option(metavar="URL", help="The gateway's HTTP port: https://HOST:PORT, http:// on loopback.")
]
_DataDir = Annotated[
    Path, typer.Option("--data-dir", metavar="DIR", file_okay=False, help="Where the engine keeps its files.")
]
_TokenFile = Annotated[
    Path, typer.Option(metavar="FILE", help="Service tokens, one a line; the first is sent. Mode 0600.")
]
_Master = Annotated[str, typer.Option(help="Any Spark master: local[*], spark://HOST:7077, yarn, k8s://…")]
_Class = Annotated[
    str,
    typer.Option(
        "--class", metavar="NAME", help="Which queries it is for; `trusted` runs Python code of users."
    ),
]
_Name = Annotated[
    str | None, typer.Option(metavar="NODE", help="Its name in the fleet. Default: that of the machine.")
]
_Bind = Annotated[str, typer.Option(metavar="ADDRESS", help="Where the gateway reaches the engine.")]
_Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]
_Certificate = Annotated[Path | None, typer.Option(metavar="FILE", help="PEM: what it shows to the gateway.")]
_Key = Annotated[Path | None, typer.Option(metavar="FILE", help="PEM: the certificate's key.")]
_Authority = Annotated[Path | None, typer.Option(metavar="FILE", help="PEM: whose certificates it believes.")]
_Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Heap, such as 2g. Default: 8g, at most half the machine.")
]
_Cores = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Queries at once. Default: the cores of this machine.")
]
_Properties = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Spark properties of the cluster. Mode 0600.")
]
_DrainS = Annotated[
    float, typer.Option(min=0, max=3600, help="How long running queries may go on after SIGTERM.")
]


def engine(
    gateway: _Gateway,
    data_dir: _DataDir,
    token_file: _TokenFile,
    master: _Master = "local[*]",
    engine_class: _Class = "general",
    name: _Name = None,
    bind: _Bind = "127.0.0.1",
    port: _Port = 0,
    certificate: _Certificate = None,
    key: _Key = None,
    authority: _Authority = None,
    memory: _Memory = None,
    cores: _Cores = None,
    properties: _Properties = None,
    drain_s: _DrainS = 25.0,
) -> None:
    """Start an engine and bring it to a gateway. Prints `ready node=NAME engine=HOST:PORT` when it is used.

    An engine that ends is started again. SIGINT and SIGTERM let running queries end, then stop it; a second
    one does not wait. Without certificates both ends must be on this machine. Logs go to stderr.
    """
    with reported():
        from bailiwick.errors import CannotStartError
        from bailiwick.keeper.config import GatewayUrl, KeeperConfig, default_name, read_properties

        try:
            config = KeeperConfig(
                gateway=GatewayUrl.parse(gateway),
                engine=_engine_config(master, memory),
                data_directory=data_dir,
                token_file=token_file,
                name=default_name() if name is None else NodeId(name),
                engine_class=engine_class,
                bind=bind,
                port=port,
                files=_files(certificate, key, authority),
                cores=cores,
                more=read_properties(properties) if properties else {},
                drain_s=drain_s,
            )
            _keep(config)
        except CannotStartError as error:
            raise UsageProblem(str(error)) from error


def _engine_config(master: str, memory: str | None) -> "EngineConfig":
    from pydantic import ValidationError

    from bailiwick.engines.config import EngineConfig

    try:
        return EngineConfig(master=master, memory=memory)
    except ValidationError:
        raise UsageProblem("--memory: a number and m or g, such as 2g; at least 450m") from None


def _files(certificate: Path | None, key: Path | None, authority: Path | None) -> "KeeperFiles | None":
    from bailiwick.keeper.config import KeeperFiles

    if certificate is not None and key is not None and authority is not None:
        return KeeperFiles(certificate, key, authority)
    if certificate is None and key is None and authority is None:
        return None
    raise UsageProblem("--certificate, --key and --authority are given together or not at all")


def _keep(config: "KeeperConfig") -> None:
    from bailiwick.cli.grpc_noise import silence_grpc

    config.check()
    silence_grpc()
    import uvloop

    from bailiwick.keeper.serving import keep

    try:
        uvloop.run(keep(config, _announce))
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise UsageProblem(f"cannot use {config.data_directory}: {error.strerror}") from error


def _announce(line: str) -> None:
    # At once, also into a pipe: whoever started us waits for this line.
    print(line, flush=True)  # noqa: T201
