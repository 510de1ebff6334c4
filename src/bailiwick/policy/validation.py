"""Whether policies make sense together: names, bounds, circles, masks that could meet.

Pure. Each problem is one sentence that says what is wrong and what to do. Expressions are Spark's to check;
here they have only a length.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import BUILT_IN_ROLES
from bailiwick.policy import actions
from bailiwick.policy.meeting import meetings
from bailiwick.policy.model import (
    EMPTY,
    ColumnTags,
    Grant,
    Grantee,
    GranteeKind,
    Mask,
    Policies,
    Privilege,
    Role,
    RowFilter,
    Scope,
)

ROLES_MAX = 10_000
MEMBERS_MAX = 10_000
GRANTS_MAX = 200_000
RULES_MAX = 10_000
TAGGED_COLUMNS_MAX = 100_000
TAGS_OF_A_COLUMN_MAX = 50
IMPERSONATIONS_MAX = 10_000
GRANTEES_OF_A_RULE_MAX = 1_000
EXPRESSION_CHARS_MAX = 16_384
COLUMN_CHARS_MAX = 1_024
PRIORITY_MAX = 1_000_000
PROBLEMS_SHOWN_MAX = 10

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}", re.ASCII)
"""Of users, roles, rules and tags: they are shown in plans and messages, so nothing in them needs quoting."""


def check(policies: Policies, before: Policies = EMPTY) -> None:
    """Refuse policies that make no sense. The message holds all problems, or the first ones of many.

    What was wrong `before` is no reason to refuse: it may have come with a rename, and must not stop others.
    """
    found = dict.fromkeys(_problems(policies))
    known = set(_problems(before)) if found else set()
    problems = [problem for problem in found if problem not in known]
    if problems:
        shown = problems[:PROBLEMS_SHOWN_MAX]
        more = (
            [f"There are {len(problems) - len(shown)} more problems."] if len(shown) < len(problems) else []
        )
        raise BailiwickError(
            Code.INVALID_ARGUMENTS, " ".join((*shown, *more)), details={"reason": "policy", "kind": "policy"}
        )


def _problems(policies: Policies) -> Iterator[str]:
    yield from _too_many(policies)
    known = {role.name for role in policies.roles} | BUILT_IN_ROLES
    yield from _roles(policies.roles, known)
    for grant in policies.grants:
        yield from _grant(grant, known)
    for rule in policies.filters:
        yield from _filter(rule, known)
    for mask in policies.masks:
        yield from _mask(mask, known)
    for tagged in policies.tags:
        yield from _tags(tagged)
    for impersonation in policies.impersonations:
        yield from _grantees((impersonation.who, impersonation.as_whom), known, "an impersonation rule")
        if impersonation.who == impersonation.as_whom:
            yield f"{impersonation.who} cannot be let to act on behalf of itself."
    yield from meetings(policies)


def _too_many(policies: Policies) -> Iterator[str]:
    for what, count, most in (
        ("roles", len(policies.roles), ROLES_MAX),
        ("grants", len(policies.grants), GRANTS_MAX),
        ("row filters", len(policies.filters), RULES_MAX),
        ("masks", len(policies.masks), RULES_MAX),
        ("columns with tags", len(policies.tags), TAGGED_COLUMNS_MAX),
        ("impersonation rules", len(policies.impersonations), IMPERSONATIONS_MAX),
    ):
        if count > most:
            yield f"There may be at most {most} {what}, not {count}."


def _roles(roles: tuple[Role, ...], known: set[str]) -> Iterator[str]:
    by_case: dict[str, str] = {name.casefold(): name for name in BUILT_IN_ROLES}
    for role in roles:
        yield from _name(role.name, "role")
        if role.name in BUILT_IN_ROLES:
            yield f"Role '{role.name}' is built in: give it to a user with ALTER USER … SET ROLES."
        elif (other := by_case.setdefault(role.name.casefold(), role.name)) != role.name:
            yield f"Roles '{other}' and '{role.name}' differ only in case: choose another name."
        if len(role.members) > MEMBERS_MAX:
            yield f"Role '{role.name}' may have at most {MEMBERS_MAX} members."
        yield from _grantees(role.members, known, f"role '{role.name}'")
    yield from _circles(roles)


def _circles(roles: tuple[Role, ...]) -> Iterator[str]:
    """Take away roles that hold no role that is left: what remains goes in a circle or leads into one."""
    left = {role.name: {m.name for m in role.members if m.kind is GranteeKind.ROLE} for role in roles}
    while True:
        free = {name for name, members in left.items() if not members & left.keys()}
        if not free:
            break
        left = {name: members for name, members in left.items() if name not in free}
    for name in _in_circles(left):
        yield f"Role '{name}' would be a member of itself, through the roles that are its members."


def _in_circles(left: dict[str, set[str]]) -> Iterator[str]:
    """The other end as well: a role that no role left has as a member only leads into a circle."""
    while left:
        held = set(chain.from_iterable(left.values()))
        loose = left.keys() - held
        if not loose:
            yield min(left)
            return
        left = {name: members for name, members in left.items() if name not in loose}


def _grant(grant: Grant, known: set[str]) -> Iterator[str]:
    yield from _grantees((grant.to,), known, f"a grant on {grant.on}")
    if grant.privilege is Privilege.CREATE and grant.on.scope in (Scope.TABLE, Scope.ALL_TABLES):
        yield f"create is granted on catalogs and namespaces, not on {grant.on.scope} {grant.on}."


def _filter(rule: RowFilter, known: set[str]) -> Iterator[str]:
    what = f"row filter '{rule.name}'"
    yield from _name(rule.name, "row filter")
    if rule.on.scope is not Scope.TABLE:
        yield f"{what.capitalize()} must be on a table, not on {rule.on.scope} {rule.on}."
    yield from _applies(rule, known, what)
    yield from _expression(rule.using, what)


def _mask(mask: Mask, known: set[str]) -> Iterator[str]:
    what = f"mask '{mask.name}'"
    yield from _name(mask.name, "mask")
    is_on_column, is_on_tag = mask.on is not None and mask.column is not None, mask.tag is not None
    if is_on_column == is_on_tag or (mask.on is None) != (mask.column is None):
        yield f"{what.capitalize()} must be on a table's column or else on a tag."
    if mask.on is not None and mask.on.scope is not Scope.TABLE:
        yield f"{what.capitalize()} must be on a table, not on {mask.on.scope} {mask.on}."
    if mask.column is not None:
        yield from _column(mask.column.name, what)
    if mask.tag is not None:
        yield from _name(mask.tag, "tag")
    yield from _applies(mask, known, what)
    if (mask.using is None) == (mask.action is None):
        yield f"{what.capitalize()} must have either an expression or an action."
    if mask.using is not None:
        yield from _expression(mask.using, what)
    if mask.action is not None:
        yield from _action(mask.action)
    if mask.priority is not None and abs(mask.priority) > PRIORITY_MAX:
        yield f"The priority of {what} must lie between -{PRIORITY_MAX} and {PRIORITY_MAX}."


def _action(action: str) -> Iterator[str]:
    try:
        actions.check(action)
    except BailiwickError as error:
        yield error.message


def _tags(tagged: ColumnTags) -> Iterator[str]:
    what = f"tags of table {tagged.on}"
    if tagged.on.scope is not Scope.TABLE:
        yield f"Tags are set on columns of a table, not on {tagged.on.scope} {tagged.on}."
    yield from _column(tagged.column.name, what)
    if not tagged.tags:
        yield f"Column {tagged.column.name[:100]} of table {tagged.on} must be given at least one tag."
    if len(tagged.tags) > TAGS_OF_A_COLUMN_MAX:
        yield f"Column {tagged.column.name[:100]} of table {tagged.on} has over {TAGS_OF_A_COLUMN_MAX} tags."
    for tag in sorted(tagged.tags):
        yield from _name(tag, "tag")


def _applies(rule: RowFilter | Mask, known: set[str], what: str) -> Iterator[str]:
    if not rule.applies_to:
        yield f"{what.capitalize()} must be for at least one role or user."
    for grantees in (rule.applies_to, rule.exempt):
        if len(grantees) > GRANTEES_OF_A_RULE_MAX:
            yield f"{what.capitalize()} may name at most {GRANTEES_OF_A_RULE_MAX} roles and users."
        yield from _grantees(grantees, known, what)


def _grantees(grantees: Iterable[Grantee], known: set[str], what: str) -> Iterator[str]:
    for grantee in sorted(grantees):
        if NAME.fullmatch(grantee.name) is None:
            yield f"'{str(grantee)[:100]}', named by {what}, cannot be the name of a {grantee.kind}."
        elif grantee.kind is GranteeKind.ROLE and grantee.name not in known:
            yield f"There is no role '{grantee.name}', which is named by {what}."


def _name(name: str, kind: str) -> Iterator[str]:
    if NAME.fullmatch(name) is None:
        yield (
            f"'{name[:100]}' cannot be the name of a {kind}: it has 1 to 128 letters A-Z, digits and "
            "_ . @ + -, and begins with a letter, a digit or _."
        )


def _column(name: str, what: str) -> Iterator[str]:
    if not name or len(name) > COLUMN_CHARS_MAX or not name.isprintable():
        yield f"The name of a column has 1 to {COLUMN_CHARS_MAX} printable characters: see {what}."


def _expression(text: str, what: str) -> Iterator[str]:
    if not text.strip() or len(text) > EXPRESSION_CHARS_MAX:
        yield f"The expression of {what} has 1 to {EXPRESSION_CHARS_MAX} characters."
