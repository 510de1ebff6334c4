# ruff: noqa: E501 - one attempt a line
"""The catalog's protocol spoken by hand: who may call at all, and what of another's things a call tells.

facts/security, leases, policy binding and secrets. What commits may do is in `test_attack_commits.py`.
"""

from typing import Any

import pytest

from attacks.facade_house import FacadeHouse, Note, refused
from bailiwick.policy.decision import AppliedFilter
from bailiwick.policy.model import Privilege
from bailiwick.policy.stamp import POLICY_HEADER, Stamp, StampKey

pytestmark = pytest.mark.timeout(120)

HIDDEN_CALLS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "namespaces/theirs/tables/{table}", None),
    ("HEAD", "namespaces/theirs/tables/{table}", None),
    ("DELETE", "namespaces/theirs/tables/{table}", None),
    ("DELETE", "namespaces/theirs/tables/{table}?purgeRequested=true", None),
    ("POST", "namespaces/theirs/tables/{table}", {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}),
    ("POST", "namespaces/theirs/tables/{table}", {"requirements": [{"type": "assert-create"}], "updates": []}),
    ("POST", "tables/rename", {"source": {"namespace": ["theirs"], "name": "{table}"}, "destination": {"namespace": ["own"], "name": "mine"}}),
    ("POST", "transactions/commit", {"table-changes": [{"identifier": {"namespace": ["theirs"], "name": "{table}"}, "requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}]}),
    ("GET", "namespaces/theirs/tables/{table}/credentials", None),
    ("POST", "namespaces/theirs/tables/{table}/plan", {}),
    ("POST", "namespaces/theirs/tables/{table}/metrics", {}),
    ("GET", "namespaces/theirs/views/{table}", None),
    ("DELETE", "namespaces/theirs/views/{table}", None),
)  # fmt: skip


def named(value: Any, table: str) -> Any:
    if isinstance(value, str):
        return value.replace("{table}", table)
    if isinstance(value, list):
        return [named(each, table) for each in value]
    return {key: named(each, table) for key, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(("method", "path", "body"), HIDDEN_CALLS)
def test_a_hidden_table_answers_as_a_missing_one(
    facade: FacadeHouse, note: Note, method: str, path: str, body: Any
) -> None:
    answers = [facade.call(method, named(path, name), named(body, name)) for name in ("hidden", "absent")]
    refused(answers[0], note)
    assert answers[0].status == answers[1].status
    assert answers[0].text.replace("hidden", "X") == answers[1].text.replace("absent", "X")


def test_lists_do_not_name_what_is_hidden(facade: FacadeHouse, note: Note) -> None:
    listed = facade.call("GET", "namespaces").text + facade.call("GET", "namespaces/shared/tables").text
    assert "theirs" not in listed
    assert "own" in listed
    refused(facade.call("GET", "namespaces/theirs/tables"), note)
    refused(facade.call("GET", "namespaces/theirs"), note)


def test_a_transaction_with_one_hidden_table_changes_nothing(facade: FacadeHouse, note: Note) -> None:
    before = facade.metadata("own", "table")
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    both = [
        {"identifier": {"namespace": [schema], "name": name}, **change}
        for schema, name in (("own", "table"), ("theirs", "hidden"))
    ]
    refused(facade.call("POST", "transactions/commit", {"table-changes": both}), note)
    assert facade.metadata("own", "table") == before


CREDENTIALS: dict[str, dict[str, Any]] = {
    "no credential": {"headers": {"Authorization": ""}},
    "a wrong credential": {"headers": {"Authorization": "Bearer nonsense"}},
    "a session's handle as a credential": {"headers": {"Authorization": "Bearer session-mal"}},
    "no lease": {"lease": ""},
    "a lease that ended": {"lease": "lease-before"},
    "another's lease": {"lease": "lease-admin"},
    "another's session with one's own lease": {"person": "admin", "lease": "lease-mal"},
    "no session": {"headers": {"X-Bailiwick-Session": ""}},
    "a session that is not there": {"person": "nobody"},
}


@pytest.mark.parametrize("what", CREDENTIALS)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "namespaces/own/tables/table", None),
        (
            "POST",
            "namespaces/own/tables/table",
            {"requirements": [], "updates": [{"action": "set-properties", "updates": {"late": "yes"}}]},
        ),
    ],
)
def test_a_call_needs_the_engines_credential_and_the_current_lease(
    facade: FacadeHouse, note: Note, what: str, method: str, path: str, body: Any
) -> None:
    """A slow INSERT committed with the next one's rights after its lease had ended."""
    answer = facade.call(method, path, body, **CREDENTIALS[what])
    assert answer.status in (401, 403), answer
    assert "late" not in facade.metadata("own", "table")["properties"]
    note(is_refused=True)


def test_a_commit_under_a_lease_that_passed_on_is_refused(facade: FacadeHouse, note: Note) -> None:
    facade.give("late", "lease-late")
    assert facade.call("GET", "namespaces", person="late").status == 200
    facade.give("late", "lease-next")
    refused(facade.call("GET", "namespaces", person="late", lease="lease-late"), note)
    refused(
        facade.commit(
            "own",
            "table",
            {"action": "set-properties", "updates": {"late": "yes"}},
            person="late",
            lease="lease-late",
        ),
        note,
    )


def stamp_for(lease: str = "lease-mal", principal: str = "mal", **changed: Any) -> Stamp:
    rule = AppliedFilter("few", "true", (), ("lake.theirs.rights",))
    fields = {
        "lease": lease,
        "principal": principal,
        "table": "lake.shared.some",
        "uuid": "x",
        "expires_at": 4e9,
        "actions": frozenset({Privilege.SELECT}),
        "filters": (rule,),
    }
    return Stamp(**{**fields, **changed})


def test_what_a_rule_reads_is_read_by_the_rules_right_alone(facade: FacadeHouse, note: Note) -> None:
    """Tables inside a policy's subquery loaded with the user's token."""
    path = "namespaces/theirs/tables/rights"
    refused(facade.call("GET", path), note)
    good = facade.call("GET", path, headers={POLICY_HEADER: facade.key.seal(stamp_for())})
    assert good.status == 200, good
    assert facade.key.open(good.json["config"]["bailiwick.stamp"]).for_policy
    bad = {
        "another key": StampKey.new().seal(stamp_for()),
        "another lease": facade.key.seal(stamp_for(lease="lease-admin")),
        "another principal": facade.key.seal(stamp_for(principal="admin")),
        "expired": facade.key.seal(stamp_for(expires_at=1.0)),
        "a stamp that was for a rule": facade.key.seal(stamp_for(for_policy=True)),
        "nonsense": "x.y",
        "cut": facade.key.seal(stamp_for())[:-1],
    }
    for sealed in bad.values():
        refused(facade.call("GET", path, headers={POLICY_HEADER: sealed}), note)
    header = {POLICY_HEADER: facade.key.seal(stamp_for())}
    refused(facade.call("GET", "namespaces/theirs/tables/hidden", headers=header), note)
    refused(facade.call("POST", path, {"requirements": [], "updates": []}, headers=header), note)


def test_a_load_carries_no_tag_by_which_an_old_stamp_would_be_used_again(
    facade: FacadeHouse, note: Note
) -> None:
    answer = facade.call("GET", "namespaces/shared/tables/some")
    assert not {name.lower() for name in answer.headers} & {"etag", "last-modified"}
    stamp = facade.key.open(answer.json["config"]["bailiwick.stamp"])
    assert (stamp.lease, stamp.principal, [rule.name for rule in stamp.filters]) == (
        "lease-mal",
        "mal",
        ["few"],
    )
    note(is_refused=False)
