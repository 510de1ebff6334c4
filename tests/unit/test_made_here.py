"""What a query has just made is its own, whatever else its principal holds there."""

from bailiwick.catalog.ownership import MadeHere
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.access import Access
from bailiwick.policy.decision import Table
from bailiwick.policy.model import Grant, Grantee, Policies, Privilege, Securable

WILL = Principal("will", frozenset({"writer"}))
SALES = Securable("lake", ("sales",))
GIVEN = Access(
    WILL,
    Policies(
        grants=tuple(
            Grant(each, Grantee.user("will"), SALES, each) for each in (Privilege.SELECT, Privilege.CREATE)
        )
    ),
)
MINE = Table("lake", TableName(("sales",), "mine"), "uuid-1")
OTHERS = Table("lake", TableName(("sales",), "others"), "uuid-2")


def test_who_may_read_all_of_a_namespace_may_fill_what_they_make_in_it() -> None:
    made = MadeHere("lake")
    made.note("L1", GIVEN, Securable.table("lake", MINE.name, MINE.uuid))
    access = made.access("L1", GIVEN)
    assert Privilege.INSERT in access.table(Privilege.SELECT, MINE).privileges
    assert access.table(Privilege.INSERT, MINE).allowed
    assert not access.table(Privilege.INSERT, OTHERS).allowed
    assert access.table(Privilege.SELECT, OTHERS).allowed


def test_another_lease_has_made_nothing() -> None:
    made = MadeHere("lake")
    made.note("L1", GIVEN, Securable.table("lake", MINE.name, MINE.uuid))
    assert not made.access("L2", GIVEN).table(Privilege.INSERT, MINE).allowed
