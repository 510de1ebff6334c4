"""Iceberg's manifests: which files a snapshot consists of, as the engine wrote it down.

Read from metadata files, never from data files. What is read here is a writer's own account and is believed
only as far as readers will act on it: `effects` compares two of them.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from bailiwick.catalog import avro
from bailiwick.catalog.avro import AvroError, Wanted
from bailiwick.catalog.refusals import BadRequestError

MANIFESTS_MAX = 50_000
FILES_MAX = 2_000_000
"""Of the manifests that one commit touches."""

_OF_ENTRIES: Wanted = {"status": None, "data_file": {"content": None, "file_path": None}}
_NAMES_OF_VERSION_1 = {
    "added_data_files_count": "added_files_count",
    "existing_data_files_count": "existing_files_count",
    "deleted_data_files_count": "deleted_files_count",
}


class Content(IntEnum):
    """Of a manifest: what its files are."""

    DATA = 0
    DELETES = 1


class Status(IntEnum):
    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class Manifest:
    """One line of a manifest list."""

    path: str
    content: Content
    sequence_number: int
    first_row_id: int | None
    rest: Hashable = ()
    """Whatever else readers go by, such as bounds that let them pass over the manifest."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One line of a manifest."""

    status: Status
    path: str
    is_delete_file: bool
    rest: Hashable = ()
    """Whatever else readers go by, if it was asked for."""


def manifest_list(data: bytes) -> tuple[Manifest, ...]:
    """The manifests of a snapshot. Raises BadRequestError."""
    found: dict[str, Manifest] = {}
    for record in _records(data, None):
        manifest = _manifest(record)
        if len(found) >= MANIFESTS_MAX:
            raise BadRequestError(f"a snapshot has at most {MANIFESTS_MAX} manifests: rewrite them first")
        if manifest.path in found:
            raise BadRequestError("a manifest is in the list twice")
        found[manifest.path] = manifest
    return tuple(found.values())


def entries(manifest: Manifest, data: bytes, *, whole: bool) -> Iterator[FileEntry]:
    """The files of the manifest that `data` is, with all that is said of them if `whole`.

    Raises BadRequestError, also halfway.
    """
    for record in _records(data, None if whole else _OF_ENTRIES):
        yield _entry(manifest, record, whole)


def _manifest(record: dict[str, Any]) -> Manifest:
    try:
        known = {_NAMES_OF_VERSION_1.get(name, name): value for name, value in record.items()}
        return Manifest(
            path=_text(known.pop("manifest_path")),
            # Format version 1 knows neither deletes nor sequence numbers.
            content=Content(_number(known.pop("content", 0))),
            sequence_number=_number(known.pop("sequence_number", 0)),
            first_row_id=known.pop("first_row_id", None),
            rest=_frozen({"min_sequence_number": 0, **known}),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequestError("a manifest list is not one that readers understand") from error


def _entry(manifest: Manifest, record: dict[str, Any], whole: bool) -> FileEntry:
    try:
        file, status = record["data_file"], Status(record["status"])
        content = _number(file.get("content", 0))
        if content not in (0, 1, 2) or (content == 0) != (manifest.content is Content.DATA):
            raise ValueError("content")
        rest: Hashable = ()
        if whole:
            rest = (
                _sequence_number(manifest, status, record),
                _frozen({**file, "content": content, "first_row_id": None}),
            )
        return FileEntry(status, _text(file["file_path"]), content != 0, rest)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRequestError("a manifest is not one that readers understand") from error


def _sequence_number(manifest: Manifest, status: Status, record: dict[str, Any]) -> int | None:
    """What was added has the number of its manifest, until that is rewritten. Version 1 has only zeros."""
    number = record.get("sequence_number")
    is_inherited = number is None and (status is Status.ADDED or manifest.sequence_number == 0)
    return manifest.sequence_number if is_inherited else number


def _frozen(value: Any) -> Hashable:
    """Equal for whatever is the same to a reader: maps in any order, and absent like null."""
    if isinstance(value, dict):
        return tuple(sorted((key, _frozen(item)) for key, item in value.items() if item is not None))
    if isinstance(value, list):
        items = [_frozen(item) for item in value]
        is_map = all(isinstance(item, dict) and item.keys() == {"key", "value"} for item in value)
        return frozenset(items) if is_map else tuple(items)
    return value if isinstance(value, Hashable) else repr(value)


def _records(data: bytes, wanted: Wanted | None) -> Iterator[dict[str, Any]]:
    try:
        yield from avro.records(data, wanted)
    except AvroError as error:
        raise BadRequestError(f"a manifest cannot be read: {error}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("a number")
    return value
