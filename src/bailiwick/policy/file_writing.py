"""Policies as a file that says the same. What came with creating something is left out: no file takes it
away.
"""

import json
from collections.abc import Iterable, Iterator, Mapping

from bailiwick.policy.model import (
    ColumnTags,
    Grantee,
    Impersonation,
    Mask,
    Policies,
    Role,
    RowFilter,
    Scope,
)

Value = str | int | list[str]


def written(policies: Policies) -> str:
    """A policy file. Reading it and comparing it with `policies` finds no difference."""
    blocks = [f"# The policies at version {policies.version}.", *_blocks(policies)]
    owned = sum(grant.by_creation for grant in policies.grants)
    if owned:
        blocks.append(f"# Not part of this file: {owned} grants of own that came with creating something.")
    return "\n\n".join(blocks) + "\n"


def _blocks(policies: Policies) -> Iterator[str]:
    yield from (_block("role", _role(role)) for role in policies.roles)
    yield from (_block("grant", keys) for keys in _grants(policies))
    yield from (_block("row_filter", _filter(rule)) for rule in policies.filters)
    yield from (_block("mask", _mask(mask)) for mask in policies.masks)
    yield from (_block("tag", _tags(tagged)) for tagged in policies.tags)
    yield from (_block("impersonation", _impersonation(rule)) for rule in policies.impersonations)


def _role(role: Role) -> Mapping[str, Value]:
    return {"name": role.name, "members": _texts(role.members)}


def _grants(policies: Policies) -> Iterator[Mapping[str, Value]]:
    """One block for those who hold the same on the same."""
    held: dict[tuple[str, str], dict[Grantee, set[str]]] = {}
    for grant in policies.grants:
        if not grant.by_creation:
            place = held.setdefault((str(grant.on), _kind(grant.on.scope, grant.on.parts)), {})
            place.setdefault(grant.to, set()).add(grant.privilege.value)
    for (on, kind), grantees in held.items():
        same: dict[tuple[str, ...], list[Grantee]] = {}
        for grantee, privileges in sorted(grantees.items()):
            same.setdefault(tuple(sorted(privileges)), []).append(grantee)
        for shared, to in same.items():
            where: dict[str, Value] = {"on": on, "kind": kind} if kind else {"on": on}
            yield {"to": _texts(to), **where, "privileges": list(shared)}


def _kind(scope: Scope, parts: tuple[str, ...]) -> str:
    """Only where it is not clear: three parts and more would be a table."""
    return "namespace" if scope is Scope.NAMESPACE and len(parts) > 2 else ""


def _filter(rule: RowFilter) -> Mapping[str, Value]:
    return {"name": rule.name, "on": str(rule.on), **_applies(rule), "using": rule.using}


def _mask(mask: Mask) -> Mapping[str, Value]:
    keys: dict[str, Value] = {"name": mask.name}
    if mask.on is not None and mask.column is not None:
        keys |= {"on": str(mask.on), "column": mask.column.name}
    if mask.tag is not None:
        keys["tag"] = mask.tag
    keys |= _applies(mask)
    if mask.using is not None:
        keys["using"] = mask.using
    if mask.action is not None:
        keys["action"] = mask.action
    if mask.priority is not None:
        keys["priority"] = mask.priority
    return keys


def _tags(tagged: ColumnTags) -> Mapping[str, Value]:
    return {"on": str(tagged.on), "column": tagged.column.name, "tags": sorted(tagged.tags)}


def _impersonation(rule: Impersonation) -> Mapping[str, Value]:
    return {"who": [str(rule.who)], "as": [str(rule.as_whom)]}


def _applies(rule: RowFilter | Mask) -> dict[str, Value]:
    keys: dict[str, Value] = {"for": _texts(rule.applies_to)}
    if rule.exempt:
        keys["except"] = _texts(rule.exempt)
    return keys


def _texts(grantees: Iterable[Grantee]) -> list[str]:
    return sorted(map(str, grantees))


def _block(section: str, keys: Mapping[str, Value]) -> str:
    lines = (f"{key} = {_value(value)}" for key, value in keys.items())
    return "\n".join((f"[[{section}]]", *lines))


def _value(value: Value) -> str:
    # TOML's basic strings are JSON's, but for one character that it wants escaped too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
