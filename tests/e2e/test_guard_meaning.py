"""For whom nothing is restricted the guard changes no answer: a plain Spark says the same.

Three samples: the examples of Spark's own documentation, one by one; generated queries over the tables of the
house; TPC-H. The gateway answers as `otto`, who is no administrator and owns what he reads.
"""

import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from oracle.queries import Generated, queries
from oracle.scope import VIEWS

from bailiwick.testing.ingesting import bring
from bailiwick.testing.leaks import Outcome, ask
from bailiwick.testing.plain_spark import PlainAnswer, PlainSpark
from bailiwick.testing.policy_house import PASSWORD, House
from bailiwick.testing.policy_tables import tables

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

SEED = 77
EXAMPLES_SELECTED = 60
QUERIES_SELECTED = 24
QUERIES_WHOLE = 600
WORKERS = 3
TPCH = sorted((Path(__file__).parent / "tpch").glob("q*.sql"))
SCALE = "0.001"
# What differs from run to run, tells of the machine or who asks, or is refused to everybody.
DIFFERS = re.compile(
    r"\b(rand|randn|random|uuid|shuffle|now|current_\w+|curdate|localtimestamp|unix_timestamp|user|session_user|version|"
    r"input_file_\w+|spark_partition_id|monotonically_increasing_id|reflect|java_method|try_reflect|randstr|uniform|"
    r"sql_keywords|collations|aes_encrypt|from_avro|to_avro|schema_of_avro|from_protobuf|to_protobuf|"
    r"python_worker_logs|kll_\w+|theta_\w+|make_timestamp_ltz|raise_error|assert_true|session_window|window_time|"
    r"approx_top_k\w*|bitmap_\w+|count_min_sketch|hll_\w+|collect_list|any_value|first|last|hash|st_\w+|current)\b",
    re.IGNORECASE,
)
# Types that one of the two clients cannot take.
UNSENT = re.compile(r"\b(to_time|make_time|try_to_time|time_\w+|\w*interval\w*)\b|TIME '", re.IGNORECASE)


def normal(table: pa.Table, *, is_ordered: bool = False) -> tuple[list[str], list[str]]:
    """Types and rows. Time zones of types are the session's on the one side and Spark's on the other."""
    types = [f"{field.name} {str(field.type).replace(' not null', '')}" for field in table.schema]
    rows = [repr(tuple(row.values())) for row in table.to_pylist()]
    return types, rows if is_ordered else sorted(rows)


def difference(mine: Outcome, plain: PlainAnswer) -> str | None:
    """None if they are alike, or if the plain client cannot say: it sends fewer types than the gateway."""
    if plain.error is not None and plain.error.startswith("UNSUPPORTED"):
        return None
    if mine.table is None or plain.table is None:
        is_alike = mine.is_refused and plain.error is not None
        return None if is_alike else f"gateway: {mine.text[:600]}\n plain: {plain.error or 'rows'}"
    return (
        None if normal(mine.table) == normal(plain.table) else f"{normal(mine.table)}\n{normal(plain.table)}"
    )


