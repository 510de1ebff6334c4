# ruff: noqa: E501 - one attempt a line
"""Functions: what calls Java, tells of files and machines, or who asks."""

import pytest

from attacks.attempt import Attacker, Attempt, gives, harmless, refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SIDE_BY_SIDE = True

HIDDEN_COLUMNS = ("_file", "_pos", "_partition", "_spec_id", "_deleted", "_metadata", "_metadata.file_path")

ATTEMPTS: tuple[Attempt, ...] = (
    *(
        refused(f"{name} reads the environment", f"SELECT {name}('java.lang.System', 'getenv', 'PATH')")
        for name in ("reflect", "java_method", "try_reflect")
    ),
    refused("reflect over hidden rows", "SELECT reflect('java.lang.String', 'valueOf', ssn) FROM people"),
    refused(
        "reflect in a filter",
        "SELECT 1 FROM people WHERE reflect('java.util.UUID', 'randomUUID') IS NOT NULL",
    ),
    refused("reflect in another case", "SELECT ReFlEcT('java.lang.System', 'lineSeparator')"),
    *(
        refused(f"{name} of a restricted table", f"SELECT {name}() FROM people")
        for name in ("input_file_name", "input_file_block_start", "input_file_block_length")
    ),
    refused("file name of an unrestricted table", "SELECT input_file_name() FROM regions"),
    *(refused(f"hidden column {name}", f"SELECT {name} FROM people") for name in HIDDEN_COLUMNS),
    *(
        refused(f"hidden column {name} in a filter", f"SELECT id FROM events WHERE {name} IS NOT NULL")
        for name in HIDDEN_COLUMNS[:2]
    ),
    refused("row ids", "SELECT _row_id, _last_updated_sequence_number FROM people"),
    refused("a descriptor file", "SELECT from_protobuf(to_binary('00', 'hex'), 'M', '/etc/passwd')"),
    harmless(
        "a document that names a file",
        "SELECT xpath_string('<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>', 'a')",
    ),
    harmless(
        "XML that names a file",
        "SELECT from_xml('<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a><c>&b;</c></a>', 'c STRING')",
    ),
    refused("logs of Python workers", "SELECT * FROM python_worker_logs()"),
    refused("a streaming state", "SELECT * FROM read_statestore('/tmp')"),
    refused("Kafka", "SELECT * FROM read_kafka(bootstrapServers => 'localhost')"),
    refused("a function of a class", "SELECT `java.lang.System.exit`(0)"),
    refused("the catalog's functions of another catalog", "SELECT spark_catalog.default.f(1)"),
    gives("who asks", "SELECT current_user(), session_user(), user()", rows=[("ana",) * 3]),
    gives("who asks in a restricted query", "SELECT DISTINCT current_user() FROM orders", rows=[("ana",)]),
    gives(
        "who asks under a name of one's own",
        "SELECT current_user FROM VALUES ('otto') AS v(current_user)",
        rows=[("otto",)],
    ),
    harmless("the version", "SELECT version(), current_catalog(), current_timezone()"),
    harmless(
        "where rows lie",
        "SELECT spark_partition_id(), monotonically_increasing_id(), id FROM counted WHERE n < 100",
    ),
    gives(
        "partitions of the catalog",
        "SELECT count(*) FROM people WHERE lake.system.bucket(4, ssn) >= 0",
        rows=[(24,)],
    ),
    gives(
        "a checksum over masked columns", "SELECT count(DISTINCT hash(notes, badge)) FROM people", rows=[(1,)]
    ),
    gives(
        "typeof a masked column",
        "SELECT DISTINCT typeof(salary), typeof(badge) FROM people",
        rows=[("decimal(10,2)", "string")],
    ),
    harmless("a whole row as JSON", "SELECT to_json(struct(*)) FROM people"),
    harmless("a whole row as XML", "SELECT to_xml(struct(people.*)) FROM people"),
    harmless("a whole row as CSV", "SELECT to_csv(struct(id, name, ssn, email, notes)) FROM people"),
    harmless("a whole row as a variant", "SELECT to_variant_object(struct(*)) FROM orders"),
    harmless(
        "sketches of masked columns",
        "SELECT hex(hll_sketch_agg(ssn)), hex(bitmap_construct_agg(id)) FROM people",
    ),
    harmless(
        "most frequent values",
        "SELECT approx_top_k(email), mode(ssn), histogram_numeric(salary, 5) FROM people",
    ),
    harmless(
        "every value in one", "SELECT listagg(ssn, ','), collect_list(home), max_by(email, ssn) FROM people"
    ),
    harmless(
        "percentiles of hidden numbers",
        "SELECT percentile(salary, array(0, 0.5, 1)), stddev(salary) FROM people",
    ),
    harmless(
        "how many characters",
        "SELECT max(length(notes)), max(octet_length(badge)), max(bit_length(ssn)) FROM people",
    ),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_a_function_shows_nothing_hidden(attacker: Attacker, attempt: Attempt) -> None:
    attacker.judge(attempt)
