"""Statements that must fail, and how: one table for every door.

A test of a door runs `SETUP` once as an administrator and then each of `GOLDEN` on its wire; code and
SQLSTATE must be these everywhere. Only statements that reach Spark stand here; what a door refuses by itself
is tested beside that door.
"""

from dataclasses import dataclass

from bailiwick.errors import Code

SETUP = (
    "CREATE NAMESPACE IF NOT EXISTS lake.golden",
    "DROP VIEW IF EXISTS lake.golden.v",
    "DROP TABLE IF EXISTS lake.golden.t",
    "CREATE TABLE lake.golden.t (id BIGINT NOT NULL, name STRING, price DECIMAL(10, 2), at TIMESTAMP, "
    "tags ARRAY<STRING>, point STRUCT<x: INT, y: INT>)",
    "INSERT INTO lake.golden.t VALUES (1, 'one', 1.50, TIMESTAMP '2024-01-01 00:00:00', array('a'), "
    "named_struct('x', 1, 'y', 2)), (2, 'two', 2.50, NULL, array(), NULL)",
    "CREATE VIEW lake.golden.v AS SELECT id, name FROM lake.golden.t",
)


@dataclass(frozen=True, slots=True)
class Golden:
    sql: str
    code: Code
    sqlstate: str
    """What the SQLSTATE begins with."""


