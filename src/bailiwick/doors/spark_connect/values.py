"""The checks that `verdicts.toml` names: whether a field's value may pass.

Each is given the notebook of the walk, the value, the message that it stands in, and its place for the
refusal. What it learns on the way (names, texts), it notes.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn
from uuid import UUID

from pyspark.sql.connect import proto
from pyspark.util import PythonEvalType

from bailiwick.doors.spark_connect.errors import not_cloned
from bailiwick.doors.spark_connect.findings import Findings, TableRead, ViewMade
from bailiwick.doors.spark_connect.unpacking import too_much
from bailiwick.doors.spark_connect.verdicts import verdicts
from bailiwick.errors import BailiwickError, Code
from bailiwick.results.batches import MalformedStreamError, frames
from bailiwick.telemetry.scrub import bounded

Check = Callable[[Findings, Any, Any, str], None]

SHORT_LENGTH_MAX: Final = 1_000
SHORT_COUNT_MAX: Final = 1_000
TAG_LENGTH_MAX: Final = 200
TAG_COUNT_MAX: Final = 50
PARTITIONS_MAX: Final = 100_000
ROWS_SHOWN_MAX: Final = 100_000
ROWS_AT_THE_END_MAX: Final = 1_000_000
"""Spark gathers those rows in one place before it sends any."""
SCHEMA_LENGTH_MAX: Final = 4 << 20

ROWS_NAME: Final = re.compile(r"cache/([0-9a-f]{64})")
"""What clients call rows that they send ahead of plans: by their digest."""

_OWN_MARK: Final = "__"
_EVAL_TYPES: Final = frozenset(
    number
    for name, number in vars(PythonEvalType).items()
    if name.startswith("SQL_") and "_STATE" not in name
)


def _is_uuid(text: str) -> bool:
    """Spark, too, takes nothing else for sessions and operations."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _invalid(sentence: str, condition: str | None = None) -> BailiwickError:
    details = {"condition": condition} if condition else {}
    return BailiwickError(Code.INVALID_ARGUMENTS, sentence, details=details)


def identifier(_: Findings, value: str, __: Any, where: str) -> None:
    if not _is_uuid(value):
        raise _invalid(f"{where} must be a UUID.", "INVALID_HANDLE.FORMAT")


def new_identifier(_: Findings, value: str, __: Any, ___: str) -> None:
    if not _is_uuid(value):
        raise not_cloned("TARGET_SESSION_ID_FORMAT", bounded(value, 80), "it must be a UUID.")


def short(_: Findings, value: str, __: Any, where: str) -> None:
    if len(value) > SHORT_LENGTH_MAX:
        raise _invalid(f"{where} is longer than {SHORT_LENGTH_MAX} characters.")


def few(_: Findings, values: Any, __: Any, where: str) -> None:
    if len(values) > SHORT_COUNT_MAX:
        raise too_much(f"{where} has more than {SHORT_COUNT_MAX} entries.", "entries_max")


def shorts(found: Findings, values: Any, message: Any, where: str) -> None:
    few(found, values, message, where)
    for value in values:
        short(found, value, message, where)


def tag(_: Findings, value: str, __: Any, where: str) -> None:
    if not value or "," in value or len(value) > TAG_LENGTH_MAX:
        raise _invalid(f"{where}: a tag has 1 to {TAG_LENGTH_MAX} characters, none of them a comma.")


def tags(found: Findings, values: Any, message: Any, where: str) -> None:
    if len(values) > TAG_COUNT_MAX:
        raise too_much(f"An operation has at most {TAG_COUNT_MAX} tags.", "tags_max")
    for value in values:
        tag(found, value, message, where)


def unpacked(_: Findings, __: Any, ___: Any, where: str) -> None:
    """What is compressed is put in its place before the walk, so none is left."""
    raise BailiwickError(Code.PARSE_ERROR, f"{where} stands where none can be.")


def table_read(found: Findings, name: str, message: proto.Read.NamedTable, _: str) -> None:
    if found.relation is not None:
        found.reads.append(TableRead(name, found.relation, has_options=len(message.options) > 0))
    found.say(bounded(name, 200))


def target(found: Findings, name: str, _: Any, __: str) -> None:
    found.targets.append(name)


def view(found: Findings, name: str, message: proto.CreateDataFrameViewCommand, _: str) -> None:
    found.view = ViewMade(name, message.replace)


