"""How a client of ours uses TLS: whom it trusts, and what it shows of itself. Carried out elsewhere."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Encryption:
    """TLS with these files. Without `ca_file`, the machine's own list of authorities is trusted."""

    ca_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None
    is_verified: bool = True
