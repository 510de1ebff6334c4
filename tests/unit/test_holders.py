"""Who holds a session, as the catalog is told."""

import pytest

from bailiwick.engines.holders import Holders
from bailiwick.identity.principal import Principal
from bailiwick.ids import LeaseId, QueryId
from bailiwick.policy.model import Policies

ANN = Principal("ann", frozenset({"reader"}))
BOB = Principal("bob", frozenset({"reader"}))
FIRST, SECOND, THIRD = LeaseId("L1"), LeaseId("L2"), LeaseId("L3")


def test_a_pooled_session_has_one_lease_and_a_late_one_is_refused() -> None:
    holders = Holders()
    holders.enter("handle", FIRST, ANN)
    holders.enter("handle", SECOND, BOB)

    assert holders.holder("handle", FIRST) is None
    access = holders.holder("handle", SECOND)
    assert access is not None
    assert access.principal == BOB
    assert holders.of_lease(FIRST) is None


def test_leaving_a_session_ends_all_of_its_leases_and_no_others() -> None:
    holders = Holders()
    holders.enter_beside("handle", FIRST, ANN)
    holders.enter_beside("handle", SECOND, ANN, QueryId("q2"))
    holders.enter("other", THIRD, BOB)

    holders.leave("handle")
    holders.leave("handle")

    assert holders.holder("handle", FIRST) is None
    assert holders.holder("handle", SECOND) is None
    assert holders.of_lease(SECOND) is None
    assert holders.holder("other", THIRD) is not None


def test_several_leases_of_one_session_each_have_their_own_end() -> None:
    holders = Holders()
    holders.enter_beside("handle", FIRST, ANN, QueryId("q1"))
    holders.enter_beside("handle", SECOND, ANN, QueryId("q2"))
    assert holders.holder("handle", FIRST) is not None
    assert holders.holder("handle", SECOND) is not None

    holders.leave("handle", FIRST)
    holders.leave("handle", FIRST)

    assert holders.holder("handle", FIRST) is None
    assert holders.of_lease(FIRST) is None
    held = holders.of_lease(SECOND)
    assert held is not None
    assert held.query_id == "q2"


def test_a_lease_of_one_session_opens_no_other() -> None:
    holders = Holders()
    holders.enter_beside("handle", FIRST, ANN)
    holders.enter_beside("other", SECOND, BOB)

    assert holders.holder("other", FIRST) is None
    holders.leave("other", FIRST)
    assert holders.holder("handle", FIRST) is not None


def test_nobody_enters_beside_somebody_else() -> None:
    holders = Holders()
    holders.enter_beside("handle", FIRST, ANN)

    with pytest.raises(ValueError, match="one principal"):
        holders.enter_beside("handle", SECOND, BOB)
    with pytest.raises(ValueError, match="one principal"):
        holders.enter_beside("handle", SECOND, Principal("ann", ANN.roles, actor="bob"))
    assert holders.holder("handle", SECOND) is None


def test_whoever_was_given_another_role_is_still_the_same() -> None:
    holders = Holders()
    holders.enter_beside("handle", FIRST, ANN)

    promoted = Principal("ann", frozenset({"reader", "writer"}))
    assert holders.enter_beside("handle", SECOND, promoted).principal.roles == {"reader", "writer"}


def test_a_lease_keeps_the_policies_under_which_it_began() -> None:
    current = Policies(version=1)
    holders = Holders(lambda: current)
    holders.enter_beside("handle", FIRST, ANN)
    current = Policies(version=2)
    holders.enter_beside("handle", SECOND, ANN)

    versions = [access.version for lease in (FIRST, SECOND) if (access := holders.holder("handle", lease))]
    assert versions == [1, 2]
    assert holders.policy_version == 2
