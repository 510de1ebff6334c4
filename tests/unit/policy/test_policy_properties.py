"""Whatever the policies are: taking a grant away, or adding a filter or a mask, never shows more.

What is shown of a table to somebody is measured: whether it is visible, what is allowed, which filters must
be passed, which columns are masked. `no_more` compares two of them.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy import files
from bailiwick.policy.changes import TableCreated, TableDropped, TableRenamed
from bailiwick.policy.decide import Column, Decision, Table, decide
from bailiwick.policy.draft import applied, granted
from bailiwick.policy.happenings import after
from bailiwick.policy.membership import effective_roles
from bailiwick.policy.model import (
    BoundColumn,
    ColumnTags,
    Grantee,
    Mask,
    Policies,
    Privilege,
    Role,
    RowFilter,
    Securable,
)
from bailiwick.policy.validation import check

Rule = TypeVar("Rule", RowFilter, Mask, ColumnTags)
Item = TypeVar("Item")

USERS = ("ann", "ben")
ROLES = ("a", "b", "c")
TAGS = ("pii", "secret")
COLUMNS = tuple(BoundColumn(name, at) for at, name in enumerate(("id", "email", "phone"), 1))
NAMES = tuple(TableName((schema,), name) for schema in ("s", "t") for name in ("x", "y"))
UUIDS = ("u1", "u2", "u3")

grantees = st.one_of(st.sampled_from(USERS).map(Grantee.user), st.sampled_from(ROLES).map(Grantee.role))
some = st.frozensets(grantees, min_size=1, max_size=3)
few = st.frozensets(grantees, max_size=1)
uuids = st.one_of(st.none(), st.sampled_from(UUIDS))
on_tables = st.builds(lambda name, uuid: Securable.table("lake", name, uuid), st.sampled_from(NAMES), uuids)
anything = st.one_of(
    on_tables,
    st.sampled_from(("lake", "lake.*", "lake.s", "lake.s.*", "lake.t", "sea")).map(Securable.parse),
)
columns = st.sampled_from(COLUMNS)
grants = st.builds(granted, grantees, anything, st.sampled_from(tuple(Privilege)))
filters = st.builds(
    RowFilter, st.sampled_from("fgh"), on_tables, some, few, st.sampled_from(("p", "q")), st.just(COLUMNS[:1])
)
priorities = st.one_of(st.none(), st.integers(1, 3))
column_masks = st.builds(
    lambda name, on, column, to, exempt, priority: Mask(
        name, on, column, None, to, exempt, action="null", priority=priority
    ),
    st.sampled_from("mno"),
    on_tables,
    columns,
    some,
    few,
    priorities,
)
tag_masks = st.builds(
    lambda name, tag, to, exempt, priority: Mask(
        name, None, None, tag, to, exempt, action="null", priority=priority
    ),
    st.sampled_from("mno"),
    st.sampled_from(TAGS),
    some,
    few,
    priorities,
)
masks = st.one_of(column_masks, tag_masks)
tags = st.builds(ColumnTags, on_tables, columns, st.frozensets(st.sampled_from(TAGS), min_size=1))
policies = st.builds(
    lambda g, f, m, t: Policies(1, tuple(map(Role, ROLES)), tuple(g), tuple(f), tuple(m), tuple(t)),
    st.lists(grants, max_size=6, unique_by=lambda grant: grant.id),
    st.lists(filters, max_size=4),
    st.lists(masks, max_size=4),
    st.lists(tags, max_size=3),
)
# Where each name has one uuid, as in a catalog that nobody has changed since.
SETTLED = dict(zip(NAMES, ("v1", "v2", "v3", "v4"), strict=True))
on_settled = st.sampled_from(sorted(SETTLED)).flatmap(
    lambda name: st.sampled_from((None, SETTLED[name])).map(lambda uuid: Securable.table("lake", name, uuid))
)


def moved(rules: list[Rule], places: list[Securable]) -> tuple[Rule, ...]:
    """The rules on these places, those of one name and table left out."""
    placed = [
        rule if rule.on is None else replace(rule, on=place)
        for rule, place in zip(rules, places, strict=False)
    ]
    return tuple({_identity(rule): rule for rule in placed}.values())


settled = st.builds(
    lambda g, f, m, t, places: Policies(
        1,
        tuple(map(Role, ROLES)),
        tuple({(each.to, each.on.key, each.privilege): each for each in g}.values()),
        moved(f, places),
        moved(m, places),
        moved(t, places),
    ),
    st.lists(grants, max_size=6),
    st.lists(filters, max_size=4),
    st.lists(masks, max_size=4),
    st.lists(tags, max_size=3),
    st.lists(on_settled, min_size=4, max_size=4),
)
principals = st.builds(Principal, st.sampled_from(USERS), st.frozensets(st.sampled_from(ROLES)))
tables = st.builds(
    lambda name, uuid, shift: Table(
        "lake", name, uuid, tuple(Column(each.field_id or 0, each.name + shift) for each in COLUMNS)
    ),
    st.sampled_from(NAMES),
    st.sampled_from(UUIDS),
    st.sampled_from(("", "2")),
)
privileges = st.sampled_from(tuple(Privilege))


def _identity(rule: RowFilter | Mask | ColumnTags) -> object:
    name = rule.column.name if isinstance(rule, ColumnTags) else rule.name
    return (rule.on and rule.on.key, name)


@dataclass(frozen=True)
class Shown:
    """How much of a table somebody is shown."""

    is_visible: bool
    privileges: frozenset[Privilege]
    filters: frozenset[str]
    masked: frozenset[int | None]

    @classmethod
    def of(cls, decision: Decision) -> "Shown":
        return cls(
            decision.is_visible,
            decision.privileges,
            frozenset(f"{each.name} {each.using}" for each in decision.filters),
            frozenset(each.field_id for each in decision.masks),
        )


def no_more(less: Decision, more: Decision) -> bool:
    """Whether `less` shows no more than `more`."""
    one, other = Shown.of(less), Shown.of(more)
    if less.is_visible > more.is_visible or less.allowed > more.allowed:
        return False
    # Of what allows nothing, it does not matter what would be hidden.
    is_nothing = not one.privileges
    return one.privileges <= other.privileges and (
        is_nothing or (one.filters >= other.filters and one.masked >= other.masked)
    )


@given(policies, principals, privileges, tables, st.integers(0, 5))
def test_taking_a_grant_away_never_shows_more(
    found: Policies, who: Principal, action: Privilege, table: Table, at: int
) -> None:
    fewer = replace(found, grants=tuple(each for number, each in enumerate(found.grants) if number != at))
    assert no_more(decide(who, action, table, fewer), decide(who, action, table, found))


@given(policies, principals, privileges, tables, filters)
def test_adding_a_filter_never_shows_more(
    found: Policies, who: Principal, action: Privilege, table: Table, new: RowFilter
) -> None:
    stricter = replace(found, filters=(*found.filters, new))
    assert no_more(decide(who, action, table, stricter), decide(who, action, table, found))


@given(policies, principals, privileges, tables, masks)
def test_adding_a_mask_never_shows_more(
    found: Policies, who: Principal, action: Privilege, table: Table, new: Mask
) -> None:
    stricter = replace(found, masks=(*found.masks, new))
    assert no_more(decide(who, action, table, stricter), decide(who, action, table, found))


@given(policies, principals, privileges, tables, tags)
def test_tagging_a_column_never_shows_more(
    found: Policies, who: Principal, action: Privilege, table: Table, new: ColumnTags
) -> None:
    stricter = replace(found, tags=(*found.tags, new))
    assert no_more(decide(who, action, table, stricter), decide(who, action, table, found))


@given(policies, principals, privileges, tables, st.randoms(use_true_random=False))
def test_the_order_of_definitions_does_not_matter(
    found: Policies, who: Principal, action: Privilege, table: Table, random: Random
) -> None:
    def shuffled(items: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(random.sample(items, len(items)))

    other = replace(
        found,
        grants=shuffled(found.grants),
        filters=shuffled(found.filters),
        masks=shuffled(found.masks),
        tags=shuffled(found.tags),
    )
    one, another = decide(who, action, table, found), decide(who, action, table, other)
    assert Shown.of(one) == Shown.of(another)
    assert one.allowed == another.allowed


@given(policies, principals, tables)
def test_what_nobody_was_granted_is_neither_visible_nor_allowed(
    found: Policies, who: Principal, table: Table
) -> None:
    stranger = Principal("stranger", frozenset({"reader"}))
    decision = decide(stranger, Privilege.SELECT, table, found)
    assert (decision.allowed, decision.is_visible) == (False, False)
    elsewhere = replace(table, catalog="ocean", uuid="elsewhere")
    assert not decide(who, Privilege.SELECT, elsewhere, found).is_visible


@given(policies, principals, tables, st.text(max_size=10))
def test_an_action_that_is_unknown_is_refused(
    found: Policies, who: Principal, table: Table, action: str
) -> None:
    known = {privilege.value for privilege in Privilege}
    if action not in known:
        assert not decide(who, action, table, found).allowed  # type: ignore[arg-type]


@given(policies, principals, st.sampled_from(NAMES))
def test_a_rename_never_shows_more(found: Policies, who: Principal, new: TableName) -> None:
    table = _table(NAMES[0], "u1")
    renamed = after(found, TableRenamed("lake", NAMES[0], new, "u1"))
    before = decide(who, Privilege.SELECT, table, found)
    moved = decide(who, Privilege.SELECT, replace(table, name=new), renamed)
    if moved.allowed and before.allowed:
        assert Shown.of(moved).filters >= Shown.of(before).filters
        assert Shown.of(moved).masked >= Shown.of(before).masked


@given(policies, principals)
def test_a_table_made_again_under_its_name_stays_covered(found: Policies, who: Principal) -> None:
    table = _table(NAMES[0], "u1")
    before = decide(who, Privilege.SELECT, table, found)
    dropped = after(found, TableDropped("lake", NAMES[0], "u1"))
    again = after(dropped, TableCreated("lake", NAMES[0], "u9", "zoe", COLUMNS))
    decision = decide(who, Privilege.SELECT, replace(table, uuid="u9"), again)
    if decision.allowed and before.allowed:
        assert Shown.of(decision).filters >= Shown.of(before).filters
        assert Shown.of(decision).masked >= Shown.of(before).masked


@given(settled, principals, st.sampled_from(sorted(SETTLED)))
def test_policies_that_were_accepted_never_contradict_themselves(
    found: Policies, who: Principal, name: TableName
) -> None:
    open_to_all = tuple(granted(Grantee.user(user), Securable("lake"), Privilege.SELECT) for user in USERS)
    try:
        check(found)
    except BailiwickError:
        return
    everywhere = replace(found, grants=open_to_all)
    assert decide(who, Privilege.SELECT, _table(name, SETTLED[name]), everywhere).allowed


@given(st.dictionaries(st.sampled_from("vwxyz"), st.frozensets(st.sampled_from("vwxyz")), max_size=5))
def test_following_roles_always_ends_and_a_circle_is_refused(held: dict[str, frozenset[str]]) -> None:
    roles = tuple(Role(name, frozenset(map(Grantee.role, held.get(name, ())))) for name in "vwxyz")
    found = Policies(roles=roles)
    reached = effective_roles(found, "ann", frozenset({"v"}))
    assert "v" in reached
    is_circle = any(
        name in effective_roles(found, "ann", frozenset(_held_by(found, name))) for name in "vwxyz"
    )
    try:
        check(found)
        assert not is_circle
    except BailiwickError:
        assert is_circle


@given(settled)
def test_a_file_of_what_holds_changes_nothing(found: Policies) -> None:
    assert files.planned(files.rendered(found), found) == []


@given(settled, settled)
def test_a_file_makes_any_policies_into_what_it_says(found: Policies, wanted: Policies) -> None:
    text = files.rendered(wanted)
    made = applied(found, files.planned(text, found))
    assert files.planned(text, made) == []
    assert files.rendered(made) == text


def _held_by(found: Policies, name: str) -> tuple[str, ...]:
    return found.roles_with(Grantee.role(name))


def _table(name: TableName, uuid: str) -> Table:
    return Table("lake", name, uuid, tuple(Column(each.field_id or 0, each.name) for each in COLUMNS))