def asked(house: House, statements: Sequence[str], schema: str = "copy") -> list[Outcome]:
    """By several connections, in the order of the statements."""

    def some(part: Sequence[str]) -> list[Outcome]:
        with house.connected("otto", schema) as connection:
            return [ask(connection, statement) for statement in part]

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(some, [statements[number::WORKERS] for number in range(WORKERS)]))
    return [parts[number % WORKERS][number // WORKERS] for number in range(len(statements))]


def check(
    house: House,
    statements: Sequence[str],
    plain: Sequence[PlainAnswer],
    capsys: pytest.CaptureFixture[str],
    what: str,
) -> None:
    outcomes = asked(house, statements)
    differences = [
        f"{statement}\n {because}"
        for statement, mine, theirs in zip(statements, outcomes, plain, strict=True)
        if (because := difference(mine, theirs))
    ]
    failed = Counter(str(outcome.code) for outcome in outcomes if outcome.code)
    told = f"{len(statements)} compared with a plain Spark, {len(differences)} differ, failed: {dict(failed)}"
    with capsys.disabled():
        print(f"\n{what}: {told}")  # noqa: T201 - the count is part of the proof
    assert not differences, "\n\n".join(differences[:15])
    assert failed.total() < len(statements) / 3


def comparable(examples: dict[str, list[str]]) -> list[str]:
    statements = [statement for each in examples.values() for statement in each]
    return [text for text in statements if not DIFFERS.search(text) and not UNSENT.search(text)]


@pytest.fixture(scope="module")
def examples(plain: PlainSpark) -> list[str]:
    found = comparable(plain.function_examples())
    assert len(found) > 400
    return found


def test_examples_of_sparks_documentation_answer_as_without_a_guard(
    house: House, plain: PlainSpark, examples: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = random.Random(SEED).sample(examples, EXAMPLES_SELECTED)
    check(house, chosen, plain.answers(chosen), capsys, "examples of Spark's functions")


@pytest.mark.full
def test_all_examples_of_sparks_documentation_answer_as_without_a_guard(
    house: House, plain: PlainSpark, examples: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    check(house, examples, plain.answers(examples), capsys, "all examples of Spark's functions")


def over_tables(generated: Sequence[Generated]) -> Iterator[str]:
    """Those that read tables of now: a plain Spark has neither our views nor older versions."""
    for query in generated:
        text = query.statements[0]
        reads_views = any(re.search(rf"\b{view}\b", text) for view in VIEWS)
        if query.is_one_query and not reads_views and "{" not in text and "VERSION AS OF" not in text:
            yield text


@pytest.fixture(scope="module")
def files(house: House, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tables of `copy` as Parquet."""
    directory = tmp_path_factory.mktemp("copy")
    found = {}
    with house.connected("otto", "copy") as connection:
        for table in tables():
            outcome = ask(connection, f"SELECT * FROM {table.name}")
            assert outcome.table is not None, outcome.text
            found[table.name] = directory / f"{table.name}.parquet"
            pyarrow.parquet.write_table(outcome.table, found[table.name])
    return found


@pytest.mark.parametrize("count", [QUERIES_SELECTED, pytest.param(QUERIES_WHOLE, marks=pytest.mark.full)])
def test_generated_queries_answer_as_without_a_guard(
    house: House, plain: PlainSpark, files: dict[str, Path], count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    statements = [text for text in over_tables(queries(SEED, 4 * count)) if "LIMIT" not in text][:count]
    assert len(statements) == count
    check(house, statements, plain.answers(statements, files), capsys, "generated queries")


@pytest.fixture(scope="module")
def tpch(house: House, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """TPC-H as files, and in the lake as tables of otto's."""
    directory = tmp_path_factory.mktemp("tpch")
    generator = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run([generator, "parquet", "--scale-factor", SCALE, "--output-dir", directory], check=True)
    with house.connected("admin") as connection:
        for sql in ("CREATE NAMESPACE lake.tpch_own", "GRANT CREATE ON NAMESPACE lake.tpch_own TO USER otto"):
            assert ask(connection, sql).code is None
    found = {path.stem: path for path in sorted(directory.glob("*.parquet"))}
    for name, path in found.items():
        rows: Any = pyarrow.parquet.read_table(path)
        bring(house.gateway, name, rows, "create", "tpch_own", user="otto", password=PASSWORD)
    return found


def test_tpch_answers_as_without_a_guard(
    house: House, plain: PlainSpark, tpch: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [path.read_text().replace("tpch.", "") for path in TPCH]
    answers = plain.answers(texts, tpch)
    outcomes = asked(house, texts, "tpch_own")
    assert all(answer.table is not None for answer in answers)
    for path, mine, theirs in zip(TPCH, outcomes, answers, strict=True):
        assert mine.table is not None, f"{path.stem}: {mine.text}"
        assert normal(mine.table) == normal(theirs.table), path.stem
    with capsys.disabled():
        print(f"\nTPC-H: {len(texts)} queries compared with a plain Spark, 0 differ")  # noqa: T201
