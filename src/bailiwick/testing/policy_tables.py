"""The tables of the policy house, with their rows and history. Who may see them is said in `policy_house`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bailiwick.testing import policy_rows as rows
from bailiwick.testing.policy_rows import VEIL, Veiled

COUNTED_ROWS = 4711
"""Rows of `counted`, of which the analyst sees `COUNTED_VISIBLE`: a number that stands nowhere by chance."""
COUNTED_VISIBLE = 7
SCHEMAS = ("house", "copy", "vault", "desk", "desk_copy")


@dataclass(frozen=True, slots=True)
class Step:
    """One commit: rows to add, or a condition by which to delete."""

    adds: tuple[Veiled, ...] = ()
    deletes: str | None = None


@dataclass(frozen=True, slots=True)
class HouseTable:
    name: str
    columns: tuple[tuple[str, str], ...]
    """Name and type; the type may end in NOT NULL, which the copy does without."""
    steps: tuple[Step, ...]
    partitioned: str | None = None

    def create(self, schema: str, *, is_copy: bool) -> str:
        columns = ", ".join(
            f"{name} {type_.removesuffix(' NOT NULL') if is_copy else type_}" for name, type_ in self.columns
        )
        partitions = f" PARTITIONED BY ({self.partitioned})" if self.partitioned else ""
        return f"CREATE TABLE lake.{schema}.{self.name} ({columns}) USING iceberg{partitions}"

    def change(self, schema: str, step: Step, *, is_copy: bool) -> str:
        if step.deletes is not None:
            return f"DELETE FROM lake.{schema}.{self.name} WHERE {step.deletes}"  # noqa: S608
        chosen = rows.permitted_of(step.adds) if is_copy else rows.raw_of(step.adds)
        names = ", ".join(name for name, _ in self.columns)
        casts = ", ".join(
            f"CAST({name} AS {type_.removesuffix(' NOT NULL')})" for name, type_ in self.columns
        )
        given = rows.values(chosen)
        return f"INSERT INTO lake.{schema}.{self.name} SELECT {casts} FROM VALUES {given} AS v({names})"  # noqa: S608


def tables() -> tuple[HouseTable, ...]:
    """The tables that `house` and `copy` both have."""
    numbers = rows.Numbers()
    return (_people(numbers), _orders(numbers), _products(numbers), _events(numbers), _regions())


def _people(numbers: rows.Numbers) -> HouseTable:
    some, others = [*rows.EU_PEOPLE][:16], [*rows.OTHER_PEOPLE][:10]
    more = [*[*rows.EU_PEOPLE][16:], *[*rows.OTHER_PEOPLE][10:]]
    columns = (
        ("id", "INT NOT NULL"),
        ("name", "STRING"),
        ("email", "STRING"),
        ("ssn", "STRING NOT NULL"),
        ("region", "STRING"),
        ("salary", "DECIMAL(10,2)"),
        ("score", "DOUBLE"),
        ("born", "DATE"),
        ("home", "STRUCT<city: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>>"),
        ("tags", "ARRAY<STRING>"),
        ("phone", "STRING"),
        ("notes", "STRING"),
        ("badge", "STRING NOT NULL"),
        ("manager", "INT"),
    )
    first = Step(tuple(rows.people(numbers, [*some, *others], seed=1)))
    return HouseTable("people", columns, (first, Step(tuple(rows.people(numbers, more, seed=2)))), "region")


def _orders(numbers: rows.Numbers) -> HouseTable:
    columns = (
        ("id", "BIGINT"),
        ("person_id", "INT"),
        ("region", "STRING"),
        ("amount", "DECIMAL(12,2)"),
        ("status", "STRING"),
        ("placed", "TIMESTAMP"),
        ("items", "ARRAY<STRUCT<sku: STRING, qty: INT>>"),
        ("attributes", "MAP<STRING, STRING>"),
        ("comment", "STRING"),
    )
    first = Step(tuple(rows.orders(numbers, range(1, 41), seed=3)))
    more = Step(tuple(rows.orders(numbers, range(41, 71), seed=4)))
    return HouseTable("orders", columns, (first, more), "days(placed)")


def _products(numbers: rows.Numbers) -> HouseTable:
    columns = (
        ("sku", "STRING NOT NULL"),
        ("title", "STRING"),
        ("price", "DECIMAL(8,2)"),
        ("cost", "DECIMAL(10,2)"),
        ("category", "STRING"),
    )
    return HouseTable("products", columns, (Step(tuple(rows.products(numbers))),))


def _events(numbers: rows.Numbers) -> HouseTable:
    columns = (
        ("id", "INT"),
        ("person_id", "INT"),
        ("kind", "STRING"),
        ("at", "TIMESTAMP"),
        ("payload", "STRING"),
        ("severity", "INT"),
        ("weight", "INT"),
    )
    first = Step(tuple(rows.events(numbers, range(1, 31), seed=5)))
    more = Step(tuple(rows.events(numbers, range(31, 46), seed=6)))
    return HouseTable("events", columns, (first, more, Step(deletes="id % 10 = 3")), "kind")


def _regions() -> HouseTable:
    columns = (("code", "STRING"), ("title", "STRING"), ("rank", "INT"))
    return HouseTable("regions", columns, (Step(tuple(rows.regions())),))


VIEWS: Mapping[str, str] = {
    "open_orders": "SELECT o.id, o.person_id, o.amount, o.status, o.comment, p.name, p.salary, p.email "
    "FROM lake.{schema}.orders o LEFT JOIN lake.{schema}.people p ON p.id = o.person_id WHERE o.amount > 10",
    "by_region": "SELECT region, count(*) AS people, sum(salary) AS paid, max(ssn) AS last_ssn "
    "FROM lake.{schema}.people GROUP BY region",
    "over_view": "SELECT v.person_id, count(v.name) AS named, max(v.comment) AS said "
    "FROM lake.{schema}.open_orders v GROUP BY v.person_id",
}


def groups() -> list[list[str]]:
    """All that makes tables and views, once the schemas are there: groups that may be run side by side."""
    parted = [_table(table, schema) for schema in ("house", "copy") for table in tables()]
    return [*parted, _counted("house", COUNTED_ROWS), _counted("copy", COUNTED_VISIBLE), [*_extras()]]


def views() -> Iterator[str]:
    for schema in ("house", "copy"):
        for name, text in VIEWS.items():
            yield f"CREATE VIEW lake.{schema}.{name} AS {text.format(schema=schema)}"


def _table(table: HouseTable, schema: str) -> list[str]:
    is_copy = schema == "copy"
    made = [table.create(schema, is_copy=is_copy)]
    made += [table.change(schema, step, is_copy=is_copy) for step in table.steps]
    if table.name == "events":
        made.append(f"ALTER TABLE lake.{schema}.events CREATE BRANCH side")
        made.append(f"DELETE FROM lake.{schema}.events.branch_side WHERE id % 10 = 4")  # noqa: S608
    if table.name == "people":
        made.append(f"ALTER TABLE lake.{schema}.people CREATE TAG hired")
    return made


def _counted(schema: str, count: int) -> list[str]:
    text = f"concat(IF(id < {COUNTED_VISIBLE}, 'row-', '{VEIL}-row-'), id)"
    rows_of = f"SELECT id, {text} FROM range(0, {count}, 1, 2)"  # noqa: S608
    table = f"lake.{schema}.counted"
    return [f"CREATE TABLE {table} (n BIGINT, text STRING)", f"INSERT INTO {table} {rows_of}"]


def _extras() -> Iterator[str]:
    """What the attacks need besides."""
    yield "CREATE TABLE lake.vault.entitled (who STRING, person_id INT)"
    entitled = ", ".join(f"('ana', {person})" for person in sorted(rows.ENTITLED))
    yield f"INSERT INTO lake.vault.entitled VALUES {entitled}, ('somebody', 9021999)"  # noqa: S608
    yield "CREATE TABLE lake.vault.secrets (id INT, word STRING)"
    words = f"(1, '{VEIL}-vault-word'), (9021998, '{VEIL}-other')"
    yield f"INSERT INTO lake.vault.secrets VALUES {words}"  # noqa: S608
    yield "CREATE VIEW lake.vault.peep AS SELECT word AS veiled_column FROM lake.vault.secrets"
    yield "CREATE TABLE lake.house.shelf (id INT, ssn STRING, region STRING) PARTITIONED BY (region)"
    shelf = f"(1, '{VEIL}-a', 'EU'), (2, '{VEIL}-b', 'EU'), (3, '{VEIL}-c', 'US')"
    yield f"INSERT INTO lake.house.shelf VALUES {shelf}"  # noqa: S608
