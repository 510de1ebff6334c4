"""One call of the protocol, of somebody we know, and what comes of it.

Values only. Nothing here knows HTTP beyond a status and a body.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bailiwick.catalog import wire
from bailiwick.catalog.backend import Kind
from bailiwick.catalog.commits import Commit, Fence
from bailiwick.catalog.refusals import BadRequestError, NoSuchTableError, NoSuchViewError
from bailiwick.catalog.routes import Target
from bailiwick.catalog.shapes import Shape, matched
from bailiwick.catalog.wire import Json
from bailiwick.identity.principal import Principal
from bailiwick.names import (
    InvalidNameError,
    TableName,
    checked_namespace,
    checked_part,
    checked_table,
    spelled,
)
from bailiwick.policy.access import Access
from bailiwick.policy.model import Privilege
from bailiwick.policy.stamp import StampKey


class Client(StrEnum):
    """How far whoever calls can be relied on to hide what is to be hidden."""

    ENGINE = "engine"
    """An engine of ours, with the guard in it: it gets stamps."""
    RESTRAINED = "restrained"
    """Another engine, which declares that it honours the read restrictions of Iceberg's REST protocol."""
    PLAIN = "plain"
    """Anything else: it gets only what nothing is hidden of."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided about one object on the way to an answer."""

    what: str
    """In full, as one writes it in SQL."""
    privileges: tuple[Privilege, ...]
    """Which were asked for: each of them, or where the reason says so one of them."""
    is_allowed: bool
    because: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """The filters and masks that apply, by kind and name: `row_filter eu_only`."""
    is_visible: bool = True
    """Whether the caller may know that it exists."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    target: Target
    access: Access
    fence: Fence
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    lease: str = ""
    client: Client = Client.ENGINE
    policy_stamp: str = field(default="", repr=False)
    """The sealed stamp of the table whose rules are being resolved, if they are."""
    idempotency_key: str = ""
    stamp_key: StampKey | None = field(default=None, repr=False, compare=False)
    """Of the engine that calls, if it is another than the gateway's own."""
    decided: list[Decided] = field(default_factory=list, compare=False)
    """Grows while the call is answered."""

    @property
    def principal(self) -> Principal:
        return self.access.principal


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    committed: tuple[tuple[TableName, Mapping[str, str]], ...] = ()
    """The snapshots that came to be: of which table, and what their summary says."""


DONE = Answer(204)


def json_answer(value: Any) -> Answer:
    return Answer(200, wire.rendered(value))


def body_of(call: Call, shape: type[Shape]) -> Json:
    """The call's body, if it looks like `shape`. Raises BadRequestError."""
    body = wire.parsed_object(call.body)
    matched(shape, body)
    return body


def object_of(call: Call, kind: Kind) -> TableName:
    """What the path names. A name that nothing can have is one that does not exist."""
    try:
        return checked_table(call.target.namespace, call.target.name)
    except InvalidNameError as error:
        raise missing(kind, spelled((*call.target.namespace, call.target.name))[:200]) from error


def missing(kind: Kind, shown: object) -> NoSuchTableError | NoSuchViewError:
    """What is told of a table or view that is not there, and of one that is not to be seen."""
    if kind is Kind.TABLE:
        return NoSuchTableError(f"Table does not exist: {shown}")
    return NoSuchViewError(f"View does not exist: {shown}")


def checked(check: Callable[[Any], Any], value: Any) -> Any:
    """`check(value)`, with a refusal of the protocol's where it raises InvalidNameError."""
    try:
        return check(value)
    except InvalidNameError as error:
        raise BadRequestError(str(error)) from error


def identified(identifier: Json | None) -> TableName:
    if identifier is None:
        raise BadRequestError("a table change needs the table's identifier")
    return TableName(
        checked(checked_namespace, identifier["namespace"]), checked(checked_part, identifier["name"])
    )


def commit_of(name: TableName, body: Json) -> Commit:
    return Commit(name, body.get("requirements") or [], body["updates"])


def snapshots_of(commits: Sequence[Commit]) -> tuple[tuple[TableName, Mapping[str, str]], ...]:
    """The snapshots that these commits add, with their summaries."""
    return tuple(
        (commit.name, update["snapshot"].get("summary", {}))
        for commit in commits
        for update in commit.updates
        if update["action"] == "add-snapshot"
    )
