"""Why a database cannot be used: at start, for whoever starts the gateway; or while it runs, for a client."""

from typing import Final

from bailiwick.errors import BailiwickError, CannotStartError, Code

REASON: Final = "database"
GIVEN_UP_ON: Final = "given_up_on"
RETRY_AFTER_S: Final = 2.0


class UnusableDatabaseError(CannotStartError):
    """The database cannot be opened as it is. The message says what to do."""


class NewerDatabaseError(UnusableDatabaseError):
    """A later version has changed the schema; going on could lose what this version does not know."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database has schema version {found}, this version of Bailiwick knows up to {known}: "
            "use the version that wrote it, or a later one"
        )
        self.found = found
        self.known = known


class DirectoryInUseError(UnusableDatabaseError):
    """Another gateway lives in the same data directory."""

    def __init__(self, pid: int | None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"the data directory is in use by {holder}: stop it first, or choose another directory"
        )
        self.pid = pid


def unavailable(cause_text: str) -> BailiwickError:
    """The database does not answer, or not in time. What was under way may have been done or not."""
    return BailiwickError(
        Code.CATALOG_UNAVAILABLE,
        "The gateway's database does not answer for the moment.",
        retry_after_s=RETRY_AFTER_S,
        details={"reason": REASON},
        cause_text=cause_text,
    )


def given_up_on() -> BailiwickError:
    """The other gateways have declared this one lost, and its queries with it."""
    return BailiwickError(
        Code.CATALOG_UNAVAILABLE,
        "This gateway was silent for so long that others took its place. Try again in a moment.",
        retry_after_s=RETRY_AFTER_S,
        details={"reason": GIVEN_UP_ON},
    )
