# ruff: noqa: E501 - one case a line
"""The tables that cases read: small, with nulls, of many types, the same on every side.

Runs inside the client's environment, by SQL that any Spark with an Iceberg catalog takes.
"""

from typing import Any

PEOPLE = """
SELECT * FROM VALUES
  (1, 'ada', 'Oslo', 36, 120.50, DATE '1990-12-10', TIMESTAMP '2020-01-01 08:00:00', array('a', 'b')),
  (2, 'bob', 'Rome', 41, 80.00, DATE '1985-02-28', TIMESTAMP '2020-02-29 09:30:00', array('b')),
  (3, 'cyd', 'Oslo', NULL, 99.99, DATE '2000-02-29', TIMESTAMP '2021-06-15 23:59:59', array()),
  (4, 'dan', NULL, 28, NULL, DATE '1998-07-01', NULL, NULL),
  (5, 'eve', 'Rome', 28, 80.00, NULL, TIMESTAMP '2022-12-31 00:00:00', array('c', 'a', 'c')),
  (6, 'fay', 'Lima', 52, 310.25, DATE '1974-11-30', TIMESTAMP '2019-03-10 12:00:00', array('d', NULL)),
  (7, 'gus', 'Lima', 36, 0.00, DATE '1990-01-01', TIMESTAMP '2023-05-05 05:05:05', array('a')),
  (8, NULL, 'Oslo', 19, 45.10, DATE '2007-04-04', TIMESTAMP '2024-08-08 08:08:08', array('e', 'f'))
  AS people(id, name, city, age, salary, born, joined, tags)
"""
ORDERS = """
SELECT CAST(id AS INT) AS id, CAST(id % 9 AS INT) AS person_id, date_add(DATE '2026-01-01', CAST(id AS INT)) AS day,
  CAST(id * 7 % 50 AS DOUBLE) / 4 AS amount,
  CASE id % 4 WHEN 0 THEN 'open' WHEN 1 THEN 'paid' WHEN 2 THEN 'late' END AS status
FROM range(40)
"""
NESTED = """
SELECT id, named_struct('street', concat('street ', id), 'zip', named_struct('code', id * 11, 'area', 'x')) AS home,
  map('a', id, 'b', id * 2) AS scores, array(named_struct('k', 'x', 'v', id), named_struct('k', 'y', 'v', -id)) AS items,
  concat('{"n": ', id, ', "list": [1, ', id, '], "deep": {"t": "v', id, '"}}') AS json
FROM (SELECT CAST(id AS INT) AS id FROM range(1, 5))
"""
TABLES = {"people": PEOPLE, "orders": ORDERS, "nested": NESTED}


def make(spark: Any, schema: str) -> None:
    """The tables in `schema`, which is current from now on."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {schema}")
    spark.sql(f"USE {schema}")
    for name, query in TABLES.items():
        spark.sql(f"CREATE OR REPLACE TABLE {name} USING iceberg AS {query}")
