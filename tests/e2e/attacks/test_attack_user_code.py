"""Code of one's own: functions, scripts, Python, jars. An engine that runs it for anybody runs it for all."""

import pytest

from attacks.attempt import Attacker, Attempt, refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SIDE_BY_SIDE = True

ATTEMPTS: tuple[Attempt, ...] = (
    refused("a program as a transformation", "SELECT TRANSFORM (ssn) USING 'cat' AS (a STRING) FROM people"),
    refused("a program on nothing", "SELECT TRANSFORM (1) USING 'id' AS (a STRING)"),
    refused("MAP as a transformation", "FROM people MAP ssn USING 'cat' AS a"),
    refused("REDUCE as a transformation", "FROM people REDUCE ssn USING 'cat' AS a"),
    refused(
        "a program in a subquery",
        "SELECT * FROM (SELECT TRANSFORM (id) USING 'cat' AS (a STRING) FROM regions)",
    ),
    refused("a function of a class", "CREATE FUNCTION lake.desk.f AS 'java.lang.System'"),
    refused("a temporary function of a class", "CREATE TEMPORARY FUNCTION f AS 'java.lang.System'"),
    refused("a function of a jar", "CREATE FUNCTION lake.desk.f AS 'a.B' USING JAR '/tmp/evil.jar'"),
    refused("a function of SQL", "CREATE FUNCTION lake.desk.f(x INT) RETURNS INT RETURN x + 1"),
    refused(
        "a temporary function of SQL",
        "CREATE TEMPORARY FUNCTION f() RETURNS STRING RETURN SELECT max(ssn) FROM lake.house.people",
    ),
    refused(
        "a function instead of a built-in",
        "CREATE TEMPORARY FUNCTION sha2(a STRING, b INT) RETURNS STRING RETURN a",
    ),
    refused(
        "a function instead of a policy's",
        "CREATE OR REPLACE TEMPORARY FUNCTION right(a STRING, b INT) RETURNS STRING RETURN a",
    ),
    refused(
        "a function of Python",
        "CREATE FUNCTION lake.desk.f(x INT) RETURNS INT LANGUAGE PYTHON AS 'def f(x): return x'",
    ),
    refused(
        "a table function",
        "CREATE TEMPORARY FUNCTION f() RETURNS TABLE (a STRING) RETURN SELECT ssn FROM lake.house.people",
    ),
    refused("a macro", "CREATE TEMPORARY MACRO f(x INT) x + 1"),
    refused("a function of the session's that is dropped", "DROP TEMPORARY FUNCTION IF EXISTS right"),
    refused("a jar", "ADD JAR '/tmp/evil.jar'"),
    refused("a jar by its coordinates", "ADD JAR 'ivy://org.example:evil:1.0'"),
    refused("a file", "ADD FILE '/etc/passwd'"),
    refused("an archive", "ADD ARCHIVE '/tmp/evil.zip'"),
    refused(
        "a class as a type",
        'SELECT from_json(\'{}\', \'{"type":"udt","class":"org.apache.spark.ml.linalg.VectorUDT"}\')',
    ),
    refused("jars that are listed", "LIST JARS"),
    refused("files that are listed", "LIST FILES"),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_nobody_brings_code(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)


def test_the_functions_of_policies_are_still_the_built_in_ones(attacker: Attacker) -> None:
    """facts/policy: a function that was registered as `sha2` replaced the built-in one."""
    sql = "SELECT count(DISTINCT length(email)), min(length(email)) FROM people WHERE email IS NOT NULL"
    attacker.judge(Attempt("masks after all that", (sql,), "ana", "house", rows=((1, 64),)))
