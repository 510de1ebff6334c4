"""The catalog's pointers in the metadata database, by SQLAlchemy Core.

Every change is one statement that only acts if what it relies on still holds, and says by the number of rows
whether it did; all the changes of a commit are one transaction. Where several gateways share the database,
one that the others have given up on may not commit any more.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self, assert_never

from sqlalchemy import Connection, Engine, and_, delete, func, insert, literal, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.elements import ColumnElement

from bailiwick.catalog.backend import (
    OUTCOMES_MAX,
    CatalogBackend,
    Change,
    ConcurrentChangeError,
    Create,
    CreateNamespace,
    Drop,
    DropNamespace,
    Entry,
    Kind,
    Outcome,
    Place,
    Remember,
    Rename,
    SetNamespaceProperties,
    Stored,
    Swap,
)
from bailiwick.catalog.refusals import UnavailableError
from bailiwick.database import revisions
from bailiwick.database.database import Database
from bailiwick.database.errors import given_up_on
from bailiwick.database.schema import catalog_namespaces as namespaces
from bailiwick.database.schema import catalog_objects as objects
from bailiwick.database.schema import catalog_outcomes as outcomes
from bailiwick.database.schema import gateways
from bailiwick.errors import BailiwickError
from bailiwick.ids import GatewayId
from bailiwick.names import Namespace, TableName, joined, parted


class SqlBackend(CatalogBackend):
    """Keeps one catalog of possibly many in the same tables. `engine` must be one that may write."""

    def __init__(
        self,
        engine: Engine,
        catalog: str = "lake",
        *,
        reads: Engine | None = None,
        owner: Callable[[], GatewayId | None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._reads = engine if reads is None else reads
        self._catalog = catalog
        self._topic = revisions.catalog_topic(catalog)
        # SQLite belongs to one gateway; anything else has room for others.
        self._is_shared = engine.dialect.name != "sqlite"
        self._owner = owner

    @classmethod
    def over(
        cls, database: Database, catalog: str, owner: Callable[[], GatewayId | None] = lambda: None
    ) -> Self:
        """`owner` says which gateway commits, if there are several; others may have given up on it."""
        return cls(database.synchronous, catalog, reads=database.synchronous_reads, owner=owner)

    @property
    def is_shared(self) -> bool:
        return self._is_shared

    def revision(self) -> int:
        with _nothing_done(), self._reads.begin() as connection:
            return revisions.current(connection, self._topic)

    def load(self) -> Stored:
        with _nothing_done(), self._reads.begin() as connection:
            revision = revisions.current(connection, self._topic)
            levels = connection.execute(
                select(namespaces.c.namespace, namespaces.c.properties).where(
                    namespaces.c.catalog == self._catalog
                )
            ).all()
            rows = connection.execute(
                select(
                    objects.c.namespace,
                    objects.c.name,
                    objects.c.kind,
                    objects.c.uuid,
                    objects.c.metadata_location,
                ).where(objects.c.catalog == self._catalog)
            ).all()
        return Stored(
            {parted(namespace): json.loads(properties) for namespace, properties in levels},
            {
                TableName(parted(namespace), name): Entry(Kind(kind), uuid, location)
                for namespace, name, kind, uuid, location in rows
            },
            revision,
        )

    def apply(self, changes: Sequence[Change]) -> int:
        with ExitStack() as stack:
            with _nothing_done():
                connection = stack.enter_context(self._engine.connect())
                revision = self._made(connection, changes)
            # From here on a failure leaves open whether it was done.
            connection.commit()
            return revision

    def _made(self, connection: Connection, changes: Sequence[Change]) -> int:
        self._check_owner(connection)
        for change in changes:
            if self._rows_of(connection, change) != 1:
                raise ConcurrentChangeError
        return revisions.advance(connection, self._topic)

    def _check_owner(self, connection: Connection) -> None:
        """What a gateway does after its queries were declared lost must not come to pass."""
        owner = self._owner()
        if owner is not None:
            is_there = select(gateways.c.id).where(gateways.c.id == owner)
            if connection.execute(is_there).first() is None:
                raise given_up_on()

    def _rows_of(self, connection: Connection, change: Change) -> int:
        match change:
            case CreateNamespace(namespace, properties):
                return self._create_namespace(connection, namespace, json.dumps(dict(properties)))
            case SetNamespaceProperties(namespace, properties):
                statement = update(namespaces).where(self._is_namespace(namespace))
                return _rows(connection, statement.values(properties=json.dumps(dict(properties))))
            case DropNamespace(namespace):
                return self._drop_namespace(connection, namespace)
            case Create(name, entry):
                return self._create(connection, name, entry)
            case Swap(name, old, new):
                statement = update(objects).where(self._is_object(name, old))
                return _rows(
                    connection, statement.values(uuid=new.uuid, metadata_location=new.metadata_location)
                )
            case Drop(name, old):
                return _rows(connection, delete(objects).where(self._is_object(name, old)))
            case Rename(name, new_name, entry):
                # The foreign key refuses a namespace that is not there, the primary key a name that is taken.
                statement = update(objects).where(self._is_object(name, entry), self._has(new_name.namespace))
                return _rows(
                    connection, statement.values(namespace=joined(new_name.namespace), name=new_name.name)
                )
            case Remember(outcome, forget_before):
                return self._remember(connection, outcome, forget_before)
            case _:
                assert_never(change)

    def _create_namespace(self, connection: Connection, namespace: Namespace, properties: str) -> int:
        values = select(literal(self._catalog), literal(joined(namespace)), literal(properties))
        if namespace[:-1]:
            values = values.where(self._has(namespace[:-1]))
        return _rows(
            connection, insert(namespaces).from_select(["catalog", "namespace", "properties"], values)
        )

    def _drop_namespace(self, connection: Connection, namespace: Namespace) -> int:
        text = joined(namespace)
        prefix = f"{text}\x1f"
        below = namespaces.alias("below")
        statement = delete(namespaces).where(
            self._is_namespace(namespace),
            ~select(objects.c.name)
            .where(objects.c.catalog == self._catalog, objects.c.namespace == text)
            .exists(),
            ~select(below.c.namespace)
            .where(below.c.catalog == self._catalog, func.substr(below.c.namespace, 1, len(prefix)) == prefix)
            .exists(),
        )
        return _rows(connection, statement)

    def _create(self, connection: Connection, name: TableName, entry: Entry) -> int:
        columns = ["catalog", "namespace", "name", "kind", "uuid", "metadata_location"]
        values = select(
            literal(self._catalog),
            literal(joined(name.namespace)),
            literal(name.name),
            literal(entry.kind.value),
            literal(entry.uuid),
            literal(entry.metadata_location),
        ).where(self._has(name.namespace))
        return _rows(connection, insert(objects).from_select(columns, values))

    def outcome(self, key: str) -> Outcome | None:
        with _nothing_done(), self._reads.begin() as connection:
            statement = select(outcomes).where(outcomes.c.catalog == self._catalog, outcomes.c.key == key)
            row = connection.execute(statement).one_or_none()
        if row is None:
            return None
        places = tuple(_place(item) for item in json.loads(row.places))
        return Outcome(row.key, row.principal, row.tenant, row.route, row.digest, places, row.done_at)

    def known_since(self) -> float:
        statement = select(func.min(outcomes.c.sequence), func.min(outcomes.c.done_at))
        with _nothing_done(), self._reads.begin() as connection:
            first, done_at = connection.execute(statement).one()
        # The first that ever was is still there: then nothing was forgotten.
        return 0.0 if first in (None, 1) else float(done_at)

    def _remember(self, connection: Connection, outcome: Outcome, forget_before: float) -> int:
        last = connection.execute(select(func.coalesce(func.max(outcomes.c.sequence), 0))).scalar_one()
        too_old = or_(outcomes.c.done_at < forget_before, outcomes.c.sequence <= last + 1 - OUTCOMES_MAX)
        connection.execute(delete(outcomes).where(too_old))
        values = {
            "sequence": last + 1,
            "catalog": self._catalog,
            "key": outcome.key,
            "principal": outcome.principal,
            "tenant": outcome.tenant,
            "route": outcome.route,
            "digest": outcome.digest,
            "places": json.dumps([_written(place) for place in outcome.places]),
            "done_at": outcome.done_at,
        }
        return _rows(connection, insert(outcomes).values(values))

    def _has(self, namespace: Namespace) -> ColumnElement[bool]:
        known = namespaces.alias("known")
        return (
            select(known.c.namespace)
            .where(known.c.catalog == self._catalog, known.c.namespace == joined(namespace))
            .exists()
        )

    def _is_namespace(self, namespace: Namespace) -> ColumnElement[bool]:
        return and_(namespaces.c.catalog == self._catalog, namespaces.c.namespace == joined(namespace))

    def _is_object(self, name: TableName, entry: Entry) -> ColumnElement[bool]:
        return and_(
            objects.c.catalog == self._catalog,
            objects.c.namespace == joined(name.namespace),
            objects.c.name == name.name,
            objects.c.kind == entry.kind.value,
            objects.c.metadata_location == entry.metadata_location,
        )


@contextmanager
def _nothing_done() -> Iterator[None]:
    """Around what changes nothing yet."""
    try:
        yield
    except IntegrityError as error:
        raise ConcurrentChangeError from error
    except BailiwickError as error:
        raise UnavailableError(error.message, cause_text=error.cause_text) from error


def _written(place: Place) -> list[Any]:
    entry = place.entry
    return [list(place.name.parts), entry.kind.value, entry.uuid, entry.metadata_location]


def _place(written: list[Any]) -> Place:
    (*namespace, name), kind, uuid, location = written
    return Place(TableName(tuple(namespace), name), Entry(Kind(kind), uuid, location))


def _rows(connection: Connection, statement: Any) -> int:
    # Asked for in so many words: of what was inserted the driver's count is not kept otherwise.
    return int(connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount)
