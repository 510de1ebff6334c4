"""Where the gateway is and how it is spoken to: the options that every command of a client has.

Options win over the environment. There is no default address: a query never runs anywhere by accident. A
certificate is verified unless an option says by its name that it is not.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from bailiwick.cli.failures import UsageProblem
from bailiwick.cli.grpc_noise import silence_grpc
from bailiwick.client.address import DEFAULT_PORT, Address, parse_url
from bailiwick.client.encryption import Encryption
from bailiwick.doors.listening import is_loopback

_UNVERIFIED = (
    "warning: the gateway's certificate is not verified (--insecure-skip-verify): anyone could be answering"
)


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The options as they were given; each field is one of them."""

    host: Annotated[str | None, typer.Option(help="Where the gateway is. Also by BAILIWICK_URL.")] = None
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help=f"Its gRPC port; {DEFAULT_PORT} if only --host is given."),
    ] = None
    tls: Annotated[
        bool | None,
        typer.Option(
            "--tls/--no-tls", help="Default: as the URL's scheme says; with --host, except on loopback."
        ),
    ] = None
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM: whom to trust. Also by BAILIWICK_CA.")
    ] = None
    client_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PEM: your certificate. Also by BAILIWICK_CLIENT_CERT."),
    ] = None
    client_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM: its key. Also by BAILIWICK_CLIENT_KEY.")
    ] = None
    insecure_skip_verify: Annotated[
        bool, typer.Option("--insecure-skip-verify", help="Believe any certificate. For trying out only.")
    ] = False


@dataclass(frozen=True, slots=True)
class FoundGateway:
    address: Address
    encryption: Encryption | None


def takes_gateway(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command that takes `gateway: GatewayOptions` have all of them as options of its own."""
    hints = get_type_hints(GatewayOptions, include_extras=True)
    given = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
        for each in fields(GatewayOptions)
    ]

    @wraps(command)
    def with_options(**values: Any) -> None:
        options = GatewayOptions(**{each.name: values.pop(each.name) for each in given})
        command(gateway=options, **values)

    own_hints = get_type_hints(command, include_extras=True)
    own = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own_hints[each.name])
        for each in inspect.signature(command).parameters.values()
        if each.name != "gateway"
    ]
    signature = inspect.Signature([*own, *given])
    with_options.__signature__ = signature  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return with_options


def find_gateway(options: GatewayOptions, environment: Mapping[str, str] = os.environ) -> FoundGateway:
    """The gateway that was meant, one way or the other. Says so on stderr if it is not verified."""
    silence_grpc()
    files = (options.ca, options.client_cert, options.client_key)
    asks_for_tls = options.insecure_skip_verify or any(file is not None for file in files)
    if options.tls is False and asks_for_tls:
        raise UsageProblem("--no-tls contradicts the other options about TLS")
    address = find_address(options.host, options.port, environment, tls=True if asks_for_tls else options.tls)
    if not address.is_encrypted:
        return FoundGateway(address, None)
    if options.insecure_skip_verify:
        typer.echo(_UNVERIFIED, err=True)
    encryption = Encryption(
        options.ca or _file("BAILIWICK_CA", environment),
        options.client_cert or _file("BAILIWICK_CLIENT_CERT", environment),
        options.client_key or _file("BAILIWICK_CLIENT_KEY", environment),
        is_verified=not options.insecure_skip_verify,
    )
    return FoundGateway(address, encryption)


def find_address(
    host: str | None,
    port: int | None,
    environment: Mapping[str, str] = os.environ,
    *,
    tls: bool | None = None,
) -> Address:
    """The address that was given. With TLS if so said, by `tls` or by the URL, or if it is not loopback."""
    if host is not None or port is not None:
        host = host or "localhost"
        return Address(host, port or DEFAULT_PORT, not is_loopback(host) if tls is None else tls)
    if url := environment.get("BAILIWICK_URL"):
        found = parse_url(url)
        return Address(found.host, found.port, found.is_encrypted if tls is None else tls)
    raise UsageProblem(
        f"where is the gateway? Give --host and --port, or BAILIWICK_URL=grpc://HOST:{DEFAULT_PORT}"
    )


def _file(variable: str, environment: Mapping[str, str]) -> Path | None:
    return Path(environment[variable]) if environment.get(variable) else None
