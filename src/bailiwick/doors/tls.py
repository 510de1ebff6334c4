"""TLS for both ports, from files that may be renewed while we serve.

`Tls` keeps the certificates that new connections get. It looks at the files now and then; content that holds
replaces what was there, content that does not is told in the log and changes nothing. Connections that stand
go on with what they began with.

A client certificate is verified and then forgotten: who asks is what the sign-in says.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc

from bailiwick.doors.certificates import Certificates, UnusableCertificateError, identities, read_certificates
from bailiwick.doors.config import TlsConfig
from bailiwick.telemetry import logs

_log = logs.logger(__name__)


class Tls:
    """The certificates for connections that begin now. Open it with `Tls.open`."""

    def __init__(self, config: TlsConfig, certificates: Certificates) -> None:
        self._config = config
        self._certificates = certificates
        self._seen = certificates.seen

    @classmethod
    @asynccontextmanager
    async def open(cls, config: TlsConfig) -> AsyncIterator["Tls | None"]:
        """None if no certificate is set. Raises UnusableCertificateError if what is set does not hold."""
        if not config.is_on:
            yield None
            return
        tls = cls(config, await asyncio.to_thread(read_certificates, config))
        _log.info("tls_on", expires_at=tls.current.expires_at.isoformat())
        looking = asyncio.create_task(tls._look_for_ever(), name="certificate files")
        try:
            yield tls
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    @property
    def current(self) -> Certificates:
        return self._certificates

    @property
    def requires_client_certificates(self) -> bool:
        return self._config.client_certificates == "required"

    async def look(self) -> bool:
        """Take the files anew if they changed. True: connections that begin now get new certificates."""
        seen = await asyncio.to_thread(identities, self._config)
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            found = await asyncio.to_thread(read_certificates, self._config)
        except UnusableCertificateError as error:
            # Often only the first of two files is there yet: the next look sees the other.
            _log.warning("certificates_unusable", reason=str(error), serving="those from before")
            return False
        self._certificates, self._seen = found, found.seen
        _log.info("certificates_renewed", expires_at=found.expires_at.isoformat())
        return True

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._config.look_every_s)
            await self.look()

    def grpc_credentials(self) -> Any:
        """For `add_secure_port`. gRPC asks for the certificates at the start of each connection."""
        given = self._certificates

        def renewed() -> Any:
            # Called on a thread of gRPC. None: nothing new.
            nonlocal given
            if self._certificates is given:
                return None
            given = self._certificates
            return self._grpc_configuration(given)

        return grpc.dynamic_ssl_server_credentials(
            self._grpc_configuration(given), renewed, self.requires_client_certificates
        )

    def _grpc_configuration(self, certificates: Certificates) -> Any:
        # Without `required`, gRPC asks for no client certificate at all; it must not be given a CA then.
        ca_pem = certificates.client_ca_pem if self.requires_client_certificates else None
        return grpc.ssl_server_certificate_configuration(
            [(certificates.key_pem, certificates.certificate_pem)], ca_pem
        )

    def http_context(self) -> ssl.SSLContext:
        """For an asyncio server; each connection that begins gets the certificates of then."""
        return _CurrentContext(lambda: self._certificates.context)


class _CurrentContext(ssl.SSLContext):
    """Stands in for whatever context is the current one when a connection begins."""

    _current: Callable[[], ssl.SSLContext]

    def __new__(cls, _current: Callable[[], ssl.SSLContext]) -> "_CurrentContext":
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, current: Callable[[], ssl.SSLContext]) -> None:
        self._current = current

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """What asyncio and uvloop call for each connection, and all that they call."""
        return self._current().wrap_bio(*arguments, **options)
