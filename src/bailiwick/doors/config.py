"""What one may set about how the doors are encrypted."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

ClientCertificates = Literal["off", "optional", "required"]


class TlsConfig(BaseModel):
    """Encryption of both ports. With a certificate there is TLS and nothing else; without one, plaintext."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    certificate_file: Path | None = Field(
        default=None, description="PEM: the certificate of this gateway, then those between it and its CA."
    )
    key_file: Path | None = Field(
        default=None, description="PEM: the certificate's private key, without passphrase, not for others."
    )
    client_ca_file: Path | None = Field(
        default=None, description="PEM: the CAs whose client certificates are accepted."
    )
    client_certificates: ClientCertificates = Field(
        default="off",
        description="Whether clients must show a certificate of `client_ca_file`, besides signing in. "
        "`optional`: the HTTP port verifies one that is shown, the gRPC port asks for none.",
    )
    look_every_s: float = Field(
        default=10.0, ge=0.05, le=3600, description="How often the files are looked at for new content."
    )

    @property
    def is_on(self) -> bool:
        return self.certificate_file is not None

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("tls.certificate_file and tls.key_file are given together or not at all")
        if self.client_certificates != "off" and self.client_ca_file is None:
            raise ValueError("tls.client_certificates needs tls.client_ca_file: whose certificates count?")
        if self.client_ca_file is not None and self.client_certificates == "off":
            raise ValueError(
                'tls.client_ca_file does nothing while tls.client_certificates is "off": '
                'say "optional" or "required"'
            )
        if self.client_ca_file is not None and not self.is_on:
            raise ValueError("client certificates need TLS: give tls.certificate_file and tls.key_file")
        return self
