"""What must be right on this machine for a gateway to run, each as one finding that says what to do.

Nothing is changed or fetched, and nothing here raises.
"""

import http.client
import os
import shutil
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from bailiwick.config import Config
from bailiwick.doors.certificates import UnusableCertificateError, read_certificates
from bailiwick.doors.config import TlsConfig
from bailiwick.doors.listening import CannotListenError, listen
from bailiwick.engines import jars
from bailiwick.engines.java import find_java
from bailiwick.errors import BailiwickError

DISK_BYTES_LEAST = 1 << 30
DISK_BYTES_COMFORTABLE = 10 << 30
CERTIFICATE_DAYS_COMFORTABLE = 14
_ASK_TIMEOUT_S = 5.0


class Verdict(StrEnum):
    FINE = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    subject: str
    told: str
    advice: str = ""


def examine(config: Config, data_dir: Path | None) -> Iterator[Finding]:
    """All findings, in the order in which one would mend them."""
    yield check_java(config)
    yield check_jars()
    yield check_disk(data_dir or Path.cwd())
    yield check_tls(config.tls)
    answers = asker(config.server.bind[0], config.server.http_port, is_encrypted=config.tls.is_on)
    yield check_port(config, "grpc", config.server.grpc_port, answers)
    yield check_port(config, "http", config.server.http_port, answers)
    yield check_engine(answers)


def check_java(config: Config) -> Finding:
    try:
        java = find_java(config.engine.java_home)
    except BailiwickError as error:
        return Finding(Verdict.WRONG, "java", "no Java that Spark can use", error.message)
    return Finding(Verdict.FINE, "java", f"Java {java.release}")


def check_jars(cache: Path | None = None) -> Finding:
    folder = (jars.cache_directory() if cache is None else cache) / "jars"
    advice = "run `make setup`, or start `bailiwick serve` with a network"
    iceberg = jars.pinned()["iceberg"]
    try:
        shipped = jars.pyspark_jars()
        if not (folder / iceberg.file_name).is_file():
            return Finding(Verdict.WRONG, "jars", f"{iceberg.file_name} is missing", advice)
        jars.check_digest(folder / iceberg.file_name, iceberg.sha256)
    except BailiwickError as error:
        return Finding(Verdict.WRONG, "jars", error.message, advice)
    if not shipped.is_dir():
        return Finding(Verdict.WRONG, "jars", "pyspark has no jars", "install pyspark again")
    if not list(folder.glob("bailiwick-guard-*.jar")):
        return Finding(Verdict.WRONG, "jars", "our own jar has not been compiled", advice)
    return Finding(Verdict.FINE, "jars", f"pyspark's, {iceberg.file_name} and ours")


def check_disk(data_dir: Path) -> Finding:
    place = next(each for each in (data_dir.resolve(), *data_dir.resolve().parents) if each.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding(Verdict.WRONG, "disk", f"{place} cannot be written", "choose another --data-dir")
    free_bytes = shutil.disk_usage(place).free
    told = f"{free_bytes / (1 << 30):.1f} GiB free at {place}"
    advice = "results that wait for their readers, and Spark's own files, need room: free some"
    if free_bytes < DISK_BYTES_LEAST:
        return Finding(Verdict.WRONG, "disk", told, advice)
    if free_bytes < DISK_BYTES_COMFORTABLE:
        return Finding(Verdict.NOTE, "disk", told, advice)
    return Finding(Verdict.FINE, "disk", told)


def check_tls(tls: TlsConfig) -> Finding:
    if not tls.is_on:
        return Finding(Verdict.FINE, "tls", "off; the ports speak plaintext, on loopback only")
    try:
        expires_at = read_certificates(tls).expires_at
    except UnusableCertificateError as error:
        return Finding(Verdict.WRONG, "tls", str(error), "the gateway does not start like that")
    days = (expires_at - datetime.now(UTC)).days
    if days < CERTIFICATE_DAYS_COMFORTABLE:
        advice = "replace the files; a running gateway takes new ones without a restart"
        return Finding(Verdict.NOTE, "tls", f"the certificate expires in {days} days", advice)
    return Finding(Verdict.FINE, "tls", f"the certificate is good for {days} days")


Ask = Callable[[str], int | None]
"""The HTTP status that a path answers with, None if nobody of ours answers."""


def asker(host: str, port: int, *, is_encrypted: bool = False) -> Ask:
    def ask(path: str) -> int | None:
        connection = _connection(host, port, is_encrypted)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    return ask if port else lambda _path: None


def _connection(host: str, port: int, is_encrypted: bool) -> http.client.HTTPConnection:
    if not is_encrypted:
        return http.client.HTTPConnection(host, port, timeout=_ASK_TIMEOUT_S)
    # Whether somebody answers is asked, on this machine; who it is does not matter.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=_ASK_TIMEOUT_S, context=context)


def check_port(config: Config, name: str, port: int, ask: Ask) -> Finding:
    subject = f"{name} port"
    if port == 0:
        return Finding(Verdict.FINE, subject, "any free one")
    try:
        for bound in listen(config.server.bind, port):
            bound.close()
    except CannotListenError as error:
        if ask("/healthz") == http.client.OK:
            return Finding(Verdict.FINE, subject, f"{port}, taken by the gateway that is running")
        advice = f"choose another with --{name}-port, or stop what uses it"
        return Finding(Verdict.WRONG, subject, str(error), advice)
    return Finding(Verdict.FINE, subject, f"{port} is free")


def check_engine(ask: Ask) -> Finding:
    match ask("/readyz"):
        case http.client.OK:
            return Finding(Verdict.FINE, "engine", "the running gateway's engine answers")
        case http.client.SERVICE_UNAVAILABLE:
            advice = "it may be starting; if not, see log/engine.log in the data directory"
            return Finding(Verdict.WRONG, "engine", "the running gateway's engine does not answer", advice)
    return Finding(
        Verdict.NOTE, "engine", "no gateway is running here", "start one: bailiwick serve --data-dir DIR"
    )
