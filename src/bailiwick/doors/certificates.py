"""The certificate files as they are now: read, checked, and refused with a sentence if they are no use.

Everything here blocks on the disk. It serves nobody: see `tls.py`.
"""

import os
import ssl
import stat
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from bailiwick.doors.config import TlsConfig
from bailiwick.errors import CannotStartError

FILE_BYTES_MAX: Final = 1 << 20
RSA_BITS_MIN: Final = 2048
_CURVES: Final = ("secp256r1", "secp384r1")
_PRIVATE: Final = stat.S_IRWXO | stat.S_IWGRP


class UnusableCertificateError(CannotStartError):
    """TLS cannot be served with these files. The message names the setting, the file and the way out."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the files held at one moment, found to fit together."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    client_ca_pem: bytes | None
    context: ssl.SSLContext
    """For the HTTP port. gRPC has a TLS of its own and takes the texts."""
    expires_at: datetime
    seen: tuple[tuple[int, ...], ...]
    """The files' identities, to notice when they change."""


def read_certificates(config: TlsConfig, *, now: datetime | None = None) -> Certificates:
    """Read and check. Raises UnusableCertificateError, also when a file changed while it was being read."""
    certificate_file, key_file = _given(config.certificate_file), _given(config.key_file)
    seen = identities(config)
    certificate_pem = _read("certificate_file", certificate_file)
    key_pem = _read("key_file", key_file, is_private=True)
    client_ca_pem = _read("client_ca_file", config.client_ca_file) if config.client_ca_file else None
    leaf = _certificates("certificate_file", certificate_file, certificate_pem)[0]
    _check_dates(certificate_file, leaf, now or datetime.now(UTC))
    _check_key(certificate_file, key_file, leaf, key_pem)
    if client_ca_pem is not None and config.client_ca_file is not None:
        _certificates("client_ca_file", config.client_ca_file, client_ca_pem)
    context = _context(config, certificate_file, key_file, client_ca_pem)
    if identities(config) != seen:
        raise UnusableCertificateError("tls: the files changed while they were being read")
    return Certificates(certificate_pem, key_pem, client_ca_pem, context, leaf.not_valid_after_utc, seen)


def identities(config: TlsConfig) -> tuple[tuple[int, ...], ...]:
    """What tells one content of the files from another without reading them; a missing file is ()."""
    files = (config.certificate_file, config.key_file, config.client_ca_file)
    return tuple(_identity(file) for file in files if file is not None)


def _identity(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _given(file: Path | None) -> Path:
    if file is None:
        raise UnusableCertificateError("tls: certificate_file and key_file must be given")
    return file


def _read(setting: str, file: Path, *, is_private: bool = False) -> bytes:
    try:
        # A pipe in place of a file must not keep us waiting for its other end.
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as stream:
            status = os.fstat(stream.fileno())
            content = stream.read(FILE_BYTES_MAX + 1) if stat.S_ISREG(status.st_mode) else None
    except OSError as error:
        raise UnusableCertificateError(f"tls.{setting}: {file}: {error.strerror}") from error
    if content is None:
        raise UnusableCertificateError(f"tls.{setting}: {file} is not a regular file")
    if is_private and status.st_mode & _PRIVATE:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise UnusableCertificateError(
            f"tls.{setting}: {file} has mode {mode}; others must have no access: chmod 0600 (or 0640)"
        )
    if len(content) > FILE_BYTES_MAX:
        raise UnusableCertificateError(f"tls.{setting}: {file} is larger than {FILE_BYTES_MAX} bytes")
    return content


def _certificates(setting: str, file: Path, content: bytes) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(content)
        found[0].public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnusableCertificateError(f"tls.{setting}: {file} holds no PEM certificates") from error
    return found


def _check_dates(file: Path, leaf: x509.Certificate, now: datetime) -> None:
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if ends <= now:
        raise UnusableCertificateError(
            f"tls.certificate_file: {file} expired on {ends:%Y-%m-%d %H:%M} UTC: renew it"
        )
    if begins > now:
        raise UnusableCertificateError(
            f"tls.certificate_file: {file} is valid only from {begins:%Y-%m-%d %H:%M} UTC: check the clock"
        )


def _check_key(certificate_file: Path, key_file: Path, leaf: x509.Certificate, key_pem: bytes) -> None:
    try:
        key = load_pem_private_key(key_pem, password=None)
    except TypeError as error:
        raise UnusableCertificateError(
            f"tls.key_file: {key_file} is protected by a passphrase: give the key without one, mode 0600"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnusableCertificateError(f"tls.key_file: {key_file} holds no PEM private key") from error
    if not _is_taken_everywhere(key):
        raise UnusableCertificateError(
            f"tls.key_file: {key_file} must be RSA with {RSA_BITS_MIN} bits or more, or EC on P-256 or P-384"
        )
    if _public(key.public_key()) != _public(leaf.public_key()):
        raise UnusableCertificateError(
            f"tls.key_file: {key_file} does not fit the first certificate in {certificate_file}"
        )


def _is_taken_everywhere(key: object) -> bool:
    """Other keys are refused by one of our two TLS libraries or by clients, in words nobody understands."""
    match key:
        case rsa.RSAPrivateKey():
            return key.key_size >= RSA_BITS_MIN
        case ec.EllipticCurvePrivateKey():
            return key.curve.name in _CURVES
    return False


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _context(
    config: TlsConfig, certificate_file: Path, key_file: Path, client_ca_pem: bytes | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate_file, key_file)
        if client_ca_pem is not None:
            context.load_verify_locations(cadata=client_ca_pem.decode("ascii", errors="ignore"))
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or error.strerror
        raise UnusableCertificateError(f"tls: {certificate_file} cannot be used: {reason}") from error
    context.verify_mode = {
        "off": ssl.CERT_NONE,
        "optional": ssl.CERT_OPTIONAL,
        "required": ssl.CERT_REQUIRED,
    }[config.client_certificates]
    return context
