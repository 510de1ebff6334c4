"""Certificate files that cannot be served are refused at start, with a sentence that says which and why."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from bailiwick.config import ConfigError, load
from bailiwick.doors.certificates import UnusableCertificateError, read_certificates
from bailiwick.doors.config import TlsConfig
from bailiwick.doors.listening import plaintext_problem
from bailiwick.testing.certificates import DAY, Authority, Issued, replace


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def config(issued: Issued, **settings: object) -> TlsConfig:
    return TlsConfig.model_validate(
        {"certificate_file": issued.certificate, "key_file": issued.key, **settings}
    )


def refusal(issued: Issued, **settings: object) -> str:
    with pytest.raises(UnusableCertificateError) as caught:
        read_certificates(config(issued, **settings))
    return str(caught.value)


def test_files_that_fit_together_are_taken(authority: Authority) -> None:
    issued = authority.issue()
    found = read_certificates(config(issued, client_ca_file=authority.file, client_certificates="required"))
    assert found.certificate_pem == issued.certificate.read_bytes()
    assert found.client_ca_pem == authority.file.read_bytes()
    assert "PRIVATE" not in repr(found)


def test_a_missing_file_is_named(authority: Authority) -> None:
    issued = authority.issue()
    issued.key.unlink()
    assert refusal(issued) == f"tls.key_file: {issued.key}: No such file or directory"
    (issued.key).mkdir()
    assert "Is a directory" in refusal(issued)


def test_what_is_no_regular_file_is_refused_without_waiting(authority: Authority) -> None:
    issued = authority.issue()
    issued.certificate.unlink()
    os.mkfifo(issued.certificate, 0o600)
    assert "is not a regular file" in refusal(issued)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o602])
def test_a_key_that_others_may_read_or_change_is_refused(authority: Authority, mode: int) -> None:
    issued = authority.issue()
    issued.key.chmod(mode)
    assert f"has mode {mode:04o}" in refusal(issued)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_key_of_ours_or_of_our_group_is_taken(authority: Authority, mode: int) -> None:
    issued = authority.issue()
    issued.key.chmod(mode)
    assert read_certificates(config(issued)).key_pem


def test_a_key_that_does_not_fit_is_refused(authority: Authority) -> None:
    issued, other = authority.issue(), authority.issue("other")
    assert "does not fit" in refusal(Issued(issued.certificate, other.key))


def test_expired_and_future_certificates_say_so(authority: Authority) -> None:
    now = datetime.now(UTC)
    assert "expired on" in refusal(authority.issue(ends=now - DAY))
    assert "valid only from" in refusal(authority.issue(begins=now + DAY, ends=now + 2 * DAY))


def test_what_is_no_pem_is_refused(authority: Authority) -> None:
    issued = authority.issue()
    assert "holds no PEM certificates" in refusal(Issued(issued.key, issued.key))
    assert "holds no PEM private key" in refusal(
        Issued(issued.certificate, _private_copy(issued.certificate))
    )
    assert "client_ca_file" in refusal(issued, client_ca_file=issued.key, client_certificates="required")
    replace(issued.certificate, b"x" * ((1 << 20) + 1))
    assert "larger than" in refusal(issued)


def test_a_key_with_a_passphrase_is_refused(authority: Authority) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    issued = authority.issue(key=key)
    protected = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    replace(issued.key, protected)
    assert "passphrase" in refusal(issued)


def test_keys_that_clients_do_not_take_are_refused(authority: Authority) -> None:
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505
    for key in (weak, ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP521R1())):
        assert "must be RSA with 2048 bits or more, or EC on P-256 or P-384" in refusal(
            authority.issue(key=key)
        )


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"certificate_file": "c"}, "given together"),
        ({"key_file": "k"}, "given together"),
        ({"certificate_file": "c", "key_file": "k", "client_ca_file": "a"}, 'say "optional" or "required"'),
        ({"certificate_file": "c", "key_file": "k", "client_certificates": "required"}, "whose certificates"),
        ({"client_ca_file": "a", "client_certificates": "required"}, "client certificates need TLS"),
        ({"client_certificates": "maybe"}, "'off', 'optional' or 'required'"),
    ],
)
def test_settings_that_contradict_one_another_are_refused(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(None, {}, {"tls": settings})


def test_settings_come_from_the_environment() -> None:
    variables = {"BAILIWICK__TLS__CERTIFICATE_FILE": "/c.pem", "BAILIWICK__TLS__KEY_FILE": "/k.pem"}
    assert load(None, variables).tls == TlsConfig(certificate_file=Path("/c.pem"), key_file=Path("/k.pem"))


def test_plaintext_is_for_loopback_or_for_those_who_say_so() -> None:
    outside = ("127.0.0.1", "10.0.0.1", "gateway.example")
    told = plaintext_problem(outside, is_encrypted=False, is_allowed=False)
    assert told is not None
    assert told.startswith("10.0.0.1, gateway.example would be served without encryption")
    assert plaintext_problem(outside, is_encrypted=True, is_allowed=False) is None
    assert plaintext_problem(outside, is_encrypted=False, is_allowed=True) is None
    assert plaintext_problem(("127.0.0.1", "::1", "localhost"), is_encrypted=False, is_allowed=False) is None


def test_with_tls_others_than_this_machine_are_served() -> None:
    outside = {"server": {"bind": ("10.0.0.1",)}}
    with pytest.raises(ConfigError, match="without encryption"):
        load(None, {}, outside)
    tls = {"certificate_file": "c", "key_file": "k"}
    assert load(None, {}, {**outside, "tls": tls}).server.bind == ("10.0.0.1",)


def _private_copy(file: Path) -> Path:
    copy = file.with_name("copy")
    replace(copy, file.read_bytes())
    return copy
