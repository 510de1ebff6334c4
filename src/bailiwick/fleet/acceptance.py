"""Whether an engine may join at all: an address one can reach, a version one understands.

Pure, and without any look at the network: a name that resolves to nothing is found out by the first probe.
"""

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bailiwick.fleet.report import Report

_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}\.?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})(?:[.+_-].*)?", re.DOTALL)
_SCOPE: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")

_IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Versions:
    """Of Bailiwick and of Spark."""

    bailiwick: str
    spark: str


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    """A name in lower case, or an IP address as it is written shortest."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def ip(self) -> _IpAddress | None:
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_loopback(self) -> bool:
        ip = self.ip
        return self.host == "localhost" or (ip is not None and _unmapped(ip).is_loopback)


@lru_cache(maxsize=1024)
def address_of(text: str) -> Address:
    """`host:port` or `[ip]:port`, so written that two ways to say the same are equal. Raises ValueError.

    >>> str(address_of("[FE80:0::1%eth0]:7000")), str(address_of("Engine-1.:7000"))
    ('[fe80::1%eth0]:7000', 'engine-1:7000')
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or len(port) > 5 or int(port) > 65_535:
        raise ValueError("has no port from 1 to 65535")
    if int(port) == 0:
        raise ValueError("has port 0, at which nobody listens")
    return Address(_host(host), int(port))


def reason_to_refuse(report: Report, ours: Versions, peer_is_loopback: bool = True) -> str | None:
    """Why this engine cannot be one of ours, as the end of a sentence; None if it can."""
    return (
        _wrong_version("Bailiwick", report.version, ours.bailiwick)
        or _wrong_version("Spark", report.spark_version, ours.spark)
        or unroutable(report.address, peer_is_loopback)
    )


def unroutable(address: str, peer_is_loopback: bool = True) -> str | None:
    """Why nobody could connect to that; None if one might.

    A loopback address is good only for a keeper on this machine, one whose own call came over loopback.
    """
    try:
        parsed = address_of(address)
    except ValueError as error:
        return f"its address {error}; give the keeper an address that the gateway can reach"
    if parsed.is_loopback and not peer_is_loopback:
        return "its address is loopback, but it is on another machine; give the keeper a routable address"
    flaw = None if parsed.ip is None else _flaw(parsed.ip)
    return flaw and f"its address is {flaw}; give the keeper an address that the gateway can reach"


def _flaw(ip: _IpAddress) -> str | None:
    scope = getattr(ip, "scope_id", None)
    ip = _unmapped(ip)
    if ip.is_unspecified:
        return "unspecified"
    if ip.is_multicast:
        return "multicast"
    if ip.is_link_local and scope is None:
        return "link-local without a scope"
    if ip.version == 4 and (ip.is_reserved or int(ip) >> 24 == 0):
        return "reserved"
    return None


def _unmapped(ip: _IpAddress) -> _IpAddress:
    """An IPv4 address in the clothes of an IPv6 one is judged by what it is."""
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip


def _host(text: str) -> str:
    if text.startswith("[") and text.endswith("]"):
        ip_text, percent, scope = text[1:-1].partition("%")
        if percent and _SCOPE.fullmatch(scope) is None:
            raise ValueError("has a scope that is none")
        return _ip(ip_text.lower() + percent + scope, ipaddress.IPv6Address)
    name = text.lower().removesuffix(".")
    # `0`, `0x0` and `127.1` are host names by their letters, and addresses to a resolver.
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _ip(name, ipaddress.IPv4Address)
    if len(name) > 253 or _HOST_NAME.fullmatch(name) is None:
        raise ValueError("has a host that is neither a name nor an IP address (IPv6 goes in brackets)")
    return name


def _ip(text: str, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]) -> str:
    try:
        return str(kind(text))
    except ValueError:
        raise ValueError("has an IP address that is none") from None


def _wrong_version(what: str, theirs: str, ours: str) -> str | None:
    """Patch releases go together; another major or minor one may mean other things by the same words."""
    if _line(theirs) is not None and _line(theirs) == _line(ours):
        return None
    wanted = _line(ours)
    line = f"{wanted[0]}.{wanted[1]}.x" if wanted else ours
    return f"it runs {what} {theirs}, and this gateway works with {line} only; upgrade the older of the two"


def _line(version: str) -> tuple[int, int] | None:
    match = _VERSION.fullmatch(version)
    return match and (int(match[1]), int(match[2]))
