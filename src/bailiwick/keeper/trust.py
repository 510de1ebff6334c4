"""Whose certificates an engine's Java believes: what this machine believes, and the house's own authority.

Java has one list for everything it calls, the catalog and object stores alike, so the authority is added to
the usual ones and does not take their place. Certificates are public: the store needs no password.
"""

import ssl
import warnings
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore

from bailiwick.errors import CannotStartError


def write_trust_store(authority: Path, target: Path) -> Path:
    """Make `target` a Java trust store with the authorities in `authority` (PEM). Raises CannotStartError."""
    try:
        own = x509.load_pem_x509_certificates(authority.read_bytes())
    except OSError as error:
        raise CannotStartError(f"--authority: {authority}: {error.strerror}") from error
    except ValueError as error:
        raise CannotStartError(f"--authority: {authority} holds no PEM certificates") from error
    named = [
        PKCS12Certificate(certificate, f"{kind}-{number}".encode())
        for kind, certificates in (("house", own), ("usual", _usual()))
        for number, certificate in enumerate(certificates)
    ]
    beside = target.with_name(f"{target.name}.new")
    beside.write_bytes(serialize_java_truststore(named, NoEncryption()))
    beside.chmod(0o600)
    return beside.replace(target)


def _usual() -> list[x509.Certificate]:
    with warnings.catch_warnings():
        # Some authorities that everybody believes have certificates that are not quite as they should be.
        warnings.simplefilter("ignore")
        known = ssl.create_default_context().get_ca_certs(binary_form=True)
        return [x509.load_der_x509_certificate(der) for der in known]
