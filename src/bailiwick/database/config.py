"""What one may set about the database: where it is, and how old what a gateway remembers of it may be."""

import ipaddress
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

_SCHEMES = ("postgresql://", "postgres://")
_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})
_VERIFIED = frozenset({"verify-ca", "verify-full"})


class DatabaseConfig(BaseModel):
    """Without a URL it is SQLite in the data directory, for one gateway. With one, several may share it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: SecretStr | None = Field(
        default=None,
        description="`postgresql://user:password@host:5432/name?sslmode=verify-full`, as libpq reads it. "
        "Default: SQLite in the data directory.",
    )
    stale_max_s: float = Field(
        default=3.0,
        ge=0,
        le=60,
        description="With PostgreSQL: how long a gateway may go without hearing whether others changed "
        "something before it asks, and refuses if it gets no answer. 0 asks before every query.",
    )

    @property
    def is_shared(self) -> bool:
        """Whether other gateways may work on the same database."""
        return self.url is not None

    @property
    def is_verified(self) -> bool:
        """Whether nobody on the way can pose as the database. Only this machine's own need no certificate."""
        parameters = self.parameters()
        return _is_local(parameters) or parameters.get("sslmode") in _VERIFIED

    def parameters(self) -> dict[str, str]:
        """What libpq makes of the URL; nothing without one. Holds the password."""
        if self.url is None:
            return {}
        # Whoever keeps to SQLite need not wait for this to be imported.
        from psycopg import conninfo

        given = conninfo.conninfo_to_dict(self.url.get_secret_value())
        return {key: str(value) for key, value in given.items()}

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        if self.url is not None and not self.url.get_secret_value().startswith(_SCHEMES):
            raise ValueError("database.url begins with postgresql://; leave it out for SQLite")
        try:
            parameters = self.parameters()
        except Exception:
            # The cause repeats parts of the URL, and the password may be among them.
            raise ValueError("database.url is not a URL that libpq understands") from None
        if not _is_local(parameters) and parameters.get("sslmode") not in _ENCRYPTED:
            raise ValueError(
                "database.url would send passwords and policies over the network unencrypted: "
                "add ?sslmode=verify-full (or verify-ca, require)"
            )
        return self


def _is_local(parameters: Mapping[str, str]) -> bool:
    """Whether only this machine is asked: SQLite, a Unix socket, or a loopback address."""
    hosts = (parameters.get("hostaddr") or parameters.get("host") or "").split(",")
    return all(_is_this_machine(host.strip()) for host in hosts)


def _is_this_machine(host: str) -> bool:
    if not host or host.startswith("/") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
