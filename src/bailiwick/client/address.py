"""Where the gateway is: host and port, or a URL such as `grpc+tls://gateway.example:50051`."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from bailiwick.client.errors import Unreachable

DEFAULT_PORT = 50051
SCHEMES = {"grpc": False, "grpc+tcp": False, "flight": False, "grpc+tls": True, "grpcs": True}
"""Whether each means TLS."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int = DEFAULT_PORT
    is_encrypted: bool = False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(url: str) -> Address:
    """`grpc://host:port`, `grpc+tls://host:port` and their like; nothing else belongs in it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Unreachable(f"not an address: {url!r}") from error
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise Unreachable(f"not an address: {url!r}; it looks like grpc://localhost:{DEFAULT_PORT}")
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
        raise Unreachable("an address has a host and a port only: credentials have settings of their own")
    return Address(parts.hostname, DEFAULT_PORT if port is None else port, SCHEMES[parts.scheme])