def sql(found: Findings, text: str, _: Any, __: str) -> None:
    found.sql_texts.append(text)


def statement_text(found: Findings, text: str, message: proto.SqlCommand, where: str) -> None:
    """As clients sent it before 4.0. Beside an input, Spark takes no notice of it."""
    if message.HasField("input"):
        raise _invalid(f"{where} came beside an input: a statement is told once.")
    sql(found, text, message, where)


def statement(_: Findings, relation: proto.Relation, __: Any, where: str) -> None:
    """The first text that is found in it is the statement."""
    outermost = relation.with_relations.root if relation.HasField("with_relations") else relation
    if not outermost.HasField("sql"):
        raise BailiwickError(Code.PARSE_ERROR, f"{where} is not a statement.")
    if not outermost.sql.query:
        # Protobuf does not tell an empty text from none, so no check of the text would ever see it.
        details = {"condition": "PARSE_EMPTY_STATEMENT"}
        raise BailiwickError(
            Code.SYNTAX_ERROR, "Syntax error, unexpected empty statement.", sqlstate="42617", details=details
        )


def expression_text(found: Findings, text: str, _: Any, __: str) -> None:
    found.expression_texts.append(text)


def catalog(found: Findings, call: proto.Catalog, _: Any, where: str) -> None:
    if found.relation_count != 1:
        raise verdicts().refusal(where, "nested_catalog")
    found.catalog = call


def function(_: Findings, name: str, __: Any, where: str) -> None:
    """The guard knows functions by what they turn into; those that are these are refused before that."""
    if name.rpartition(".")[2].strip("`").lower() in verdicts().options.reflection:
        raise verdicts().refusal(where, "reflection", detail=bounded(name, 80))


def code(found: Findings, name: str, _: Any, where: str) -> None:
    short(found, name, None, where)
    found.function = name
    found.say(bounded(name, 80))


def eval_type(_: Findings, number: int, __: Any, where: str) -> None:
    """Which way Python is run. Those of streams keep state, and no table of ours is read as one."""
    if number not in _EVAL_TYPES:
        raise verdicts().refusal(where, "streaming", detail=str(number))


def read_options(_: Findings, options: Mapping[str, str], __: Any, where: str) -> None:
    for key in options:
        if key.lower() not in verdicts().options.read:
            _refuse_option(where, key)


def write_options(_: Findings, options: Mapping[str, str], message: Any, where: str) -> None:
    allowed = verdicts().options
    for key in options if _is_for_tables(message) else ():
        if key.lower() not in allowed.write and not key.lower().startswith(allowed.write_prefixes):
            _refuse_option(where, key)


def table_properties(_: Findings, properties: Mapping[str, str], __: Any, where: str) -> None:
    refused = verdicts().options
    for key in properties:
        lowered = key.lower()
        if lowered in refused.refused_properties or lowered.startswith(refused.refused_property_prefixes):
            _refuse_option(where, key)


def _is_for_tables(write: Any) -> bool:
    """Whether it is a table that is written. Where it is not, the write is refused for that."""
    return not isinstance(write, proto.WriteOperation) or write.HasField("table")


def _refuse_option(where: str, key: str) -> NoReturn:
    raise verdicts().refusal(where, "option", detail=bounded(key, 80))


def provider(_: Findings, name: str, message: Any, where: str) -> None:
    if _is_for_tables(message) and name.lower() not in verdicts().options.formats:
        raise verdicts().refusal(where, "table_format", detail=bounded(name, 80))


def at_most(number: int) -> Check:
    def check(_: Findings, value: int, __: Any, where: str) -> None:
        if value > number:
            raise too_much(f"{where} is at most {number}.", where)

    return check


def arrow(_: Findings, data: bytes, __: Any, where: str) -> None:
    """Rows come as they are: how large compressed ones become, only the engine would find out."""
    try:
        compressed = [frame.is_compressed for frame in frames(data)]
    except MalformedStreamError as error:
        raise BailiwickError(Code.PARSE_ERROR, f"{where} is not an Arrow stream.") from error
    if not compressed:
        raise BailiwickError(Code.PARSE_ERROR, f"{where} is not an Arrow stream: there is nothing in it.")
    if any(compressed):
        raise _invalid(f"{where} is compressed: send rows as they are.")


def digest(found: Findings, value: str, _: Any, where: str) -> None:
    short(found, value, None, where)
    found.digests.append(value)


