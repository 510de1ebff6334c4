"""A small lake with people in it who may see different things, for proving that they do.

The schema `house` holds everything, under policies; `copy` holds the same tables as the analyst `ana` may see
them, filtered and masked by hand, with the same history, and no policies. The same text asked by `ana` in
`house` and by the owner `otto` in `copy` must give the same rows. `vault` is for nobody but administrators.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from adbc_driver_manager.dbapi import Error as AdbcError

from bailiwick.testing.gateway import RunningGateway
from bailiwick.testing.policy_tables import COUNTED_VISIBLE, SCHEMAS, VIEWS, groups, tables, views

PASSWORD = "three people in a house"  # noqa: S105 - of people who exist in tests only
PEOPLE: Mapping[str, str] = {
    "ana": "analyst, restricted on nearly everything; makes tables of her own in `desk`",
    "otto": "owner of `copy` and `desk_copy`; restricted nowhere",
    "audra": "auditor: sees `house` whole, because filters and masks exempt the role",
    "eve": "sees people of the US, with other masks than ana",
    "nils": "no privilege at all",
    "wanda": "may read and write `shelf`, where a filter and a mask apply to her",
    "dora": "may do everything to `shelf` but change policy, and is restricted there like wanda",
}
NOBODY = "nils"
_WORKERS = 3
BUILT_IN = {"audra": "auditor"}

FILTERS = (
    "CREATE ROW FILTER eu_only ON TABLE lake.house.people FOR ROLE analyst EXCEPT ROLE auditor "
    "USING (region = 'EU')",
    "CREATE ROW FILTER us_only ON TABLE lake.house.people FOR ROLE us_analyst USING (region = 'US')",
    "CREATE ROW FILTER own_people ON TABLE lake.house.orders FOR ROLE analyst EXCEPT ROLE auditor "
    "USING (person_id IN (SELECT e.person_id FROM lake.vault.entitled e WHERE e.who = current_user()))",
    "CREATE ROW FILTER mild ON TABLE lake.house.events FOR ROLE analyst EXCEPT ROLE auditor "
    "USING (severity <= 3)",
    f"CREATE ROW FILTER few ON TABLE lake.house.counted FOR ROLE analyst USING (n < {COUNTED_VISIBLE})",
    "CREATE ROW FILTER shelf_eu ON TABLE lake.house.shelf FOR ROLE keeper USING (region = 'EU')",
)
MASKS = (
    *(
        f"CREATE MASK {name} ON TABLE lake.house.{table} COLUMN {column} FOR ROLE analyst "
        f"EXCEPT ROLE auditor USING ({using})"
        for name, table, column, using in (
            ("hide_email", "people", "email", "sha2(email, 256)"),
            ("hide_ssn", "people", "ssn", "concat('***-', right(ssn, 2))"),
            ("hide_salary", "people", "salary", "salary % 1000"),
            ("hide_born", "people", "born", "CAST(trunc(born, 'YEAR') AS DATE)"),
            ("hide_city", "people", "home.city", "'somewhere'"),
            ("hide_badge", "people", "badge", "NULL"),
            ("hide_comment", "orders", "comment", "concat(length(comment), ' characters')"),
            ("hide_cost", "products", "cost", "CASE WHEN category = 'open' THEN cost END"),
            ("hide_payload", "events", "payload", "right(payload, 3)"),
        )
    ),
    "CREATE MASK hide_notes ON TABLE lake.house.people COLUMN notes FOR ROLE analyst EXCEPT ROLE auditor "
    "ACTION 'null'",
    "ALTER TABLE lake.house.people ALTER COLUMN phone SET TAGS ('pii')",
    "CREATE MASK pii_hash ON TAG pii FOR ROLE analyst EXCEPT ROLE auditor "
    "USING (sha2(CAST(value AS STRING), 256))",
    *(
        f"CREATE MASK us_{column} ON TABLE lake.house.people COLUMN {column} FOR ROLE us_analyst "
        "EXCEPT ROLE analyst USING (NULL)"
        for column in ("email", "ssn", "salary", "notes", "badge", "phone", "home")
    ),
    "CREATE MASK shelf_ssn ON TABLE lake.house.shelf COLUMN ssn FOR ROLE keeper USING ('hidden')",
)
MEMBERS = (
    ("analyst", "ana"),
    ("us_analyst", "eve"),
    ("keeper", "wanda"),
    ("keeper", "dora"),
    ("checker", "audra"),
)
GRANTS = (
    *(
        f"GRANT SELECT ON TABLE lake.house.{table} TO ROLE {role}"
        for table in ("people", "orders", "products", "events", "regions", "counted")
        for role in ("analyst", "checker")
    ),
    *(
        f"GRANT SELECT ON VIEW lake.house.{view} TO ROLE {role}"
        for view in VIEWS
        for role in ("analyst", "checker")
    ),
    "GRANT SELECT ON TABLE lake.house.people TO ROLE us_analyst",
    "GRANT CREATE ON NAMESPACE lake.desk TO USER ana",
    "GRANT OWN ON NAMESPACE lake.copy TO USER otto",
    "GRANT OWN ON NAMESPACE lake.desk_copy TO USER otto",
    "GRANT SELECT ON TABLE lake.house.shelf TO ROLE keeper",
    "GRANT INSERT ON TABLE lake.house.shelf TO ROLE keeper",
    *(
        f"GRANT {verb} ON TABLE lake.house.shelf TO USER dora"
        for verb in ("UPDATE", "DELETE", "ALTER", "DROP")
    ),
)


@dataclass(slots=True)
class House:
    """A gateway with the house in it. Connections are one a thread: ask for your own by `connected`."""

    gateway: RunningGateway
    places: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By schema: what `{snapshot_events_0}` and the like stand for there."""

    @contextmanager
    def connected(self, person: str, schema: str = "house") -> Iterator[Any]:
        """ADBC, as that person, with that schema current; for nils none, as he may see none."""
        with self._connect(person) as connection:
            if person != NOBODY:
                with connection.cursor() as cursor:
                    cursor.execute(f"USE lake.{schema}")
            yield connection

    def _connect(self, person: str) -> Any:
        return self.gateway.connect() if person == "admin" else self.gateway.connect(person, PASSWORD)

    def filled_in(self, text: str, schema: str) -> str:
        """`text` with the snapshots and times of the tables as that schema has them."""
        for place, value in self.places[schema].items():
            text = text.replace(f"{{{place}}}", value)
        return text