# fmt: off
GOLDEN: tuple[Golden, ...] = (
    Golden("SELEC 1", Code.SYNTAX_ERROR, "42601"),
    Golden("SELECT * FROM lake.golden.t GROUP BY", Code.SYNTAX_ERROR, "42601"),
    Golden("SELECT (1", Code.SYNTAX_ERROR, "42601"),
    Golden("SELECT 'open", Code.SYNTAX_ERROR, "42601"),
    Golden("SELECT /* open", Code.SYNTAX_ERROR, "42601"),
    Golden("INSERT INTO lake.golden.t VALUES", Code.SYNTAX_ERROR, "42601"),
    Golden("SELECT * FROM lake.golden.missing", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("SELECT * FROM missing", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("SELECT * FROM lake.nowhere.t", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("INSERT INTO lake.golden.missing VALUES (1)", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("DELETE FROM lake.golden.missing", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("DROP TABLE lake.golden.missing", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("ALTER TABLE lake.golden.missing ADD COLUMN c INT", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("DESCRIBE lake.golden.missing", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("SELECT * FROM lake.golden.t.history_of_nothing", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("DROP VIEW lake.golden.missing", Code.VIEW_NOT_FOUND, "42P01"),
    Golden("SHOW TABLES IN lake.nowhere", Code.SCHEMA_NOT_FOUND, "3F000"),
    Golden("DROP NAMESPACE lake.nowhere", Code.SCHEMA_NOT_FOUND, "42704"),
    Golden("CREATE TABLE lake.nowhere.t (a INT)", Code.SCHEMA_NOT_FOUND, "3F000"),
    Golden("SHOW TABLES IN nocatalog.golden", Code.SCHEMA_NOT_FOUND, "3F000"),
    Golden("SELECT nope FROM lake.golden.t", Code.COLUMN_NOT_FOUND, "42703"),
    Golden("SELECT t.nope FROM lake.golden.t AS t", Code.COLUMN_NOT_FOUND, "42703"),
    Golden("SELECT point.z FROM lake.golden.t", Code.COLUMN_NOT_FOUND, "42704"),
    Golden("SELECT id FROM lake.golden.t ORDER BY nope", Code.COLUMN_NOT_FOUND, "42703"),
    Golden("UPDATE lake.golden.t SET nope = 1", Code.COLUMN_NOT_FOUND, "42703"),
    Golden("INSERT INTO lake.golden.t (id, nope) VALUES (1, 2)", Code.COLUMN_NOT_FOUND, "42703"),
    Golden("ALTER TABLE lake.golden.t DROP COLUMN nope", Code.COLUMN_NOT_FOUND, "42703"),
    Golden("SELECT no_such_function(1)", Code.FUNCTION_NOT_FOUND, "42883"),
    Golden("SELECT * FROM no_such_table_function(1)", Code.FUNCTION_NOT_FOUND, "0A000"),
    Golden("SELECT upper()", Code.INVALID_ARGUMENTS, "42605"),
    Golden("SELECT array(1, 2)[5]", Code.INVALID_ARGUMENTS, "22003"),
    Golden("SELECT * FROM range(3) LIMIT -1", Code.INVALID_ARGUMENTS, "42K0E"),
    Golden("SELECT date_format(current_date(), 'QQQQQ')", Code.INVALID_ARGUMENTS, "22007"),
    Golden("SELECT make_date(2024, 13, 1)", Code.INVALID_ARGUMENTS, "22023"),
    Golden("SELECT map('a', 1, 'a', 2)", Code.INVALID_ARGUMENTS, "23505"),
    Golden("SELECT name + point FROM lake.golden.t", Code.TYPE_MISMATCH, "42K09"),
    Golden("SELECT id AND name FROM lake.golden.t", Code.TYPE_MISMATCH, "42K09"),
    Golden("SELECT sum(tags) FROM lake.golden.t", Code.TYPE_MISMATCH, "42K09"),
    Golden("SELECT CAST(tags AS INT) FROM lake.golden.t", Code.TYPE_MISMATCH, "42K09"),
    Golden("SELECT 1 UNION SELECT array(1)", Code.TYPE_MISMATCH, "42825"),
    Golden("INSERT INTO lake.golden.t (id, name) VALUES (array(1), 'x')", Code.TYPE_MISMATCH, "KD000"),
    Golden("SELECT name, count(*) FROM lake.golden.t", Code.SEMANTIC_ERROR, "42803"),
    Golden("SELECT id FROM lake.golden.t GROUP BY name", Code.SEMANTIC_ERROR, "42803"),
    Golden("SELECT id FROM lake.golden.t AS a, lake.golden.t AS b", Code.SEMANTIC_ERROR, "42704"),
    Golden("SELECT id FROM lake.golden.t ORDER BY 9", Code.SEMANTIC_ERROR, "42805"),
    Golden("SELECT sum(sum(id)) FROM lake.golden.t", Code.SEMANTIC_ERROR, "42607"),
    Golden("SELECT 1 UNION SELECT 1, 2", Code.SEMANTIC_ERROR, "42826"),
    Golden("INSERT INTO lake.golden.t VALUES (1)", Code.SEMANTIC_ERROR, "21S01"),
    Golden("SELECT (SELECT id FROM lake.golden.t)", Code.SEMANTIC_ERROR, "21000"),
    Golden("SELECT raise_error('said so')", Code.SEMANTIC_ERROR, "P0001"),
    Golden("SELECT raise_error('said so') FROM lake.golden.t", Code.SEMANTIC_ERROR, "P0001"),
    Golden("SELECT 1 / 0", Code.DIVISION_BY_ZERO, "22012"),
    Golden("SELECT id / (id - id) FROM lake.golden.t", Code.DIVISION_BY_ZERO, "22012"),
    Golden("SELECT id % (id - id) FROM lake.golden.t", Code.DIVISION_BY_ZERO, "22012"),
    Golden("INSERT INTO lake.golden.t (id) SELECT 1 DIV id FROM range(1)", Code.DIVISION_BY_ZERO, "22012"),
    Golden("SELECT CAST('x' AS INT)", Code.INVALID_CAST, "22018"),
    Golden("SELECT CAST(name AS INT) FROM lake.golden.t", Code.INVALID_CAST, "22018"),
    Golden("SELECT CAST(99999999999 AS INT)", Code.INVALID_CAST, "22003"),
    Golden("SELECT id + 9223372036854775807 FROM lake.golden.t", Code.INVALID_CAST, "22003"),
    Golden("SELECT CAST('2024-99-99' AS DATE)", Code.INVALID_CAST, "22018"),
    Golden("SELECT DATE 'yesterday, all my troubles'", Code.INVALID_CAST, "42604"),
    Golden("SELECT to_timestamp('nonsense', 'yyyy')", Code.INVALID_CAST, "22007"),
    Golden("CREATE TABLE lake.golden.t (a INT)", Code.DUPLICATE_TABLE, "42P07"),
    Golden("CREATE TABLE lake.golden.v (a INT)", Code.DUPLICATE_TABLE, "42P07"),
    Golden("CREATE VIEW lake.golden.v AS SELECT 1 AS a", Code.DUPLICATE_TABLE, "42P07"),
    Golden("CREATE NAMESPACE lake.golden", Code.DUPLICATE_TABLE, "42P06"),
    Golden("CREATE TABLE lake.golden.u (a INT, a INT)", Code.DUPLICATE_COLUMN, "42711"),
    Golden("CREATE TABLE lake.golden.u AS SELECT 1 AS a, 2 AS a", Code.DUPLICATE_COLUMN, "42711"),
    Golden("ALTER TABLE lake.golden.t ADD COLUMN name STRING", Code.DUPLICATE_COLUMN, "42710"),
    Golden("UPDATE lake.golden.t SET name = 'a', name = 'b'", Code.SEMANTIC_ERROR, "42K09"),
    Golden("DROP NAMESPACE lake.golden", Code.SEMANTIC_ERROR, "2BP01"),
    Golden("INSERT INTO lake.golden.v VALUES (1, 'x')", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("DROP TABLE lake.golden.v", Code.TABLE_NOT_FOUND, "42P01"),
    Golden("SELECT * FROM lake.golden.t VERSION AS OF 42", Code.INVALID_ARGUMENTS, "22023"),
    Golden("SELECT * FROM lake.golden.t VERSION AS OF 'no_such_branch'", Code.INVALID_ARGUMENTS, "22023"),
    Golden("CREATE TABLE lake.golden.u (a NOTATYPE)", Code.NOT_SUPPORTED, "0A000"),
    Golden("ALTER TABLE lake.golden.t RENAME TO golden.v", Code.DUPLICATE_TABLE, "42P07"),
    Golden("ALTER TABLE lake.golden.t ALTER COLUMN id TYPE STRING", Code.NOT_SUPPORTED, "0A000"),
    Golden("INSERT INTO lake.golden.t (id) SELECT CAST(NULL AS BIGINT)", Code.INVALID_ARGUMENTS, "42000"),
)
# fmt: on