def digests(found: Findings, values: Any, message: Any, where: str) -> None:
    few(found, values, message, where)
    for value in values:
        digest(found, value, message, where)


def whole_rows(_: Findings, mentioned: proto.CachedLocalRelation, __: Any, where: str) -> None:
    """Without a digest it would be nobody's rows, and reach the engine as it is."""
    if not mentioned.hash:
        raise BailiwickError(Code.PARSE_ERROR, f"{where} names no rows.")


def rows_in_pieces(_: Findings, mentioned: proto.ChunkedCachedLocalRelation, __: Any, where: str) -> None:
    if not mentioned.dataHashes:
        raise BailiwickError(Code.PARSE_ERROR, f"{where} names no rows.")


def rows_name(_: Findings, name: str, __: Any, where: str) -> None:
    """Rows may come ahead of plans; what else comes so is files and code."""
    if ROWS_NAME.fullmatch(name) is None:
        raise verdicts().refusal(where, "artifacts", detail=bounded(name, 80))


def struct_literal(_: Findings, struct: Any, literal: Any, where: str) -> None:
    """Spark takes it for granted that there is a type for each element."""
    typed = literal.data_type if literal.HasField("data_type") else struct.struct_type
    # One inside another literal may leave its type to that.
    is_typed = literal.HasField("data_type") or struct.HasField("struct_type")
    if is_typed and len(typed.struct.fields) != len(struct.elements):
        raise _invalid(f"{where} has {len(struct.elements)} elements and {len(typed.struct.fields)} types.")


def merge_actions(_: Findings, actions: Any, __: Any, where: str) -> None:
    """Spark takes it for granted that they are."""
    if any(not action.HasField("merge_action") for action in actions):
        raise _invalid(f"{where} has an entry that is no action of a merge.")


def schema(_: Findings, text: str, __: Any, where: str) -> None:
    """A type as DDL, which can name nothing but types, or as JSON, which can name classes to be loaded."""
    if len(text) > SCHEMA_LENGTH_MAX:
        raise too_much(f"{where} is too long.", "schema_length_max")
    if text.lstrip("\ufeff \t\r\n\0")[:1] in ("{", "[", '"'):
        _check_json(text, where)


def metadata(_: Findings, text: str, __: Any, where: str) -> None:
    """What a client says about a column. Spark has keys of its own there, and obeys them."""
    if len(text) > SCHEMA_LENGTH_MAX:
        raise too_much(f"{where} is too long.", "schema_length_max")
    _check_json(text, where)


def _check_json(text: str, where: str) -> None:
    marks = verdicts().options

    def look(pairs: list[tuple[str, Any]]) -> None:
        for key, value in pairs:
            if key == "type" and value == "udt":
                raise verdicts().refusal(where, "user_type")
            is_own = key.startswith(_OWN_MARK) and key not in marks.column_marks
            if is_own or key in marks.refused_column_marks:
                raise verdicts().refusal(where, "column_marks", detail=bounded(key, 80))

    try:
        json.loads(text, object_pairs_hook=look)
    except (ValueError, RecursionError) as error:
        raise BailiwickError(Code.PARSE_ERROR, f"{where} is not JSON that can be read.") from error


CHECKS: Final[Mapping[str, Check]] = {
    "identifier": identifier,
    "new_identifier": new_identifier,
    "short": short,
    "shorts": shorts,
    "few": few,
    "tag": tag,
    "tags": tags,
    "unpacked": unpacked,
    "table_read": table_read,
    "target": target,
    "view": view,
    "sql": sql,
    "statement": statement,
    "statement_text": statement_text,
    "expression_text": expression_text,
    "catalog": catalog,
    "function": function,
    "code": code,
    "eval_type": eval_type,
    "read_options": read_options,
    "write_options": write_options,
    "table_properties": table_properties,
    "provider": provider,
    "partitions": at_most(PARTITIONS_MAX),
    "rows_shown": at_most(ROWS_SHOWN_MAX),
    "rows_at_the_end": at_most(ROWS_AT_THE_END_MAX),
    "arrow": arrow,
    "digest": digest,
    "digests": digests,
    "whole_rows": whole_rows,
    "rows_in_pieces": rows_in_pieces,
    "rows_name": rows_name,
    "struct_literal": struct_literal,
    "merge_actions": merge_actions,
    "schema": schema,
    "metadata": metadata,
}
