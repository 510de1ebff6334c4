"""What the catalog knows now: pointers and metadata in memory, and the one place where they change.

Reads take the contents of the moment and wait for nobody. Changes go through `writing`, one at a time: first
to the backend, and when they are safe there, to memory. What others change in a backend that is shared comes
to memory by `catch_up`; before a change it is asked for.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bailiwick.catalog import wire
from bailiwick.catalog.backend import CatalogBackend, Change, ConcurrentChangeError, Entry
from bailiwick.catalog.contents import Contents
from bailiwick.catalog.files import MetadataFiles
from bailiwick.catalog.refusals import CommitFailedError, DamagedMetadataError, UnavailableError
from bailiwick.database.revisions import UNKNOWN
from bailiwick.telemetry.logs import logger

Witness = Callable[[Sequence[Change]], Sequence[Change]]
"""Is told what is about to change, right before it does, and gives what is to be written along with it."""


class MetadataCache:
    """Serialised metadata by its location, the least recently used dropped first. Any thread may call."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lock = threading.Lock()
        self._data: OrderedDict[str, bytes] = OrderedDict()

    def get(self, location: str) -> bytes | None:
        with self._lock:
            data = self._data.get(location)
            if data is not None:
                self._data.move_to_end(location)
            return data

    def put(self, location: str, data: bytes) -> None:
        with self._lock:
            self._forget(location)
            self._data[location] = data
            self._bytes += len(data)
            # The newest stays, however large: it is about to be asked for.
            while self._bytes > self._bytes_max and len(self._data) > 1:
                self._forget(next(iter(self._data)))

    def forget(self, location: str) -> None:
        with self._lock:
            self._forget(location)

    def _forget(self, location: str) -> None:
        self._bytes -= len(self._data.pop(location, b""))


class CatalogState:
    def __init__(self, backend: CatalogBackend, files: MetadataFiles, *, cache_bytes_max: int) -> None:
        self._backend = backend
        self._files = files
        self._cache = MetadataCache(cache_bytes_max)
        self._lock = threading.Lock()
        stored = backend.load()
        self._contents = Contents.of(stored, version=1)
        self._revision = stored.revision
        self._log = logger(__name__)

    @property
    def contents(self) -> Contents:
        """The catalog of this moment. Ask once and use that for everything that belongs together."""
        return self._contents

    @property
    def revision(self) -> int:
        """Up to which change of the backend the contents are known to be complete."""
        return self._revision

    @contextmanager
    def writing(self) -> Iterator[Contents]:
        """The critical section of changes; the contents stay as they are while one is in it."""
        with self._lock:
            if self._backend.is_shared or self._revision == UNKNOWN:
                self._catch_up()
            yield self._contents

    def catch_up(self) -> None:
        """Take in what others have changed. Blocks."""
        with self._lock:
            self._catch_up()

    def apply(self, changes: Sequence[Change], witness: Witness | None = None) -> None:
        """Make all `changes` and what the witness adds to them, inside `writing` only.

        Raises CommitFailedError, then none was made.
        """
        if witness is not None:
            changes = [*changes, *witness(changes)]
        try:
            revision = self._backend.apply(changes)
        except ConcurrentChangeError as error:
            self._reload_if_it_can()
            raise CommitFailedError(
                "the catalog was changed by somebody else: look again and retry"
            ) from error
        except UnavailableError:
            raise
        except Exception:
            # It may or may not have been done: what is true is in the backend, not in memory.
            self._reload_if_it_can()
            raise
        self._take_in(changes, revision)

    def metadata_nowait(self, entry: Entry) -> bytes | None:
        """The metadata's JSON if it is in memory."""
        return self._cache.get(entry.metadata_location)

    def metadata(self, entry: Entry) -> bytes:
        """The metadata's JSON, from memory or else from its file. Raises DamagedMetadataError."""
        data = self._cache.get(entry.metadata_location)
        if data is None:
            data = self._read(entry.metadata_location)
            self._cache.put(entry.metadata_location, data)
        return data

    def remember(self, location: str, data: bytes) -> None:
        """Keep in memory what was just written."""
        self._cache.put(location, data)

    def forget(self, location: str) -> None:
        """This metadata will not be asked for any more."""
        self._cache.forget(location)

    def _read(self, location: str) -> bytes:
        data = self._files.read(location)
        # Not only to see that it is whole: another writer may have set it in many lines.
        try:
            return wire.rendered(wire.parsed_object(data))
        except Exception as error:
            raise DamagedMetadataError("metadata cannot be read", cause_text=repr(error)) from error

    def _take_in(self, changes: Sequence[Change], revision: int) -> None:
        """The changes are made: nothing that goes wrong here may look as if they were not."""
        if revision != self._revision + 1:
            # Others were at it between our look and our change.
            self._reload_if_it_can()
            return
        contents = self._contents
        for change in changes:
            contents = contents.after(change)
        self._contents, self._revision = contents, revision

    def _reload_if_it_can(self) -> None:
        """What became of a change is said by the change itself; memory can be brought up later."""
        self._revision = UNKNOWN
        try:
            self._reload()
        except Exception as error:
            self._log.warning("catalog_not_reloaded", cause=f"{type(error).__name__}: {error}")

    def _catch_up(self) -> None:
        if self._backend.revision() != self._revision:
            self._reload()

    def _reload(self) -> None:
        stored = self._backend.load()
        self._contents = Contents.of(stored, self._contents.version + 1)
        self._revision = stored.revision
