"""Commands: settings, caches, procedures, descriptions of restricted tables, and the statements of policy."""

import pytest

from attacks.attempt import Attacker, Attempt, absent, denied, harmless, refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PROCEDURES = (
    "rollback_to_snapshot('house.people', {snapshot_people_0})",
    "set_current_snapshot('house.people', {snapshot_people_0})",
    "expire_snapshots('house.people')",
    "rewrite_data_files('house.people')",
    "create_changelog_view('house.people')",
    "ancestors_of('house.people')",
    "remove_orphan_files('house.people')",
    "publish_changes('house.people', 'x')",
)
SETTINGS = (
    "SET spark.sql.ansi.enabled = false",
    "SET spark.sql.optimizer.excludedRules = org.apache.spark.sql.catalyst.optimizer.PushDownPredicates",
    "SET spark.sql.parser.escapedStringLiterals = true",
    "SET spark.sql.catalog.mine = org.apache.iceberg.spark.SparkCatalog",
    "SET spark.sql.catalog.lake.token",
    "SET `spark.bailiwick.catalog.credential-file`",
    "SET `spark.bailiwick.stamp-key-file`",
    "SET spark.sql.analyzer.singlePassResolver.enabled = true",
    "SET spark.sql.legacy.viewSchemaBindingMode = false",
    "SET -v",
    "SET",
    "RESET",
    "RESET spark.sql.extensions",
)
POLICY_CHANGES = (
    "GRANT SELECT ON TABLE lake.vault.secrets TO USER ana",
    "GRANT SELECT ON TABLE lake.house.people TO USER nils",
    "GRANT OWN ON CATALOG lake TO USER ana",
    "GRANT ROLE admin TO USER ana",
    "GRANT ROLE checker TO USER ana",
    "GRANT IMPERSONATE ON USER admin TO USER ana",
    "REVOKE ROLE analyst FROM USER ana",
    "CREATE ROLE mine",
    "DROP ROLE analyst",
    "CREATE OR REPLACE ROW FILTER eu_only ON TABLE lake.house.people FOR ROLE analyst USING (true)",
    "CREATE ROW FILTER mine ON TABLE lake.house.people FOR USER eve USING (true)",
    "DROP ROW FILTER eu_only ON TABLE lake.house.people",
    "CREATE OR REPLACE MASK hide_ssn ON TABLE lake.house.people COLUMN ssn FOR ROLE analyst USING (ssn)",
    "DROP MASK hide_ssn ON TABLE lake.house.people",
    "DROP MASK pii_hash ON TAG pii",
    "ALTER TABLE lake.house.people ALTER COLUMN phone UNSET TAGS ('pii')",
    "CLEAR POLICY ON TABLE lake.house.people",
    "APPLY POLICY ''",
    "SHOW POLICY FILE",
    "SHOW POLICY HISTORY",
    "EXPLAIN POLICY SELECT * FROM lake.house.people AS USER eve",
    "CREATE USER mine PASSWORD 'not so long ago' ROLES (admin)",
    "ALTER USER ana ROLES (admin)",
    "ALTER USER admin PASSWORD 'not so long ago'",
    "CREATE TOKEN FOR admin",
)