def furnish(gateway: RunningGateway) -> House:
    """Make the tables, the people and the policies."""
    house = House(gateway)
    _run(gateway, [f"CREATE NAMESPACE lake.{schema}" for schema in SCHEMAS])
    with ThreadPoolExecutor(_WORKERS) as pool:
        for done in [pool.submit(_run, gateway, group) for group in (*groups(), [*_people()])]:
            done.result()
    _run(gateway, [*views(), *FILTERS, *MASKS, *GRANTS])
    with gateway.connect() as connection, connection.cursor() as cursor:
        for schema in ("house", "copy"):
            own = "desk" if schema == "house" else "desk_copy"
            house.places[schema] = {
                "own": f"lake.{own}",
                "schema": f"lake.{schema}",
                **_history(cursor, schema),
            }
    return house


def _run(gateway: RunningGateway, statements: Sequence[str]) -> None:
    with gateway.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            try:
                cursor.execute(statement)
            except AdbcError as error:
                raise RuntimeError(f"the house cannot be made: {statement[:300]}: {error}") from error


def _people() -> Iterator[str]:
    for person in PEOPLE:
        roles = BUILT_IN.get(person, "reader")
        yield f"CREATE USER {person} PASSWORD '{PASSWORD}' ROLES ({roles})"
    for role in sorted({role for role, _ in MEMBERS}):
        yield f"CREATE ROLE {role}"
    for role, person in MEMBERS:
        yield f"GRANT ROLE {role} TO USER {person}"


def _history(cursor: Any, schema: str) -> dict[str, str]:
    """Snapshots and their times, by table and number."""
    places = {}
    for table in tables():
        name = f"lake.{schema}.{table.name}"
        at = "date_format(made_current_at, 'yyyy-MM-dd HH:mm:ss.SSS')"
        cursor.execute(f"SELECT snapshot_id, {at} FROM {name}.history ORDER BY made_current_at")  # noqa: S608
        for number, (snapshot, when) in enumerate(cursor.fetchall()):
            places[f"snapshot_{table.name}_{number}"] = str(snapshot)
            places[f"time_{table.name}_{number}"] = str(when)
    return places
