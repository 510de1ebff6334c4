"""Values of ours that a client carries and gives back: tickets, handles of prepared statements.

A seal proves that we made the value, for this purpose, and that its time is not over. It hides nothing: what
is inside can be read by whoever holds it. It does not say who may use it: the door puts the principal's name
inside and compares.
"""

import hashlib
import hmac
import math
import struct

from bailiwick.errors import BailiwickError, Code

_VERSION = b"\x01"
_EXPIRY = struct.Struct(">d")
_MAC_BYTES = hashlib.sha256().digest_size
_BODY_AT = len(_VERSION) + _EXPIRY.size
PURPOSE_BYTES_MAX = 255


class Seal:
    """HMAC-SHA256 under one key. A value sealed for one purpose does not open for another."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _MAC_BYTES:
            raise ValueError(f"a sealing key has at least {_MAC_BYTES} bytes")
        self._key = key

    def seal(self, purpose: str, payload: bytes, *, expires_at: float) -> bytes:
        """`payload` with its end and a proof. `purpose` is a noun that a client may read: `ticket`."""
        if not math.isfinite(expires_at):
            raise ValueError("a seal ends at some moment")
        body = _VERSION + _EXPIRY.pack(expires_at) + payload
        return body + self._mac(purpose, body)

    def open(self, purpose: str, sealed: bytes, now: float) -> bytes:
        """The payload, if the seal is whole and `now` is before its end; else INVALID_ARGUMENTS."""
        body, mac = sealed[:-_MAC_BYTES], sealed[-_MAC_BYTES:]
        if not hmac.compare_digest(self._mac(purpose, body), mac) or len(body) < _BODY_AT:
            raise BailiwickError(
                Code.INVALID_ARGUMENTS,
                f"This {purpose} was not issued by this gateway, or it has been altered.",
                details={"reason": "forged"},
            )
        (expires_at,) = _EXPIRY.unpack_from(body, len(_VERSION))
        if now >= expires_at:
            raise BailiwickError(
                Code.INVALID_ARGUMENTS,
                f"This {purpose} has expired. Run the statement again to get a new one.",
                details={"reason": "expired"},
            )
        return body[_BODY_AT:]

    def _mac(self, purpose: str, body: bytes) -> bytes:
        label = purpose.encode()
        if not 0 < len(label) <= PURPOSE_BYTES_MAX:
            raise ValueError(f"a purpose has 1 to {PURPOSE_BYTES_MAX} bytes")
        # The label's length comes first, so that no label and body read like another label and body.
        digest = hmac.new(self._key, bytes((len(label),)) + label, hashlib.sha256)
        digest.update(body)
        return digest.digest()
