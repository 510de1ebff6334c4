"""Why a data directory cannot be used. Raised at start, for whoever starts it, never for a client."""

from bailiwick.errors import CannotStartError


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
