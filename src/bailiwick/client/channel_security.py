"""TLS as gRPC wants to have it, with the one way not to verify.

gRPC always verifies. To skip it, the certificate is fetched first and then trusted for this one connection;
so whoever answers first is believed, and that is what skipping means.
"""

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from bailiwick.client.address import Address
from bailiwick.client.encryption import Encryption
from bailiwick.client.errors import Unreachable

FILE_BYTES_MAX = 1 << 20
_FETCH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ChannelSecurity:
    """What gRPC wants to have."""

    credentials: Any
    options: tuple[tuple[str, str], ...] = ()


def secure(encryption: Encryption, address: Address) -> ChannelSecurity:
    """Read the files, and fetch the certificate if it is not to be verified. Blocks; raises Unreachable."""
    key = _read(encryption.client_key_file)
    certificate = _read(encryption.client_certificate_file)
    if (key is None) != (certificate is None):
        raise Unreachable("a client certificate and its key are given together or not at all")
    if encryption.is_verified:
        roots = _read(encryption.ca_file or _machine_authorities())
        return ChannelSecurity(grpc.ssl_channel_credentials(roots, key, certificate))
    shown = _fetch(encryption, address)
    pem = ssl.DER_cert_to_PEM_cert(shown).encode()
    name = _name_in(shown)
    options = (("grpc.ssl_target_name_override", name),) if name else ()
    return ChannelSecurity(grpc.ssl_channel_credentials(pem, key, certificate), options)


def _read(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        with file.open("rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unreachable(f"cannot read {file}: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX or b"-----BEGIN" not in content:
        raise Unreachable(f"{file} is not a PEM file")
    return content


def _machine_authorities() -> Path | None:
    """What this machine trusts; None leaves it to the list that gRPC brings along."""
    found = ssl.get_default_verify_paths().cafile
    return Path(found) if found is not None else None


def _fetch(encryption: Encryption, address: Address) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if encryption.client_certificate_file is not None:
        context.load_cert_chain(encryption.client_certificate_file, encryption.client_key_file)
    try:
        with (
            socket.create_connection((address.host, address.port), _FETCH_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
    except ssl.SSLError as error:
        raise Unreachable(f"what answers at {address} does not speak TLS as we do") from error
    except OSError as error:
        raise Unreachable(f"no gateway answers at {address}") from error
    if shown is None:
        raise Unreachable(f"what answers at {address} shows no certificate")
    return shown


def _name_in(certificate: bytes) -> str | None:
    """A name that the certificate is made out to."""
    # Only whoever skips verification needs this library.
    from cryptography import x509

    loaded = x509.load_der_x509_certificate(certificate)
    try:
        names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = loaded.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return str(common[0].value) if common else None
    dns = names.get_values_for_type(x509.DNSName)
    addresses = names.get_values_for_type(x509.IPAddress)
    return dns[0] if dns else next(map(str, addresses), None)
