"""Who may see and end whose queries, and what else the built-in roles let one do: one table, every case."""

import pytest

from bailiwick.identity.abilities import EVERYONES, Whose, ended_by, may_cancel, may_see, seen_by
from bailiwick.identity.principal import BUILT_IN_ROLES, Principal

OWN, NEIGHBOUR, STRANGER = ("ann", "acme"), ("bob", "acme"), ("cyd", "globex")
NAMESAKE = ("ann", "globex")
"""Ann's own queries from the time when she was in another tenant."""


def ann(*roles: str, actor: str | None = None) -> Principal:
    return Principal("ann", frozenset(roles), "acme", actor)


@pytest.mark.parametrize(
    ("roles", "seen", "ended"),
    [
        ((), {OWN}, {OWN}),
        (("reader",), {OWN}, {OWN}),
        (("writer",), {OWN}, {OWN}),
        (("analyst", "operators", "Admin"), {OWN}, {OWN}),
        (("operator",), {OWN, NEIGHBOUR}, {OWN, NEIGHBOUR}),
        (("auditor",), {OWN, NEIGHBOUR, STRANGER, NAMESAKE}, {OWN}),
        (("auditor", "operator"), {OWN, NEIGHBOUR, STRANGER, NAMESAKE}, {OWN, NEIGHBOUR}),
        (("admin",), {OWN, NEIGHBOUR, STRANGER, NAMESAKE}, {OWN, NEIGHBOUR, STRANGER, NAMESAKE}),
    ],
)
def test_roles_say_whose_queries_are_seen_and_ended(
    roles: tuple[str, ...], seen: set[tuple[str, str]], ended: set[tuple[str, str]]
) -> None:
    everyone = {OWN, NEIGHBOUR, STRANGER, NAMESAKE}
    assert {other for other in everyone if may_see(ann(*roles), *other)} == seen
    assert {other for other in everyone if may_cancel(ann(*roles), *other)} == ended


def test_nobody_ends_what_they_do_not_see() -> None:
    for role in BUILT_IN_ROLES:
        for other in (OWN, NEIGHBOUR, STRANGER, NAMESAKE):
            assert may_see(ann(role), *other) or not may_cancel(ann(role), *other)


def test_what_is_asked_of_a_store_is_what_may_be_seen() -> None:
    assert seen_by(ann("reader")) == Whose("acme", "ann")
    assert seen_by(ann("operator")) == ended_by(ann("operator")) == Whose("acme")
    assert seen_by(ann("auditor")) == ended_by(ann("admin")) == EVERYONES


def test_one_who_is_acted_for_sees_and_ends_what_they_would_themselves() -> None:
    acted_for = ann("operator", actor="svc")
    assert seen_by(acted_for) == seen_by(ann("operator"))
    assert ended_by(acted_for) == ended_by(ann("operator"))


@pytest.mark.parametrize(
    ("ability", "roles"),
    [
        ("may_ask", {"admin", "operator", "auditor", "writer", "reader", "analyst"}),
        ("may_see_all_queries", {"admin", "auditor"}),
        ("may_see_nodes", {"admin", "operator", "auditor"}),
        ("may_read_audit", {"admin", "auditor"}),
        ("may_read_policy", {"admin", "auditor"}),
        ("may_change_policy", {"admin"}),
    ],
)
def test_each_ability_comes_with_these_roles_and_no_other(ability: str, roles: set[str]) -> None:
    everyone = {*BUILT_IN_ROLES, "analyst"}
    assert {role for role in everyone if getattr(ann(role), ability)} == roles
    assert not getattr(ann(), ability)


def test_policy_is_not_changed_on_behalf_of_an_admin() -> None:
    assert ann("admin").may_change_policy
    assert not ann("admin", actor="root").may_change_policy
