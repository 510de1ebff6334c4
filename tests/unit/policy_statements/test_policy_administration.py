"""Admins change policy, owners grant on what they own, and nobody learns of what they may not see."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from policy_desk import ADMIN, ANN, AUDITOR, BOB, ORDERS, OTTO, Desk, opened_desk

from bailiwick.errors import Code
from bailiwick.identity.principal import Principal
from bailiwick.names import TableName
from bailiwick.policy.changes import AddGrants
from bailiwick.policy.model import Grantee, Privilege, Securable
from bailiwick.policy.statements import parse

SELECT = frozenset({Privilege.SELECT})


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened_desk(tmp_path) as opened:
        await opened.run("CREATE ROLE analyst")
        await opened.run("GRANT ROLE analyst TO USER ann")
        await opened.run("GRANT SELECT ON TABLE lake.sales.orders TO ROLE analyst")
        await opened.run("GRANT OWN ON TABLE orders TO USER otto")
        yield opened


def held(desk: Desk, name: str) -> set[tuple[str, str]]:
    grantee = Grantee.user(name)
    return {(str(each.on), each.privilege.value) for each in desk.store.current.grants if each.to == grantee}


async def test_roles_are_made_given_taken_and_dropped(desk: Desk) -> None:
    await desk.run("CREATE ROLE chef")
    await desk.run("GRANT ROLE chef TO USER ann, bob, ROLE analyst")
    await desk.run("REVOKE ROLE chef FROM USER bob")
    chef = desk.store.current.role("chef")
    assert chef is not None
    assert set(map(str, chef.members)) == {"user:ann", "role:analyst"}
    assert "exists already" in (await desk.refused("CREATE ROLE chef")).message
    await desk.run("CREATE ROLE IF NOT EXISTS chef")
    await desk.run("DROP ROLE chef")
    assert desk.store.current.role("chef") is None
    assert "no role 'chef'" in (await desk.refused("DROP ROLE chef")).message
    await desk.run("DROP ROLE IF EXISTS chef")


async def test_built_in_roles_are_given_otherwise(desk: Desk) -> None:
    assert "ALTER USER" in (await desk.refused("GRANT ROLE admin TO USER bob")).message
    assert (await desk.refused("CREATE ROLE admin")).code is Code.INVALID_ARGUMENTS
    await desk.run("CREATE ROLE IF NOT EXISTS admin")


async def test_a_grant_on_a_table_is_bound_to_its_uuid(desk: Desk) -> None:
    (grant,) = [each for each in desk.store.current.grants if each.to == Grantee.role("analyst")]
    assert grant.on.uuid == ORDERS.uuid
    assert str(grant.on) == "lake.sales.orders"
    await desk.run("REVOKE SELECT ON TABLE orders FROM ROLE analyst")
    assert all(each.to != Grantee.role("analyst") for each in desk.store.current.grants)


async def test_all_is_everything_but_ownership_and_revoking_all_is_everything(desk: Desk) -> None:
    await desk.run("GRANT ALL ON TABLE orders TO USER bob")
    assert {privilege for _, privilege in held(desk, "bob")} == {
        "select", "insert", "update", "delete", "alter", "drop"
    }  # fmt: skip
    await desk.run("GRANT ALL PRIVILEGES ON NAMESPACE lake.sales TO USER bob")
    assert ("lake.sales", "create") in held(desk, "bob")
    await desk.run("GRANT OWN ON TABLE orders TO USER bob")
    await desk.run("REVOKE ALL ON TABLE orders FROM USER bob")
    assert {name for name, _ in held(desk, "bob")} == {"lake.sales"}
    assert "create is granted on" in (await desk.refused("GRANT CREATE ON TABLE orders TO USER bob")).message


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("CATALOG lake", "lake"),
        ("NAMESPACE lake.*", "lake.*"),
        ("NAMESPACE lake.sales", "lake.sales"),
        ("SCHEMA sales", "lake.sales"),
        ("DATABASE lake.a.b", "lake.a.b"),
        ("TABLE lake.sales.*", "lake.sales.*"),
        ("TABLE sales.*", "lake.sales.*"),
        ("TABLE orders", "lake.sales.orders"),
        ("TABLE crm.people", "lake.crm.people"),
        ("VIEW totals", "lake.sales.totals"),
    ],
)
async def test_names_are_completed_as_spark_does_it(desk: Desk, said: str, meant: str) -> None:
    await desk.run(f"GRANT SELECT ON {said} TO USER bob")
    assert held(desk, "bob") == {(meant, "select")}
    await desk.run(f"REVOKE SELECT ON {said} FROM USER bob")
    assert held(desk, "bob") == set()


async def test_without_a_namespace_a_name_is_in_the_default_one(desk: Desk) -> None:
    desk.catalog.add(replace(ORDERS, name=TableName(("default",), "t"), uuid="uuid-t"))
    desk.namespace = ()
    await desk.run("GRANT SELECT ON TABLE t TO USER bob")
    assert held(desk, "bob") == {("lake.default.t", "select")}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("CATALOG pond", Code.CATALOG_NOT_FOUND),
        ("NAMESPACE pond.*", Code.CATALOG_NOT_FOUND),
        ("NAMESPACE lake", Code.INVALID_ARGUMENTS),
        ("TABLE lake.*", Code.INVALID_ARGUMENTS),
        ("TABLE lake.orders", Code.INVALID_ARGUMENTS),
        ("TABLE nothing", Code.TABLE_NOT_FOUND),
        ("TABLE totals", Code.TABLE_NOT_FOUND),
        ("VIEW nothing", Code.VIEW_NOT_FOUND),
        ("VIEW orders", Code.VIEW_NOT_FOUND),
    ],
)
async def test_what_is_not_there_is_not_granted(desk: Desk, said: str, code: Code) -> None:
    assert (await desk.refused(f"GRANT SELECT ON {said} TO USER bob")).code is code


async def test_an_owner_grants_and_revokes_on_what_they_own(desk: Desk) -> None:
    await desk.run("GRANT SELECT ON TABLE orders TO USER bob", OTTO)
    assert held(desk, "bob") == {("lake.sales.orders", "select")}
    await desk.run("REVOKE SELECT ON TABLE orders FROM USER bob", OTTO)
    assert held(desk, "bob") == set()


async def test_who_sees_but_does_not_own_is_told_what_is_missing(desk: Desk) -> None:
    error = await desk.refused("GRANT SELECT ON TABLE orders TO USER bob", ANN)
    assert error.code is Code.ACCESS_DENIED
    assert error.details["missing"] == "own"


async def test_what_one_may_not_see_is_not_told_from_what_is_missing(desk: Desk) -> None:
    for verb in ("GRANT SELECT ON TABLE {} TO USER bob", "REVOKE SELECT ON TABLE {} FROM USER bob"):
        hidden = await desk.refused(verb.format("crm.people"), ANN)
        absent = await desk.refused(verb.format("crm.nobody"), ANN)
        assert hidden.code is absent.code is Code.TABLE_NOT_FOUND
        assert hidden.message.replace("people", "nobody") == absent.message
    for sql in ("SHOW GRANTS ON TABLE crm.people", "SHOW POLICIES ON TABLE crm.people"):
        assert (await desk.refused(sql, ANN)).code is Code.TABLE_NOT_FOUND
    hidden = await desk.refused("GRANT SELECT ON NAMESPACE crm TO USER bob", ANN)
    absent = await desk.refused("GRANT SELECT ON NAMESPACE src TO USER bob", ANN)
    assert hidden.code is absent.code is Code.SCHEMA_NOT_FOUND
    assert hidden.message.replace("crm", "src") == absent.message


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE ROLE x",
        "DROP ROLE analyst",
        "GRANT ROLE analyst TO USER bob",
        "REVOKE ROLE analyst FROM USER ann",
        "GRANT IMPERSONATE ON USER ann TO USER bob",
        "REVOKE IMPERSONATE ON USER ann FROM USER bob",
        "CREATE ROW FILTER f ON TABLE orders FOR ROLE analyst USING (region = 'EU')",
        "CREATE MASK m ON TABLE orders COLUMN email FOR ROLE analyst ACTION 'hash'",
        "DROP ROW FILTER f ON TABLE orders",
        "DROP MASK m ON TABLE orders",
        "ALTER TABLE orders ALTER COLUMN email SET TAGS ('pii')",
        "ALTER TABLE orders ALTER COLUMN email UNSET TAGS ('pii')",
        "CLEAR POLICY ON TABLE orders",
        "APPLY POLICY ''",
        "APPLY POLICY '' DRY RUN",
    ],
)
async def test_only_admins_change_policy_and_ownership_is_not_enough(desk: Desk, sql: str) -> None:
    for principal in (OTTO, AUDITOR, BOB, Principal("nobody")):
        error = await desk.refused(sql, principal)
        assert error.code is Code.ACCESS_DENIED
        assert error.details["missing_role"] == "admin"
    assert desk.spark.asked == []


async def test_nobody_changes_policy_on_behalf_of_somebody_else(desk: Desk) -> None:
    for principal in (replace(ADMIN, actor="bob"), replace(OTTO, actor="bob")):
        for sql in ("CREATE ROLE x", "GRANT SELECT ON TABLE orders TO USER bob"):
            error = await desk.refused(sql, principal)
            assert error.code is Code.ACCESS_DENIED
            assert "on behalf" in error.message


@pytest.mark.parametrize(
    "sql", ["SHOW ROLES", "SHOW GRANTS", "SHOW POLICIES", "GRANT SELECT ON TABLE t TO USER x"]
)
async def test_who_has_no_role_may_ask_nothing(desk: Desk, sql: str) -> None:
    assert (await desk.refused(sql, Principal("otto"))).details == {"reason": "no_role"}


async def test_access_is_checked_before_anything_is_looked_at(desk: Desk) -> None:
    command = parse("CREATE ROW FILTER f ON TABLE nothing FOR ROLE nobody USING (x)")
    assert command is not None
    with pytest.raises(Exception, match="needs role 'admin'"):
        desk.administration.check_access(command, BOB)


async def test_impersonation_is_given_and_taken(desk: Desk) -> None:
    await desk.run("GRANT IMPERSONATE ON ROLE analyst TO USER bob")
    shown = await desk.run("SHOW GRANTS", BOB)
    assert shown == [{"grantee": "user:bob", "privilege": "impersonate", "kind": "role", "object": "analyst"}]
    await desk.run("REVOKE IMPERSONATE ON ROLE analyst FROM USER bob")
    assert desk.store.current.impersonations == ()


async def test_who_may_read_policy_sees_its_history(desk: Desk) -> None:
    newest = (await desk.run("SHOW POLICY HISTORY", AUDITOR))[0]
    assert newest["version"] == desk.store.current.version
    assert newest["changed_by"] == "root"
    assert newest["change"] == "granted own on table lake.sales.orders to user:otto"
    for sql in ("SHOW POLICY HISTORY", "SHOW POLICY FILE"):
        assert (await desk.refused(sql, OTTO)).code is Code.ACCESS_DENIED


async def test_who_may_read_policy_sees_that_of_tables_they_may_not_read(desk: Desk) -> None:
    assert len(await desk.run("SHOW GRANTS ON TABLE orders", AUDITOR)) == 2
    assert await desk.run("SHOW POLICIES ON TABLE orders", AUDITOR) == []
    error = await desk.refused("GRANT SELECT ON TABLE orders TO USER ada", AUDITOR)
    assert error.code is Code.TABLE_NOT_FOUND


async def test_a_change_that_others_overtook_is_tried_again(desk: Desk) -> None:
    """What was found out about owners and tags holds only for the policies it was found out under."""
    overtaken = desk.store.current.version
    desk.catalog.before_find = lambda: desk.store.namespace_created("lake", ("other",), ADMIN)
    await desk.run("GRANT SELECT ON TABLE orders TO USER bob", OTTO)
    assert desk.store.current.version == overtaken + 2
    assert held(desk, "bob") == {("lake.sales.orders", "select")}


async def test_an_admin_may_take_back_on_a_table_that_is_not_there(desk: Desk) -> None:
    """A file may have granted it ahead."""
    on = Securable.table("lake", TableName(("crm",), "later"))
    await desk.store.change([AddGrants(frozenset({Grantee.user("bob")}), on, SELECT)], ADMIN)
    await desk.run("REVOKE SELECT ON TABLE crm.later FROM USER bob")
    assert held(desk, "bob") == set()
