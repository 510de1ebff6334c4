"""The catalog's pointers in the metadata database, by SQLAlchemy Core.

Every change is one statement that only acts if what it relies on still holds, and says by the number of rows
whether it did; all the changes of a commit are one transaction.
"""

import json
from collections.abc import Sequence
from typing import Any, assert_never

from sqlalchemy import Connection, Engine, and_, delete, func, insert, literal, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.elements import ColumnElement

from bailiwick.catalog.backend import (
    CatalogBackend,
    Change,
    ConcurrentChangeError,
    Create,
    CreateNamespace,
    Drop,
    DropNamespace,
    Entry,
    Kind,
    Rename,
    SetNamespaceProperties,
    Stored,
    Swap,
)
from bailiwick.database.schema import catalog_namespaces as namespaces
from bailiwick.database.schema import catalog_objects as objects
from bailiwick.names import Namespace, TableName, joined, parted


class SqlBackend(CatalogBackend):
    """Keeps one catalog of possibly many in the same tables. `engine` must be one that may write."""

    def __init__(self, engine: Engine, catalog: str = "lake") -> None:
        self._engine = engine
        self._catalog = catalog

    def load(self) -> Stored:
        with self._engine.begin() as connection:
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
        )

    def apply(self, changes: Sequence[Change]) -> None:
        try:
            with self._engine.begin() as connection:
                for change in changes:
                    if self._rows_of(connection, change) != 1:
                        raise ConcurrentChangeError
        except IntegrityError as error:
            raise ConcurrentChangeError from error

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


def _rows(connection: Connection, statement: Any) -> int:
    return int(connection.execute(statement).rowcount)
