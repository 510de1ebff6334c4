"""Certificates for tests: an authority of their own, and what it signs. Nothing here is for production."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)
NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    @property
    def certificate_text(self) -> str:
        return self.certificate.read_text()

    @property
    def key_text(self) -> str:
        return self.key.read_text()

    @property
    def serial(self) -> int:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).serial_number


class Authority:
    """A CA in a directory. `file` is what clients trust."""

    def __init__(self, directory: Path, name: str = "Test CA") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.BasicConstraints(ca=True, path_length=0)
        certificate = (
            _builder(self._name, self._name, datetime.now(UTC) + 30 * DAY)
            .public_key(self._key.public_key())
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / "ca.pem"
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(
        self,
        name: str = "server",
        *,
        names: tuple[str, ...] = NAMES,
        begins: datetime | None = None,
        ends: datetime | None = None,
        key: CertificateIssuerPrivateKeyTypes | None = None,
    ) -> Issued:
        """Sign a certificate for a server or a client, in place of an earlier one of that name."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        ends = ends or datetime.now(UTC) + 10 * DAY
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            _builder(subject, self._name, ends, begins)
            .public_key(key.public_key())
            .add_extension(x509.SubjectAlternativeName([_name(each) for each in names]), critical=False)
            .add_extension(purposes, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        issued = Issued(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace(issued.key, encoded)
        replace(issued.certificate, certificate.public_bytes(Encoding.PEM))
        return issued


def replace(file: Path, content: bytes) -> None:
    """In one step, as whoever renews certificates does it, and for the owner alone."""
    beside = file.with_name(f".{file.name}.new")
    beside.write_bytes(content)
    beside.chmod(0o600)
    beside.replace(file)


def _builder(
    subject: x509.Name, issuer: x509.Name, ends: datetime, begins: datetime | None = None
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins or min(datetime.now(UTC), ends) - DAY)
        .not_valid_after(ends)
    )


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
