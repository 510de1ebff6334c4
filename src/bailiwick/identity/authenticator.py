"""How a caller proves who it is, as the doors see it, and the two ports behind it.

Doors know `Authenticator` only. A new kind of token is another `BearerCheck` in the chain; a directory server
is another `PasswordCheck`; what a door can tell about the other side of a connection is a field of `Peer`.
"""

import ipaddress
import urllib.parse
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum, auto

from bailiwick.identity.principal import Principal


class FailureKind(StrEnum):
    """What was wrong, for the counter. Never told to the caller."""

    PASSWORD = auto()
    SIGNED_TOKEN = auto()
    STATIC_TOKEN = auto()
    UNKNOWN_TOKEN = auto()
    EXPIRED = auto()
    TURNED_AWAY = auto()
    ON_BEHALF_OF = auto()


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side of a connection, as far as the network tells."""

    address: str = ""

    @classmethod
    def parse(cls, text: str) -> "Peer":
        """From gRPC's form (`ipv4:192.0.2.1:5000`, `ipv6:%5B::1%5D:5000`) or a bare address. Never fails."""
        host = urllib.parse.unquote(text.removeprefix("ipv4:").removeprefix("ipv6:"))
        if host.startswith("["):
            host = host[1:].partition("]")[0]
        elif host.count(":") == 1:
            host = host.partition(":")[0]
        return cls(host[:64])

    @property
    def network(self) -> str:
        """What one attacker holds: an IPv4 address, or the /64 an IPv6 host takes its addresses from."""
        try:
            address = ipaddress.ip_address(self.address.partition("%")[0])
        except ValueError:
            return self.address
        if isinstance(address, ipaddress.IPv6Address) and not address.is_loopback:
            if address.ipv4_mapped is not None:
                return str(address.ipv4_mapped)
            return str(ipaddress.ip_network((address, 64), strict=False))
        return str(address)


NOBODY = Peer()


class Authenticator(ABC):
    """Turns credentials into a principal, or refuses. A refusal never tells whether the user exists."""

    @abstractmethod
    async def authenticate_basic(self, name: str, password: str, *, peer: Peer = NOBODY) -> Principal:
        """The user `name`, if `password` is theirs. Wrong: AUTHENTICATION_FAILED, and slowly."""

    @abstractmethod
    async def authenticate_bearer(self, token: str, *, peer: Peer = NOBODY) -> Principal:
        """Whom `token` speaks for, with the roles of now. SESSION_EXPIRED: it was good once."""

    @abstractmethod
    def act_for(self, actor: Principal, subject_name: str) -> Principal:
        """The subject, with `actor`, who was authenticated for this call, acting for them.

        ACCESS_DENIED where no rule allows it, in the same words as for a subject that does not exist.
        """

    @abstractmethod
    def issue(self, principal: Principal) -> str:
        """A short-lived token for one who has just proved who they are. Never for one who is acted for."""


class PasswordCheck(ABC):
    @abstractmethod
    async def verify(self, name: str, password: str) -> Principal | None:
        """The user, or None for whatever reason. Takes as long for a user that does not exist."""


class RejectedToken(Exception):  # noqa: N818 - it is an answer, not a failure
    """A token is refused. `proven`: we did issue it, nothing was guessed, nothing needs to be slow."""

    def __init__(self, kind: FailureKind, *, proven: bool = False) -> None:
        super().__init__(kind)
        self.kind = kind
        self.proven = proven


class BearerCheck(ABC):
    @abstractmethod
    def recognises(self, token: str) -> bool:
        """Whether `token` has the look of this kind. Cheap, no judgement; the first to say yes decides."""

    @abstractmethod
    async def verify(self, token: str) -> Principal:
        """Whom the token speaks for, or `RejectedToken`."""
