"""What the grammar of the policy statements says is read exactly."""

import pytest

from bailiwick.policy.commands import (
    ApplyPolicy,
    ClearPolicy,
    CreateMask,
    CreateRole,
    CreateRowFilter,
    DropMask,
    DropRole,
    DropRowFilter,
    GrantImpersonation,
    GrantPrivileges,
    GrantRole,
    ObjectKind,
    ObjectName,
    PolicyCommand,
    RevokeImpersonation,
    RevokePrivileges,
    RevokeRole,
    SetTags,
    ShowGrants,
    ShowPolicies,
    ShowPolicyFile,
    ShowPolicyHistory,
    ShowRoles,
    UnsetTags,
)
from bailiwick.policy.model import Grantee, Privilege
from bailiwick.policy.statements import (
    parse,
)

ANN, BOB = Grantee.user("ann"), Grantee.user("bob")
ANALYST, AUDITOR = Grantee.role("analyst"), Grantee.role("auditor")
ORDERS = ("lake", "sales", "orders")
ON_ORDERS = ObjectName(ObjectKind.TABLE, ORDERS)
SELECT = frozenset({Privilege.SELECT})


def row_filter(
    using: str, *, or_replace: bool = False, exempt: frozenset[Grantee] = frozenset()
) -> CreateRowFilter:
    return CreateRowFilter("eu_only", ORDERS, frozenset({ANALYST}), exempt, using, or_replace)


