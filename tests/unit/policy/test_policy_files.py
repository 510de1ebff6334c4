"""A file is the whole policy: read strictly, compared with what holds, written so that it says the same."""

from dataclasses import replace

import pytest
from policy_kit import ALICE, EMAIL, ON_ORDERS, SELECT, grant, mask, policies, row_filter, tags, who

from bailiwick.errors import BailiwickError, Code
from bailiwick.policy import files
from bailiwick.policy.changes import (
    AddFilter,
    AddGrants,
    AddImpersonation,
    AddMask,
    RemoveGrants,
    RemoveTags,
    TableCreated,
)
from bailiwick.policy.draft import applied
from bailiwick.policy.happenings import after
from bailiwick.policy.model import EMPTY, BoundColumn, Grantee, Impersonation, Policies, Securable
from bailiwick.policy.validation import check

FILE = """
[[role]]
name = "analyst"
members = ["user:alice", "role:reader"]

[[grant]]
to = ["role:analyst", "user:zoe"]
on = "lake.sales.*"
privileges = ["select"]

[[grant]]
to = "role:Analyst"
on = "lake.sales.eu"
kind = "namespace"
privileges = ["create", "SELECT"]

[[row_filter]]
name = "eu_only"
on = "lake.sales.orders"
for = ["role:analyst"]
except = ["role:auditor"]
using = '''
  region = 'EU'
  OR owner = current_user()
'''

[[mask]]
name = "hide_email"
on = "lake.crm.people"
column = "email"
for = ["role:analyst"]
action = "hash"
priority = 20

[[tag]]
on = "lake.crm.people"
column = "phone"
tags = ["pii"]

[[mask]]
name = "pii_hash"
tag = "pii"
for = ["role:analyst"]
using = "sha2(CAST(value AS STRING), 256)"

[[impersonation]]
who = ["user:bi"]
as = ["role:analyst"]
"""


def loaded(text: str, found: Policies = EMPTY) -> Policies:
    made = applied(found, files.planned(text, found))
    check(made)
    return made


def refusal(text: str) -> str:
    with pytest.raises(BailiwickError) as refused:
        files.planned(text, EMPTY)
    assert refused.value.code is Code.INVALID_ARGUMENTS
    return refused.value.message


def test_a_file_says_everything() -> None:
    made = loaded(FILE)
    assert made.role("analyst") is not None
    assert len(made.grants) == 4
    assert made.filters[0].using == "region = 'EU'\n  OR owner = current_user()"
    assert {each.name: each.priority for each in made.masks} == {"hide_email": 20, "pii_hash": None}
    assert made.tags[0].tags == {"pii"}
    assert made.impersonations == (Impersonation(Grantee.user("bi"), Grantee.role("analyst")),)
    nested = [each.on for each in made.grants if each.on.namespace == ("sales", "eu")]
    assert {each.name for each in nested} == {None}


def test_applying_a_file_again_changes_nothing() -> None:
    made = loaded(FILE)
    assert files.planned(FILE, made) == []


def test_what_is_written_says_the_same() -> None:
    made = loaded(FILE)
    assert files.planned(files.rendered(made), made) == []
    assert loaded(files.rendered(made)) == made


def test_what_a_file_does_not_say_goes() -> None:
    made = loaded(FILE)
    assert loaded("", made) == EMPTY


def test_who_created_something_owns_it_whatever_a_file_says() -> None:
    owned = after(EMPTY, TableCreated("lake", ON_ORDERS.table_name, "u", ALICE.name))
    assert files.planned("", owned) == []
    assert "[[grant]]" not in files.rendered(owned)
    assert [each.to for each in loaded(FILE, owned).grants if each.by_creation] == [Grantee.user("alice")]


def test_only_differences_are_planned() -> None:
    made = loaded(FILE)
    changed = FILE.replace("'EU'", "'US'").replace("priority = 20", "priority = 30")
    assert [str(wish) for wish in files.planned(changed, made)] == [
        "replaced row filter eu_only on table lake.sales.orders",
        "replaced mask hide_email on table lake.crm.people",
    ]


def test_what_is_bound_counts_as_what_the_file_names() -> None:
    found = policies(
        grant(ON_ORDERS, SELECT), row_filter(), mask(action="sha-256-global"), tags(EMAIL, "pii")
    )
    text = files.rendered(found).replace("sha-256-global", "hash")
    assert files.planned(text, found) == []


