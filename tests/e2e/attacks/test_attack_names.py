"""Names and catalogs: a hidden table asked for in every way that SQL has of naming one."""

import pytest

from attacks.attempt import Attacker, Attempt, absent, denied, gives, refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SIDE_BY_SIDE = True

VISIBLE = 24

ATTEMPTS: tuple[Attempt, ...] = (
    absent("hidden table by its full name", "SELECT * FROM lake.vault.secrets"),
    absent("hidden table in upper case", "SELECT * FROM LAKE.VAULT.SECRETS"),
    absent("hidden table in backticks", "SELECT * FROM `lake`.`vault`.`secrets`"),
    absent("hidden table behind comments", "SELECT /**/ * /**/ FROM/**/lake./* */vault--\n.secrets"),
    absent("hidden table without its catalog", "SELECT * FROM vault.secrets"),
    absent("hidden table by TABLE", "TABLE lake.vault.secrets"),
    absent("hidden table by a pipe", "FROM lake.vault.secrets |> SELECT *"),
    absent(
        "hidden table in a CTE of its own name",
        "WITH secrets AS (SELECT * FROM lake.vault.secrets) TABLE secrets",
    ),
    absent("hidden table in an unused CTE", "WITH unused AS (SELECT * FROM lake.vault.secrets) SELECT 1"),
    absent(
        "hidden table that is never reached",
        "SELECT 1 WHERE false AND EXISTS (SELECT 1 FROM lake.vault.secrets)",
    ),
    absent("hidden table with no rows wanted", "SELECT * FROM lake.vault.secrets LIMIT 0"),
    absent("hidden table in a schema that was chosen", "SELECT * FROM secrets", schema="desk"),
    absent("hidden view", "SELECT * FROM lake.vault.peep"),
    absent("table that a policy reads", "SELECT * FROM lake.vault.entitled"),
    absent("another one's schema", "SELECT * FROM lake.copy.people"),
    absent("all tables for one without privileges", "SELECT * FROM lake.house.people", person="nils"),
    absent(
        "unrestricted table for one without privileges", "SELECT * FROM lake.house.regions", person="nils"
    ),
    absent("table that only another role may read", "SELECT * FROM lake.house.orders", person="eve"),
    refused("computed name", "SELECT * FROM IDENTIFIER('lake.vault.' || 'secrets')"),
    refused(
        "computed name of a restricted column",
        "SELECT IDENTIFIER('s' || 'sn') FROM IDENTIFIER('lake.vault.secrets')",
    ),
    refused("text that is run", "EXECUTE IMMEDIATE 'SELECT * FROM lake.vault.secrets'"),
    refused(
        "text that is run on a restricted table", "EXECUTE IMMEDIATE 'SELECT ssn FROM lake.house.people'"
    ),
    refused("Spark's own catalog", "SELECT * FROM spark_catalog.vault.secrets"),
    refused("Spark's own catalog is written", "CREATE TABLE spark_catalog.default.mine AS SELECT 1 AS a"),
    refused("Spark's own catalog is listed", "SHOW TABLES IN spark_catalog.default"),
    refused("global temporary views", "SELECT * FROM global_temp.anything"),
    refused("a catalog that nobody made", "SELECT * FROM evil.vault.secrets"),
    refused(
        "a table in a catalog that nobody made", "CREATE TABLE evil.db.x AS SELECT ssn FROM lake.house.people"
    ),
    refused("the session as a catalog", "SELECT * FROM session.anything"),
    refused("the system catalog of Spark", "SELECT * FROM system.builtin.anything"),
    denied("another catalog as a session's own", "SET spark.sql.defaultCatalog = spark_catalog"),
    gives(
        "masked column by its full name",
        "SELECT min(lake.house.people.notes), max(lake.house.people.salary) < 1000 FROM lake.house.people",
        rows=[(None, True)],
    ),
    refused("restricted table in upper case", "SELECT count(*) FROM LAKE.HOUSE.PEOPLE"),
    gives("restricted table as another", "SELECT count(*) FROM people AS secrets", rows=[(VISIBLE,)]),
    gives(
        "restricted table under the names of hidden ones",
        "WITH secrets AS (SELECT ssn FROM people) SELECT count(*), min(substr(ssn, 1, 3)) FROM secrets",
        rows=[(VISIBLE, "***")],
    ),
    gives("current schema is a name and not a right", "SELECT current_schema()", rows=[("house",)]),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_name_shows_nothing_hidden(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


def test_choosing_a_hidden_schema_shows_nothing(attacker: Attacker) -> None:
    with attacker.house.connected("ana") as connection, connection.cursor() as cursor:
        answers = []
        for schema in ("lake.vault", "lake.nowhere"):
            try:
                cursor.execute(f"USE {schema}")
                answers.append("taken")
            except Exception as error:
                answers.append(str(error).replace(schema.split(".")[1], "X"))
        assert answers[0] == answers[1]
    attacker.search("USE of a hidden schema", "\n".join(answers))
    attacker.noted(is_refused=True)