ATTEMPTS: tuple[Attempt, ...] = (
    *(denied(f"setting: {sql}", sql) for sql in SETTINGS),
    *(denied(f"procedure {call.split('(')[0]}", f"CALL lake.system.{call}") for call in PROCEDURES),
    denied("a procedure that is explained", f"EXPLAIN CALL lake.system.{PROCEDURES[0]}"),
    denied("a procedure in a script", f"BEGIN CALL lake.system.{PROCEDURES[0]}; END"),
    refused(
        "a procedure in a text", "EXECUTE IMMEDIATE 'CALL lake.system.expire_snapshots(\"house.people\")'"
    ),
    refused("a procedure of another catalog", "CALL spark_catalog.system.expire_snapshots('house.people')"),
    *(
        denied(f"cache: {sql}", sql)
        for sql in (
            "CACHE TABLE people",
            "CACHE TABLE mine AS SELECT * FROM people",
            "UNCACHE TABLE people",
            "CLEAR CACHE",
        )
    ),
    *(
        denied(f"state: {sql[:40]}", sql)
        for sql in (
            "CREATE TEMPORARY VIEW people AS SELECT 1 AS id",
            "CREATE GLOBAL TEMPORARY VIEW mine AS SELECT * FROM lake.house.people",
            "DECLARE VARIABLE region STRING DEFAULT 'EU'",
            "SET VARIABLE region = 'EU'",
            "BEGIN SELECT ssn FROM lake.house.people; END",
            "BEGIN DECLARE a STRING; SET a = (SELECT max(ssn) FROM lake.house.people); SELECT a; END",
        )
    ),
    *(refused(f"policy: {sql}", sql) for sql in POLICY_CHANGES),
    *(
        denied(f"change of a restricted table: {sql}", sql)
        for sql in (
            "ANALYZE TABLE people COMPUTE STATISTICS FOR ALL COLUMNS",
            "COMMENT ON TABLE people IS 'mine'",
            "ALTER TABLE people SET TBLPROPERTIES ('a' = 'b')",
            "ALTER TABLE people DROP COLUMN ssn",
            "TRUNCATE TABLE people",
            "DROP TABLE people",
            "DROP VIEW open_orders",
            "DROP NAMESPACE lake.house CASCADE",
            "ALTER TABLE people RENAME TO mine",
        )
    ),
    *(
        harmless(f"description: {sql}", sql)
        for sql in (
            "DESCRIBE TABLE people",
            "DESCRIBE TABLE EXTENDED people",
            "DESCRIBE TABLE EXTENDED people AS JSON",
            "DESCRIBE TABLE EXTENDED people ssn",
            "DESCRIBE TABLE EXTENDED counted n",
            "DESCRIBE TABLE people PARTITION (region = 'US')",
            "SHOW CREATE TABLE people",
            "SHOW CREATE TABLE open_orders",
            "SHOW TBLPROPERTIES people",
            "SHOW PARTITIONS people",
            "SHOW COLUMNS IN people",
            "SHOW TABLE EXTENDED IN lake.house LIKE '*'",
            "SHOW TABLES IN lake.house",
            "SHOW VIEWS IN lake.house",
            "DESCRIBE NAMESPACE EXTENDED lake.house",
            "SHOW SCHEMAS IN lake",
            "SHOW CATALOGS",
            "SHOW FUNCTIONS",
            "SHOW GRANTS",
            "SHOW POLICIES",
            "SHOW POLICIES ON TABLE lake.house.people",
            "SHOW ROLES",
            "SHOW USERS",
            "SHOW TOKENS",
            "EXPLAIN POLICY SELECT * FROM lake.house.people JOIN lake.house.orders USING (region)",
            "REFRESH TABLE people",
            "DESCRIBE QUERY SELECT * FROM people",
            "SHOW PROCEDURES IN lake.system",
        )
    ),
    absent("policies of a hidden table", "SHOW POLICIES ON TABLE lake.vault.secrets"),
    absent("grants on a hidden table", "SHOW GRANTS ON TABLE lake.vault.secrets"),
    absent("policy of a hidden table explained", "EXPLAIN POLICY SELECT * FROM lake.vault.secrets"),
)

TELLS_RULES = ("vault", "entitled e", "sha2(email", "US'")


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_command_does_no_more_than_it_may(attacker: Attacker, attempt: Attempt) -> None:
    outcome = attacker.judge(attempt)
    if not attempt.refused:
        told = [word for word in TELLS_RULES if word in outcome.text]
        assert told == [], f"rules, hidden names or hidden partitions are told: {outcome.text}"


def test_after_all_commands_the_policies_are_as_before(attacker: Attacker) -> None:
    sql = "SELECT count(*), max(salary) < 1000, count(notes), min(left(ssn, 3)) FROM people"
    attacker.judge(Attempt("people after all", (sql,), "ana", "house", rows=((24, True, 0, "***"),)))
