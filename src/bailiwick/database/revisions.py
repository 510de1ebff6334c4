"""How often what gateways hold in memory was changed: a number a topic, in the database.

Whoever changes a topic advances its number in the same transaction, and may say which number they know of:
if it is another by now, somebody else was first, and nothing is changed. On PostgreSQL the other gateways are
told when the transaction commits (see `changes.py`).
"""

from typing import Final

from sqlalchemy import Connection, select, text

from bailiwick.database.schema import revisions as table

POLICY: Final = "policy"
USERS: Final = "users"
TOKENS: Final = "tokens"
CANCELLATIONS: Final = "cancellations"
CHANNEL: Final = "bailiwick"
"""Where PostgreSQL tells of changes: `<revision> <topic>`."""

UNKNOWN: Final = -1
"""The revision of what is held in memory by one who does not know whether it is true."""

_ADVANCE = text(
    "INSERT INTO revisions (topic, revision) VALUES (:topic, 1) "
    "ON CONFLICT (topic) DO UPDATE SET revision = revisions.revision + 1 RETURNING revision"
)
_NOTIFY = text(f"SELECT pg_notify('{CHANNEL}', :said)")


class OvertakenError(Exception):
    """Somebody else changed the topic since one looked. Nothing was changed: look again."""


def catalog_topic(catalog: str) -> str:
    return f"catalog {catalog}"


def current(connection: Connection, topic: str) -> int:
    """The topic's revision, 0 before the first change."""
    found = connection.execute(select(table.c.revision).where(table.c.topic == topic)).scalar_one_or_none()
    return 0 if found is None else int(found)


def all_current(connection: Connection) -> dict[str, int]:
    """Of every topic that was ever changed."""
    rows = connection.execute(select(table.c.topic, table.c.revision)).all()
    return {row.topic: row.revision for row in rows}


def advance(connection: Connection, topic: str, *, expected: int | None = None) -> int:
    """The topic's next revision. Part of the caller's transaction, which must be one that writes.

    Raises OvertakenError if the topic is not at `expected`, where that is given.
    """
    if expected is not None and current(connection, topic) != expected:
        raise OvertakenError(topic)
    revision = int(connection.execute(_ADVANCE, {"topic": topic}).scalar_one())
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"said": f"{revision} {topic}"})
    return revision


def parse(said: str) -> tuple[str, int] | None:
    """The topic and the revision of what was told on the channel; None if it makes no sense."""
    number, _, topic = said.partition(" ")
    return (topic, int(number)) if topic and number.isdecimal() and len(number) <= 18 else None
