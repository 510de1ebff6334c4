"""Schemas as JSON: walking them, checking them, giving them fresh ids.

Everything here is pure and never changes what it is given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bailiwick.catalog import types
from bailiwick.catalog.wire import Json

DEPTH_MAX = 50
FIELDS_MAX = 10_000
FIELD_ID_MAX = 2_147_483_447
"""Ids above are Iceberg's own, for columns such as `_file`."""
NAME_LENGTH_MAX = 1024


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a part of a nested one."""

    id: int
    path: str
    """Dotted, with `element`, `key` and `value` for what has no name."""
    type: Any
    required: bool
    parent: int | None
    default: Any = None
    write_default: Any = None

    @property
    def is_primitive(self) -> bool:
        return isinstance(self.type, str) and self.type != types.VARIANT


def fields_of(schema: Json) -> dict[int, Field]:
    """Every field by its id. Raises ValueError if the schema is not one."""
    fields: dict[int, Field] = {}
    paths: set[str] = set()
    for field in _walk_struct(schema, "", None, 0):
        if field.id in fields:
            raise ValueError(f"field id {field.id} is used twice")
        if field.path in paths:
            raise ValueError(f"column {field.path[:100]!r} is there twice")
        if len(fields) >= FIELDS_MAX:
            raise ValueError(f"a schema has at most {FIELDS_MAX} fields")
        fields[field.id] = field
        paths.add(field.path)
    return fields


def check(schema: Json) -> dict[int, Field]:
    """All that a reader relies on. Raises ValueError; gives the fields by id."""
    if schema.get("type") != "struct":
        raise ValueError("a schema is of type struct")
    fields = fields_of(schema)
    identifiers = schema.get("identifier-field-ids", [])
    if not isinstance(identifiers, list):
        raise ValueError("identifier-field-ids must be a list")
    for identifier in identifiers:
        _check_identifier(fields, identifier)
    return fields


def check_format(schema: Json, format_version: int) -> None:
    """Raises ValueError if the schema needs a later table format."""
    for field in fields_of(schema).values():
        if isinstance(field.type, str) and types.format_version_of(field.type) > format_version:
            raise ValueError(f"type {field.type} needs format version 3, the table has {format_version}")
        if field.default is not None and format_version < 3:
            raise ValueError(f"default values need format version 3, the table has {format_version}")


def highest_id(schema: Json) -> int:
    """0 for a schema without fields."""
    return max(fields_of(schema), default=0)


def same(one: Json, other: Json) -> bool:
    """Whether the two differ in their schema id at most."""
    return one["fields"] == other["fields"] and _identifiers(one) == _identifiers(other)


@dataclass(frozen=True, slots=True)
class Fresh:
    schema: Json
    ids: Mapping[int, int]
    """New field ids by the ones that the client had made up."""
    last_id: int


def fresh(schema: Json) -> Fresh:
    """The schema numbered from 1, breadth first, as Iceberg's own catalogs do it."""
    numbering = _Numbering({})
    renumbered = {**schema, "schema-id": 0, "fields": numbering.fields(schema["fields"])}
    if "identifier-field-ids" in schema:
        renumbered["identifier-field-ids"] = [numbering.ids[old] for old in schema["identifier-field-ids"]]
    return Fresh(renumbered, numbering.ids, len(numbering.ids))


@dataclass(slots=True)
class _Numbering:
    ids: dict[int, int]

    def next(self, old: int) -> int:
        self.ids[old] = len(self.ids) + 1
        return self.ids[old]

    def fields(self, fields: list[Json]) -> list[Json]:
        # All the fields of a struct get their numbers before anything inside of them does.
        new_ids = [self.next(field["id"]) for field in fields]
        return [
            {**field, "id": new_id, "type": self.type(field["type"])}
            for field, new_id in zip(fields, new_ids, strict=True)
        ]

    def type(self, type_: Any) -> Any:
        if isinstance(type_, str):
            return type_
        match type_["type"]:
            case "struct":
                return {**type_, "fields": self.fields(type_["fields"])}
            case "list":
                element_id = self.next(type_["element-id"])
                return {**type_, "element-id": element_id, "element": self.type(type_["element"])}
            case _:
                key_id, value_id = self.next(type_["key-id"]), self.next(type_["value-id"])
                key, value = self.type(type_["key"]), self.type(type_["value"])
                return {**type_, "key-id": key_id, "value-id": value_id, "key": key, "value": value}


