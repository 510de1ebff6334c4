"""What a client was told when its query failed: our code and our advice, out of a driver's error."""

from dataclasses import dataclass

from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.errors import Code

CONNECTION_LOST = "CONNECTION_LOST"
"""Not a code of ours: the driver's own word, when the gateway went away before it could say one."""

_CODES = frozenset(code.value for code in Code)


@dataclass(frozen=True, slots=True)
class Told:
    code: str
    """One of `errors.Code`, or CONNECTION_LOST."""
    message: str
    may_retry: bool = False
    """Whether the client was told that the same statement may be sent again."""

    @classmethod
    def by(cls, error: Exception) -> "Told":
        """An error of ADBC, or one of Arrow's, which come when a result breaks while it is read."""
        given = error.details if isinstance(error, AdbcError) else ()
        details = {_text(name): _text(value) for name, value in given or ()}
        code = details.get("bailiwick-error-code", "")
        if code not in _CODES:
            code = _code_in(str(error))
        return cls(code, str(error), details.get("bailiwick-retryable") == "true")


def _code_in(message: str) -> str:
    """The first of our codes that stands in the message as a word, with a colon behind it."""
    words = message.replace("]", " ").split()
    return next((word[:-1] for word in words if word.endswith(":") and word[:-1] in _CODES), CONNECTION_LOST)


def _text(detail: str | bytes) -> str:
    return detail if isinstance(detail, str) else detail.decode(errors="replace")
