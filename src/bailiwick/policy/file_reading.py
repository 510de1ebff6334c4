"""A policy file, read: TOML into values, strictly.

What is not known is refused and named with its line, as is what is said twice. Nothing is bound yet: whether
tables, columns and roles exist is found out where the file is applied.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from bailiwick.errors import BailiwickError, Code
from bailiwick.names import InvalidNameError
from bailiwick.policy.draft import granted
from bailiwick.policy.model import (
    BoundColumn,
    ColumnTags,
    Grant,
    Grantee,
    GranteeKind,
    Impersonation,
    Mask,
    Policies,
    Privilege,
    Role,
    RowFilter,
    Scope,
    Securable,
)

Named = TypeVar("Named")

FILE_CHARS_MAX = 1 << 20
ENTRIES_MAX = 50_000

_HEADER = re.compile(r"\s*\[\[\s*([A-Za-z_]+)\s*\]\]")
_PRIVILEGES = {privilege.value: privilege for privilege in Privilege}
_KINDS = {
    "catalog": Scope.CATALOG,
    "namespace": Scope.NAMESPACE,
    "table": Scope.TABLE,
    "view": Scope.TABLE,
}


def read(text: str) -> Policies:
    """What the file says, bound to nothing. Raises a refusal that says where."""
    document = _document(text)
    unknown = sorted(document.keys() - _SECTIONS.keys())
    if unknown:
        raise _refusal(f"There is no '{unknown[0][:100]}' in a policy file, but {_listed(_SECTIONS)}.")
    found: dict[str, tuple[Any, ...]] = {}
    for name, section in _SECTIONS.items():
        made = (section.make(entry) for entry in _entries(name, section, document.get(name, []), text))
        found[section.plural] = _said_once(section.plural, chain.from_iterable(made))
    return Policies(0, **found)


class _Entry:
    """One table of the file. A key that is not `known` is refused: it may be a filter's, misspelt."""

    def __init__(self, where: str, keys: dict[str, Any], known: frozenset[str]) -> None:
        self._where = where
        self._keys = keys
        unknown = sorted(keys.keys() - known)
        if unknown:
            raise self.refusal(f"there is no key '{unknown[0][:100]}' here, but {_listed(sorted(known))}")

    def has(self, key: str) -> bool:
        return key in self._keys

    def text(self, key: str) -> str:
        value = self.optional_text(key)
        if value is None:
            raise self.refusal(f"'{key}' is missing")
        return value

    def optional_text(self, key: str) -> str | None:
        value = self._keys.get(key, None)
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise self.refusal(f"'{key}' must be a text")
        return value

    def texts(self, key: str, *, is_required: bool = True) -> tuple[str, ...]:
        """A list of texts; one may stand without a list."""
        value = self._keys.get(key, None if is_required else [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
            raise self.refusal(f"'{key}' must be a list of texts")
        if is_required and not values:
            raise self.refusal(f"'{key}' must name at least one")
        return tuple(values)

    def optional_number(self, key: str) -> int | None:
        value = self._keys.get(key, None)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise self.refusal(f"'{key}' must be a whole number")
        return value

    def grantees(self, key: str, *, is_required: bool = True) -> frozenset[Grantee]:
        texts = self.texts(key, is_required=is_required)
        return frozenset(self.named(key, _grantee, text) for text in texts)

    def table(self) -> Securable:
        on = self.named("on", Securable.parse, self.text("on"))
        if on.scope is not Scope.TABLE:
            raise self.refusal(f"'on' must be a table in full, like lake.sales.orders, not {on}")
        return on

    def named(self, key: str, make: Callable[[str], Named], text: str) -> Named:
        try:
            return make(text)
        except InvalidNameError as error:
            raise self.refusal(f"'{key}': {error}") from None

    def refusal(self, problem: str) -> BailiwickError:
        return _refusal(f"{self._where}: {problem}.")


def _roles(entry: _Entry) -> Iterator[Role]:
    name = entry.text("name").lower()
    yield Role(name, entry.grantees("members", is_required=False))


def _grants(entry: _Entry) -> Iterator[Grant]:
    to, on = entry.grantees("to"), _securable(entry)
    for word in entry.texts("privileges"):
        privilege = _PRIVILEGES.get(word.lower())
        if privilege is None:
            raise entry.refusal(f"there is no privilege '{word[:100]}', but {_listed(_PRIVILEGES)}")
        yield from (granted(each, on, privilege) for each in to)


def _securable(entry: _Entry) -> Securable:
    text, kind = entry.text("on"), entry.optional_text("kind")
    if kind is not None and kind not in _KINDS:
        raise entry.refusal(f"there is no kind '{kind[:100]}', but {_listed(_KINDS)}")
    on = entry.named("on", partial(Securable.parse, is_namespace=kind == "namespace"), text)
    if kind is not None and on.scope is not _KINDS[kind]:
        raise entry.refusal(f"{on} is not a {kind}: it means {on.scope}")
    return on


def _filters(entry: _Entry) -> Iterator[RowFilter]:
    name, on = entry.text("name"), entry.table()
    applies_to, exempt = entry.grantees("for"), entry.grantees("except", is_required=False)
    yield RowFilter(name, on, applies_to, exempt, entry.text("using").strip())


def _masks(entry: _Entry) -> Iterator[Mask]:
    name, tag, column = entry.text("name"), entry.optional_text("tag"), entry.optional_text("column")
    if (tag is None) == (column is None) or (tag is None) != entry.has("on"):
        raise entry.refusal("a mask has either 'on' and 'column', or else 'tag'")
    on = entry.table() if tag is None else None
    using, action = entry.optional_text("using"), entry.optional_text("action")
    if (using is None) == (action is None):
        raise entry.refusal("a mask has either 'using' or 'action'")
    yield Mask(
        name,
        on,
        None if column is None else BoundColumn(column),
        tag,
        entry.grantees("for"),
        entry.grantees("except", is_required=False),
        None if using is None else using.strip(),
        action,
        entry.optional_number("priority"),
    )


def _tags(entry: _Entry) -> Iterator[ColumnTags]:
    on, column = entry.table(), entry.text("column")
    yield ColumnTags(on, BoundColumn(column), frozenset(entry.texts("tags")))


def _impersonations(entry: _Entry) -> Iterator[Impersonation]:
    who, as_whom = entry.grantees("who"), entry.grantees("as")
    yield from (Impersonation(each, whom) for each in who for whom in as_whom)


@dataclass(frozen=True, slots=True)
class _Section:
    """What `[[…]]` of one name makes."""

    plural: str
    make: Callable[[_Entry], Iterator[Any]]
    keys: frozenset[str]


_RULE_KEYS = frozenset({"name", "on", "for", "except", "using"})
_SECTIONS = {
    "role": _Section("roles", _roles, frozenset({"name", "members"})),
    "grant": _Section("grants", _grants, frozenset({"to", "on", "kind", "privileges"})),
    "row_filter": _Section("filters", _filters, _RULE_KEYS),
    "mask": _Section("masks", _masks, _RULE_KEYS | {"column", "tag", "action", "priority"}),
    "tag": _Section("tags", _tags, frozenset({"on", "column", "tags"})),
    "impersonation": _Section("impersonations", _impersonations, frozenset({"who", "as"})),
}


def _document(text: str) -> dict[str, Any]:
    if len(text) > FILE_CHARS_MAX:
        raise _refusal(f"A policy file has at most {FILE_CHARS_MAX} characters.")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refusal(f"The policy file is not TOML: {error}.") from None
    except RecursionError:
        raise _refusal("The policy file is nested too deeply.") from None


def _entries(name: str, section: _Section, entries: Any, text: str) -> Iterator[_Entry]:
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise _refusal(f"'{name}' must be written as [[{name}]], once for each.")
    if len(entries) > ENTRIES_MAX:
        raise _refusal(f"A policy file has at most {ENTRIES_MAX} entries [[{name}]].")
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if (header := _HEADER.match(line)) is not None and header[1] == name
    ]
    for number, keys in enumerate(entries):
        # Where the headers are not the entries, as in a text of several lines, a number has to do.
        place = f"line {lines[number]}" if len(lines) == len(entries) else f"number {number + 1}"
        title = keys.get("name")
        called = f" '{title[:100]}'" if isinstance(title, str) else ""
        yield _Entry(f"{name}{called} ({place})", keys, section.keys)


def _grantee(text: str) -> Grantee:
    grantee = Grantee.parse(text)
    # As in SQL: the names of roles are read in any case.
    return Grantee.role(grantee.name.lower()) if grantee.kind is GranteeKind.ROLE else grantee


def _said_once(kind: str, elements: Iterable[Any]) -> tuple[Any, ...]:
    """Saying a grant twice is harmless; two definitions of one thing are not."""
    by_identity: dict[object, Any] = {}
    for element in elements:
        before = by_identity.setdefault(_identity(element), element)
        if before is not element and not isinstance(element, Grant | Impersonation):
            raise _refusal(f"{_named(element)} is defined twice among the {kind}.")
    return tuple(by_identity.values())


def _identity(element: Any) -> object:
    match element:
        case Role(name):
            return name
        case Grant(id=identity):
            return identity
        case RowFilter(name, on):
            return (on.key, name)
        case Mask(name, on):
            return (on and on.key, name)
        case ColumnTags(on, column):
            return (on.key, column.name.lower())
        case _:
            return element


def _named(element: Role | RowFilter | Mask | ColumnTags) -> str:
    if isinstance(element, ColumnTags):
        return f"Column {element.column.name[:100]} of {element.on}"
    return f"'{element.name[:100]}'"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _refusal(message: str) -> BailiwickError:
    details = {"reason": "file", "kind": "policy"}
    return BailiwickError(Code.INVALID_ARGUMENTS, message, details=details)
