"""Where traces go: the collector's address, as the settings name it."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_PATH = "/v1/traces"


@dataclass(frozen=True, slots=True)
class Collector:
    """One OTLP/HTTP endpoint."""

    host: str
    port: int
    path: str
    is_encrypted: bool
    ca_file: Path | None = None
    secret_headers: str = field(default="", repr=False)
    """`name=value`, separated by commas."""

    @classmethod
    def at(cls, endpoint: str, *, ca_file: Path | None = None, secret_headers: str = "") -> "Collector":
        """Raises ValueError with a sentence if this is no address of a collector."""
        if not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
            raise ValueError("an endpoint is a URL in plain characters, such as http://127.0.0.1:4318")
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an endpoint is a URL such as http://127.0.0.1:4318 or https://host:4318")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("an endpoint has no user, query or fragment; secrets go into tracing.headers")
        is_encrypted = parts.scheme == "https"
        collector = cls(
            parts.hostname,
            parts.port if parts.port is not None else (443 if is_encrypted else 80),
            parts.path if parts.path not in ("", "/") else DEFAULT_PATH,
            is_encrypted,
            ca_file,
            secret_headers,
        )
        collector.headers()
        return collector

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine, so that nobody can listen in."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def headers(self) -> dict[str, str]:
        """Those that are sent with every batch."""
        headers = {}
        for each in filter(None, (part.strip() for part in self.secret_headers.split(","))):
            name, found, value = each.partition("=")
            name, value = name.strip(), value.strip()
            is_name = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
            if not found or not is_name or not (value.isascii() and value.isprintable()):
                raise ValueError("tracing.headers is a list of name=value, separated by commas")
            headers[name] = value
        return headers