def test_a_grant_bound_to_a_table_that_has_gone_is_made_anew() -> None:
    found = policies(grant(ON_ORDERS, SELECT))
    text = files.rendered(found)
    assert files.planned(text, found, lambda _: ON_ORDERS.uuid) == []
    removed, added = files.planned(text, found, lambda _: "uuid-2")
    assert removed == RemoveGrants(who("role:analyst"), ON_ORDERS, frozenset({SELECT}), is_exact=True)
    assert added == AddGrants(who("role:analyst"), Securable.parse("lake.sales.orders"), frozenset({SELECT}))


def test_a_stale_grant_goes_without_the_one_that_took_its_place() -> None:
    anew = replace(ON_ORDERS, uuid="uuid-2")
    found = policies(grant(ON_ORDERS, SELECT), grant(anew, SELECT))
    plan = files.planned(files.rendered(policies(grant(anew, SELECT))), found, lambda _: "uuid-2")
    assert applied(found, plan) == policies(grant(anew, SELECT))


def test_removals_name_what_they_remove_by_its_binding() -> None:
    found = policies(tags(EMAIL, "pii", "x"))
    text = files.rendered(found).replace('"pii", ', "")
    (removal,) = files.planned(text, found)
    assert isinstance(removal, RemoveTags)
    assert (removal.tags.on, removal.tags.tags) == (ON_ORDERS, frozenset({"pii"}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("role = 3", "'role' must be written as [[role]]"),
        ("[[roles]]", "There is no 'roles' in a policy file"),
        ("[[role]]\nmember = []", "role (line 1): there is no key 'member' here"),
        ("\n\n[[role]]\n", "role (line 3): 'name' is missing"),
        ('[[role]]\nname = ""', "'name' must be a text"),
        ('[[role]]\nname = "a"\nmembers = [3]', "role 'a' (line 1): 'members' must be a list of texts"),
        ('[[role]]\nname = "a"\nmembers = ["zoe"]', "'zoe' is neither user:NAME nor role:NAME"),
        ('[[role]]\nname = "a"\n[[role]]\nname = "A"', "'a' is defined twice among the roles"),
        ('[[grant]]\nto = []\non = "lake"\nprivileges = "select"', "'to' must name at least one"),
        ('[[grant]]\nto = "user:a"\non = "lake"\nprivileges = "fly"', "there is no privilege 'fly'"),
        ('[[grant]]\nto = "user:a"\non = "la ke"\nprivileges = "own"', "'la ke' is not a name"),
        (
            '[[grant]]\nto = "user:a"\non = "lake.*"\nkind = "namespace"\nprivileges = "own"',
            "lake.* is not a namespace: it means all namespaces",
        ),
        (
            '[[grant]]\nto = "user:a"\non = "lake"\nkind = "planet"\nprivileges = "own"',
            "there is no kind 'planet'",
        ),
        ('[[row_filter]]\nname = "f"\non = "lake.sales"', "'on' must be a table in full"),
        ('[[mask]]\nname = "m"\ntag = "t"\non = "lake.a.b"', "either 'on' and 'column', or else 'tag'"),
        ('[[mask]]\nname = "m"\ntag = "t"\nusing = "1"\naction = "hash"', "either 'using' or 'action'"),
        ('[[mask]]\nname = "m"\ntag = "t"\nusing = "1"\nfor = "user:a"\npriority = true', "a whole number"),
        ("[[tag]]\n", "'on' is missing"),
        ("[[grant]", "The policy file is not TOML"),
        ("a = " + "[" * 5_000, "The policy file is"),
        ("#" * (1 << 20) + "#", "at most 1048576 characters"),
    ],
)
def test_what_is_not_known_or_not_clear_is_refused_with_its_place(text: str, says: str) -> None:
    assert says in refusal(text)


def test_where_headers_are_not_the_entries_a_number_says_which() -> None:
    assert "role (number 1): 'name' is missing" in refusal("role = [{}]\n")


def test_texts_with_every_awkward_character_come_back_unchanged() -> None:
    using = "x = 'a\"b\\n' -- \u007f \u2028 é \t tab\n OR y"
    found = applied(
        policies(),
        [
            AddFilter(row_filter(using=using).filter),
            AddMask(mask(on=Securable("la-ke", ("a.b",), "c`d *"), column=BoundColumn("x.y z")).mask),
            AddImpersonation(Impersonation(Grantee.user("a@b"), Grantee.user("c+d"))),
        ],
    )
    assert files.planned(files.rendered(found), found) == []
