"""View metadata from one version to the next, on plain JSON. Pure, as `metadata` is for tables."""

from collections.abc import Sequence

from bailiwick.catalog import requirements as requirement_checks
from bailiwick.catalog import schemas
from bailiwick.catalog.refusals import BadRequestError
from bailiwick.catalog.updates import LAST_ADDED
from bailiwick.catalog.wire import Json

_HISTORY_LENGTH = 10
_HISTORY_PROPERTY = "version.history.num-entries"
_MAY_DROP_DIALECT = "replace.drop-dialect.allowed"


def create(request: Json, *, uuid: str, location: str, now_ms: int) -> Json:
    """Metadata of the view that a `requests.CreateView` describes."""
    metadata: Json = {
        "view-uuid": uuid,
        "format-version": 1,
        "location": location,
        "schemas": [{**request["schema"], "schema-id": 0}],
        "current-version-id": 1,
        "versions": [{**request["view-version"], "version-id": 1, "schema-id": 0}],
        "version-log": [{"timestamp-ms": now_ms, "version-id": 1}],
        "properties": dict(request.get("properties") or {}),
    }
    return metadata


def commit(base: Json, requirements: Sequence[Json], updates: Sequence[Json], *, now_ms: int) -> Json | None:
    """The next version of `base`; None if the updates change nothing."""
    requirement_checks.check(base, requirements)
    draft = _ViewDraft(base, now_ms)
    for update in updates:
        draft.apply(update)
    new = draft.finished()
    return None if new == base else new


class _ViewDraft:
    def __init__(self, base: Json, now_ms: int) -> None:
        self._base = base
        self._now_ms = now_ms
        self._metadata = base | {key: list(base[key]) for key in ("schemas", "versions", "version-log")}
        self._metadata["properties"] = dict(base.get("properties", {}))
        self._last_schema_id: int | None = None
        self._last_version_id: int | None = None
        self._kept_at_least = 1

    def apply(self, update: Json) -> None:
        match update["action"]:
            case "assign-uuid":
                self._unchanged("view-uuid", update["uuid"].lower())
            case "set-location":
                self._unchanged("location", update["location"].rstrip("/"))
            case "upgrade-format-version":
                self._unchanged("format-version", update["format-version"])
            case "set-properties":
                self._metadata["properties"].update(update["updates"])
            case "remove-properties":
                for key in update["removals"]:
                    self._metadata["properties"].pop(key, None)
            case "add-schema":
                self._add_schema(update["schema"])
            case "add-view-version":
                self._add_version(update["view-version"])
            case "set-current-view-version":
                self._set_current(update["view-version-id"])
            case kind:
                raise BadRequestError(f"unknown update {kind[:60]!r}")

    def finished(self) -> Json:
        self._check_dialects()
        text = self._metadata["properties"].get(_HISTORY_PROPERTY, str(_HISTORY_LENGTH))
        length = max(int(text) if text.isdecimal() else _HISTORY_LENGTH, self._kept_at_least)
        newest_first = sorted(self._metadata["versions"], key=lambda version: -int(version["version-id"]))
        current = self._metadata["current-version-id"]
        others = [version for version in newest_first if version["version-id"] != current]
        kept = {current} | {version["version-id"] for version in others[: length - 1]}
        self._metadata["versions"] = [
            item for item in self._metadata["versions"] if item["version-id"] in kept
        ]
        log: list[Json] = []
        for entry in self._metadata["version-log"]:
            if entry["version-id"] in kept:
                log.append(entry)
            else:
                log.clear()
        self._metadata["version-log"] = log
        return self._metadata

    def _unchanged(self, key: str, value: object) -> None:
        if value != self._metadata[key]:
            raise BadRequestError(f"a view keeps its {key}")

    def _add_schema(self, schema: Json) -> None:
        for known in self._metadata["schemas"]:
            if schemas.same(known, schema):
                self._last_schema_id = known["schema-id"]
                return
        self._last_schema_id = max(known["schema-id"] for known in self._metadata["schemas"]) + 1
        self._metadata["schemas"].append({**schema, "schema-id": self._last_schema_id})

    def _add_version(self, version: Json) -> None:
        schema_id = version["schema-id"]
        if schema_id == LAST_ADDED:
            schema_id = self._last_schema_id
        if all(schema["schema-id"] != schema_id for schema in self._metadata["schemas"]):
            raise BadRequestError("the schema of a view version does not exist")
        ids = [known["version-id"] for known in self._metadata["versions"]]
        self._last_version_id = max(ids) + 1
        self._kept_at_least += 1
        self._metadata["versions"].append(
            {**version, "version-id": self._last_version_id, "schema-id": schema_id}
        )

    def _set_current(self, version_id: int) -> None:
        wanted = self._last_version_id if version_id == LAST_ADDED else version_id
        if all(version["version-id"] != wanted for version in self._metadata["versions"]):
            raise BadRequestError("the view version does not exist")
        if wanted == self._metadata["current-version-id"]:
            return
        self._metadata["current-version-id"] = wanted
        self._metadata["version-log"].append({"timestamp-ms": self._now_ms, "version-id": wanted})

    def _check_dialects(self) -> None:
        """A view does not lose a dialect by being replaced, unless its owner said that it may."""
        if self._metadata["properties"].get(_MAY_DROP_DIALECT, "false").lower() == "true":
            return
        if not _dialects(self._base) <= _dialects(self._metadata):
            raise BadRequestError(
                f"the new version drops a dialect of the view ({_MAY_DROP_DIALECT} is false)"
            )


def _dialects(metadata: Json) -> set[str]:
    current = metadata["current-version-id"]
    return {
        representation["dialect"].lower()
        for version in metadata["versions"]
        if version["version-id"] == current
        for representation in version["representations"]
    }