@pytest.mark.parametrize(
    ("sql", "command"),
    [
        ("CREATE ROLE analyst", CreateRole("analyst")),
        ("create role if not exists Analyst ;", CreateRole("analyst", if_not_exists=True)),
        ("DROP ROLE `analyst`", DropRole("analyst")),
        ("DROP ROLE IF EXISTS analyst", DropRole("analyst", if_exists=True)),
        ("GRANT ROLE analyst TO USER ann", GrantRole("analyst", (ANN,))),
        ("GRANT ROLE analyst TO ROLE Auditor", GrantRole("analyst", (AUDITOR,))),
        ("GRANT ROLE role TO USER `role`", GrantRole("role", (Grantee.user("role"),))),
        ("REVOKE ROLE analyst FROM USER ann", RevokeRole("analyst", (ANN,))),
        (
            "GRANT SELECT ON TABLE lake.sales.orders TO ROLE analyst",
            GrantPrivileges(SELECT, ON_ORDERS, (ANALYST,)),
        ),
        (
            'GRANT select, Insert ON TABLE `lake`."sales".orders TO USER ann, bob, ROLE analyst, auditor',
            GrantPrivileges(SELECT | {Privilege.INSERT}, ON_ORDERS, (ANN, BOB, ANALYST, AUDITOR)),
        ),
        (
            "GRANT SELECT ON VIEW totals TO USER ann, ann",
            GrantPrivileges(SELECT, ObjectName(ObjectKind.VIEW, ("totals",)), (ANN,)),
        ),
        (
            "GRANT ALL ON CATALOG lake TO USER ann",
            GrantPrivileges(
                frozenset(Privilege) - {Privilege.OWN}, ObjectName(ObjectKind.CATALOG, ("lake",)), (ANN,)
            ),
        ),
        (
            "REVOKE ALL PRIVILEGES ON SCHEMA lake.sales FROM USER ann",
            RevokePrivileges(
                frozenset(Privilege), ObjectName(ObjectKind.NAMESPACE, ("lake", "sales")), (ANN,)
            ),
        ),
        (
            "GRANT OWN ON DATABASE sales TO USER ann",
            GrantPrivileges(frozenset({Privilege.OWN}), ObjectName(ObjectKind.NAMESPACE, ("sales",)), (ANN,)),
        ),
        (
            "GRANT SELECT ON TABLE lake.sales.* TO ROLE analyst",
            GrantPrivileges(
                SELECT, ObjectName(ObjectKind.TABLE, ("lake", "sales"), is_wildcard=True), (ANALYST,)
            ),
        ),
        (
            "GRANT SELECT ON NAMESPACE lake . * TO ROLE analyst",
            GrantPrivileges(
                SELECT, ObjectName(ObjectKind.NAMESPACE, ("lake",), is_wildcard=True), (ANALYST,)
            ),
        ),
        (
            "GRANT SELECT ON TABLE lake.sales.`*` TO ROLE analyst",
            GrantPrivileges(SELECT, ObjectName(ObjectKind.TABLE, ("lake", "sales", "*")), (ANALYST,)),
        ),
        ("GRANT IMPERSONATE ON USER ann TO ROLE analyst", GrantImpersonation(ANN, (ANALYST,))),
        ("REVOKE IMPERSONATE ON ROLE analyst FROM USER bob", RevokeImpersonation(ANALYST, (BOB,))),
        (
            "CREATE ROW FILTER eu_only ON TABLE lake.sales.orders FOR ROLE analyst USING (region = 'EU')",
            row_filter("region = 'EU'"),
        ),
        (
            "CREATE OR REPLACE ROW FILTER eu_only ON TABLE lake.sales.orders FOR ROLE analyst "
            "EXCEPT ROLE auditor, USER bob USING ( region = 'EU' ) ;",
            row_filter("region = 'EU'", or_replace=True, exempt=frozenset({AUDITOR, BOB})),
        ),
        (
            "CREATE MASK hide ON TABLE orders COLUMN email FOR ROLE analyst USING (sha2(email, 256))",
            CreateMask(
                "hide",
                ("orders",),
                ("email",),
                None,
                frozenset({ANALYST}),
                frozenset(),
                "sha2(email, 256)",
                None,
            ),
        ),
        (
            "CREATE OR REPLACE MASK pii ON TAG pii FOR USER ann EXCEPT USER bob ACTION 'hash' PRIORITY 10",
            CreateMask(
                "pii",
                None,
                None,
                "pii",
                frozenset({ANN}),
                frozenset({BOB}),
                None,
                "hash",
                priority=10,
                or_replace=True,
            ),
        ),
        (
            "CREATE MASK street ON TABLE lake.crm.people COLUMN home.street FOR ROLE analyst "
            "USING ('x') PRIORITY 0",
            CreateMask(
                "street",
                ("lake", "crm", "people"),
                ("home", "street"),
                None,
                frozenset({ANALYST}),
                frozenset(),
                "'x'",
                None,
                priority=0,
            ),
        ),
        ("DROP ROW FILTER eu_only ON TABLE lake.sales.orders", DropRowFilter("eu_only", ORDERS)),
        (
            "DROP ROW FILTER IF EXISTS eu_only ON TABLE orders",
            DropRowFilter("eu_only", ("orders",), if_exists=True),
        ),
        ("DROP MASK hide ON TABLE lake.sales.orders", DropMask("hide", ORDERS, None)),
        ("DROP MASK IF EXISTS hide ON TAG pii", DropMask("hide", None, "pii", if_exists=True)),
        ("ALTER TABLE t ALTER COLUMN c SET TAGS ('pii')", SetTags(("t",), ("c",), frozenset({"pii"}))),
        (
            "alter table lake.sales.orders alter a.b unset tags ('x', 'y')",
            UnsetTags(ORDERS, ("a", "b"), frozenset("xy")),
        ),
        ("CLEAR POLICY ON TABLE lake.sales.orders", ClearPolicy(ORDERS)),
        ("SHOW ROLES", ShowRoles()),
        ("SHOW GRANTS", ShowGrants()),
        ("SHOW GRANTS ON TABLE lake.sales.orders", ShowGrants(on=ON_ORDERS)),
        ("SHOW GRANTS TO ROLE analyst", ShowGrants(to=ANALYST)),
        ("SHOW POLICIES", ShowPolicies()),
        ("SHOW POLICIES ON TABLE lake.sales.orders", ShowPolicies(ORDERS)),
        ("SHOW POLICY FILE", ShowPolicyFile()),
        ("-- all\nSHOW /* of it */ POLICY HISTORY;", ShowPolicyHistory()),
        ("APPLY POLICY '[[role]]\nname = \"it''s\\n\"'", ApplyPolicy('[[role]]\nname = "it\'s\\n"')),
        ("APPLY POLICY '' DRY RUN", ApplyPolicy("", dry_run=True)),
    ],
)
def test_what_the_grammar_says_is_read(sql: str, command: PolicyCommand) -> None:
    assert parse(sql) == command
