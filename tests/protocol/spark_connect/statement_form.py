"""The DataFrame calls that a statement means, where it explains a query, keeps its rows, or merges them."""

from spark_connect.frame_form import NoFrameError, Step, Steps, frame_of, relation, values
from spark_connect.query_text import Reading

_MODES = frozenset({"EXTENDED", "COST", "FORMATTED", "CODEGEN"})
_CHANGES = frozenset({"WHEN", "THEN"})


def statement_frame(text: str) -> Steps:
    """As `frame_of`, for more than queries."""
    reading = Reading(text.strip().rstrip(";"))
    if reading.take("EXPLAIN"):
        mode = reading.one().lower() if reading.peek() in _MODES else "simple"
        return [*frame_of(reading.upto(())), ["explain", mode]]
    if reading.take("CREATE", "TABLE"):
        name = reading.name()
        if not reading.take("AS"):
            raise NoFrameError("CREATE TABLE without rows is said by SQL only")
        return [*frame_of(reading.upto(())), ["create", name]]
    if reading.take("INSERT", "INTO"):
        return _inserting(reading, "append")
    if reading.take("INSERT", "OVERWRITE"):
        return _inserting(reading, "overwrite")
    if reading.take("MERGE", "INTO"):
        return _merging(reading)
    return frame_of(text)


def _inserting(reading: Reading, mode: str) -> Steps:
    name = reading.name()
    if reading.peek() in {"DIRECTORY", "PARTITION", "BY", "REPLACE", "("}:
        raise NoFrameError(f"INSERT with {reading.peek()} is said by SQL only")
    steps = values(reading.upto(())) if reading.take("VALUES") else frame_of(reading.upto(()))
    return [*steps, ["insert", name, mode]]


def _merging(reading: Reading) -> Steps:
    """`["merge", table, alias, condition, changes]` after the frame that is merged."""
    table = reading.name()
    alias = reading.one() if reading.take("AS") or reading.peek() != "USING" else table
    reading.take("USING")
    steps = relation(reading)
    reading.take("ON")
    condition = reading.upto(_CHANGES)
    changes = []
    while reading.take("WHEN"):
        changes.append(_change(reading))
    # A frame names the columns of its target by the table, as it cannot give it another name.
    return [*steps, ["merge", table, alias, condition, changes]]


def _change(reading: Reading) -> Step:
    """When, on what condition, what is done, and with which columns."""
    when = "whenMatched"
    if reading.take("NOT", "MATCHED"):
        when = "whenNotMatchedBySource" if reading.take("BY", "SOURCE") else "whenNotMatched"
    else:
        reading.take("MATCHED")
    condition = reading.upto(_CHANGES) if reading.take("AND") else None
    reading.take("THEN")
    if reading.take("DELETE"):
        return [when, condition, "delete", None]
    if reading.take("INSERT", "*"):
        return [when, condition, "insertAll", None]
    if reading.take("INSERT"):
        names, _, given = reading.one().split(","), reading.take("VALUES"), reading.one().split(",")
        return [when, condition, "insert", {n.strip(): g for n, g in zip(names, given, strict=True)}]
    reading.take("UPDATE", "SET")
    set_to = [item.partition("=") for item in reading.listed({"WHEN"})]
    return [when, condition, "update", {name.strip().split(".")[-1]: value for name, _, value in set_to}]
