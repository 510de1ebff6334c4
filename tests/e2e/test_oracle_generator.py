"""What the oracle asks: the same for the same seed, and something of everything that a query can be."""

import re
from functools import cache

import pytest
from oracle.queries import queries
from oracle.scope import TABLES

CONSTRUCTS = {
    "inner joins": r" JOIN ",
    "outer joins": r"(LEFT|RIGHT|FULL) JOIN",
    "semi joins": r"LEFT (SEMI|ANTI) JOIN",
    "cross joins": r"CROSS JOIN",
    "self joins": r"people[^,(]* JOIN people|events[^,(]* JOIN events",
    "windows": r" OVER \(",
    "common tables": r"^WITH ",
    "unions": r"\) UNION (ALL )?\(",
    "differences": r"\) EXCEPT (ALL )?\(",
    "intersections": r"\) INTERSECT (ALL )?\(",
    "EXISTS": r"WHERE (NOT )?EXISTS \(",
    "IN": r" IN \(SELECT",
    "NOT IN": r" NOT IN \(SELECT",
    "scalars": r"SELECT \(SELECT max",
    "groups": r"GROUP BY \d",
    "rollups": r"ROLLUP \(",
    "cubes": r"CUBE \(",
    "grouping sets": r"GROUPING SETS",
    "HAVING": r" HAVING ",
    "filtered aggregates": r"FILTER \(WHERE",
    "laterals": r", LATERAL ",
    "lateral views": r"LATERAL VIEW",
    "pivots": r" PIVOT ",
    "unpivots": r" UNPIVOT ",
    "pipes": r"\|> ",
    "versions": r"VERSION AS OF \{",
    "times": r"TIMESTAMP AS OF",
    "branches": r"branch_side|AS OF 'side'",
    "tags": r"tag_hired|AS OF 'hired'",
    "distinct": r"SELECT DISTINCT",
    "order and limit": r"ORDER BY .* LIMIT \d+ OFFSET",
    "CASE": r"CASE WHEN",
    "fields of structs": r"home\.(city|geo)",
    "arrays": r"transform\(|array_join\(r\d+\.tags",
    "maps": r"attributes\[|map_keys",
    "tables of one's own": r"CREATE TABLE \{own\}",
    "inserts": r"INSERT INTO \{own\}",
    "merges": r"MERGE INTO \{own\}",
    "updates": r"UPDATE \{own\}",
    "deletions": r"DELETE FROM \{own\}",
    "overwrites": r"INSERT OVERWRITE \{own\}",
}


@cache
def texts(count: int = 1500) -> tuple[str, ...]:
    return tuple(statement for query in queries(1, count) for statement in query.statements)


def test_a_seed_gives_the_same_queries_each_time() -> None:
    assert queries(5, 200) == queries(5, 200)
    assert queries(5, 200) != queries(6, 200)


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_every_construct_is_asked(construct: str) -> None:
    pattern = re.compile(CONSTRUCTS[construct])
    assert len([text for text in texts() if pattern.search(text)]) >= 3


@pytest.mark.parametrize("table", TABLES)
def test_every_table_and_view_is_asked(table: str) -> None:
    assert len([text for text in texts(300) if re.search(rf"\b{table}\b", text)]) > 5