def _walk_struct(struct: Json, path: str, parent: int | None, depth: int) -> Iterator[Field]:
    if depth > DEPTH_MAX:
        raise ValueError(f"a schema is nested at most {DEPTH_MAX} deep")
    fields = struct.get("fields")
    if not isinstance(fields, list):
        raise ValueError("a struct needs a list of fields")
    for field in fields:
        if not isinstance(field, dict):
            raise ValueError("a field must be an object")
        name = field.get("name")
        if not isinstance(name, str) or not name or len(name) > NAME_LENGTH_MAX:
            raise ValueError(f"a field needs a name of 1 to {NAME_LENGTH_MAX} characters")
        if not isinstance(field.get("doc"), str | None):
            raise ValueError(f"the doc of {name[:100]!r} must be a text")
        defaults = field.get("initial-default"), field.get("write-default")
        yield from _walk(
            (field.get("id"), field.get("required"), field.get("type")),
            f"{path}{name}",
            parent,
            depth,
            defaults,
        )


def _walk(
    what: tuple[Any, Any, Any],
    path: str,
    parent: int | None,
    depth: int,
    defaults: tuple[Any, Any] = (None, None),
) -> Iterator[Field]:
    field_id, required, type_ = what
    if not is_id(field_id):
        raise ValueError(f"the id of {path[:100]!r} must be a whole number")
    if not isinstance(required, bool):
        raise ValueError(f"{path[:100]!r} must say whether it is required")
    yield Field(field_id, path, type_, required, parent, *defaults)
    if isinstance(type_, str):
        _check_primitive(type_, path, required, defaults)
        return
    if any(default not in (None, {}) for default in defaults):
        raise ValueError(f"{path[:100]!r} is nested and can have no default")
    yield from _walk_nested(type_, path, field_id, depth + 1)


def _walk_nested(type_: Any, path: str, parent: int, depth: int) -> Iterator[Field]:
    match type_:
        case {"type": "struct"}:
            yield from _walk_struct(type_, f"{path}.", parent, depth)
        case {"type": "list", "element-id": id_, "element": element, "element-required": required}:
            _check_depth(depth)
            yield from _walk((id_, required, element), f"{path}.element", parent, depth)
        case {
            "type": "map",
            "key-id": key_id,
            "key": key,
            "value-id": id_,
            "value": value,
            "value-required": required,
        }:
            _check_depth(depth)
            yield from _walk((key_id, True, key), f"{path}.key", parent, depth)
            yield from _walk((id_, required, value), f"{path}.value", parent, depth)
        case _:
            raise ValueError(f"{path[:100]!r} has no type that Iceberg knows")


def _check_depth(depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueError(f"a schema is nested at most {DEPTH_MAX} deep")


def _check_primitive(type_: str, path: str, required: bool, defaults: tuple[Any, Any]) -> None:
    kind = types.kind_of(type_)
    if kind == types.UNKNOWN and required:
        raise ValueError(f"{path[:100]!r} is of type unknown and cannot be required")
    for default in defaults:
        types.check_default(type_, default)


def is_id(value: Any) -> bool:
    """Whether `value` can be a field's id."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= FIELD_ID_MAX


def _check_identifier(fields: Mapping[int, Field], identifier: Any) -> None:
    field = fields.get(identifier) if is_id(identifier) else None
    if field is None:
        raise ValueError("an identifier field does not exist")
    if not field.is_primitive or not field.required or field.type in ("float", "double"):
        raise ValueError(f"{field.path[:100]!r} cannot be an identifier field")
    parent = field.parent
    while parent is not None:
        above = fields[parent]
        if not above.required or not isinstance(above.type, dict) or above.type["type"] != "struct":
            raise ValueError(f"{field.path[:100]!r} cannot be an identifier field")
        parent = above.parent


def _identifiers(schema: Json) -> frozenset[int]:
    return frozenset(schema.get("identifier-field-ids") or ())
