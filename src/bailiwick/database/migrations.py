"""How a database came to look as it does: numbered steps, each done whole or not at all.

A step, once released, is never edited; the next change is the next step. Steps are written in the SQL that
SQLite and PostgreSQL share, where there is one (`InWordsOf` where there is not), and do not use `schema.py`,
which moves on. Several gateways may start on one database at once: each step is made by one of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from bailiwick.clock import Clock, wall
from bailiwick.database.errors import NewerDatabaseError


@dataclass(frozen=True, slots=True)
class InWordsOf:
    """The same in each of the two."""

    sqlite: tuple[str, ...]
    postgresql: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    description: str
    statements: tuple[str | InWordsOf, ...]

    def in_words_of(self, dialect: str) -> Iterator[str]:
        for statement in self.statements:
            if isinstance(statement, str):
                yield statement
            else:
                yield from statement.sqlite if dialect == "sqlite" else statement.postgresql


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        "users, tokens, the catalog's pointers, the history of queries",
        (
            """
            CREATE TABLE users (
                name TEXT NOT NULL PRIMARY KEY,
                roles TEXT NOT NULL,
                tenant TEXT NOT NULL,
                password_hash TEXT,
                generation BIGINT NOT NULL,
                disabled BOOLEAN NOT NULL,
                created_at DOUBLE PRECISION NOT NULL
            )
            """,
            """
            CREATE TABLE tokens (
                id TEXT NOT NULL PRIMARY KEY,
                user_name TEXT NOT NULL,
                secret_hash TEXT NOT NULL,
                created_at DOUBLE PRECISION NOT NULL,
                expires_at DOUBLE PRECISION NOT NULL,
                revoked_at DOUBLE PRECISION,
                FOREIGN KEY (user_name) REFERENCES users (name) ON DELETE CASCADE
            )
            """,
            "CREATE INDEX tokens_user_name ON tokens (user_name)",
            """
            CREATE TABLE catalog_namespaces (
                catalog TEXT NOT NULL,
                namespace TEXT NOT NULL,
                properties TEXT NOT NULL,
                PRIMARY KEY (catalog, namespace)
            )
            """,
            """
            CREATE TABLE catalog_objects (
                catalog TEXT NOT NULL,
                namespace TEXT NOT NULL,
                name TEXT NOT NULL,
                kind TEXT NOT NULL,
                uuid TEXT NOT NULL,
                metadata_location TEXT NOT NULL,
                PRIMARY KEY (catalog, namespace, name),
                FOREIGN KEY (catalog, namespace) REFERENCES catalog_namespaces (catalog, namespace),
                CONSTRAINT catalog_objects_kind CHECK (kind IN ('table', 'view'))
            )
            """,
            """
            CREATE TABLE queries (
                id TEXT NOT NULL PRIMARY KEY,
                principal TEXT NOT NULL,
                tenant TEXT NOT NULL,
                door TEXT NOT NULL,
                sql TEXT NOT NULL,
                kind TEXT,
                state TEXT NOT NULL,
                node_id TEXT,
                error_code TEXT,
                error_message TEXT,
                created_at DOUBLE PRECISION NOT NULL,
                started_at DOUBLE PRECISION,
                finished_at DOUBLE PRECISION,
                rows BIGINT NOT NULL,
                bytes BIGINT NOT NULL
            )
            """,
            "CREATE INDEX queries_created_at ON queries (created_at)",
            "CREATE INDEX queries_state ON queries (state)",
        ),
    ),
    Migration(
        2,
        "what happened, entry by entry, each bound to the one before it",
        (
            """
            CREATE TABLE audit (
                sequence BIGINT NOT NULL PRIMARY KEY,
                at DOUBLE PRECISION NOT NULL,
                principal TEXT NOT NULL,
                actor TEXT,
                query_id TEXT,
                entry TEXT NOT NULL,
                previous TEXT NOT NULL,
                hash TEXT NOT NULL
            )
            """,
            "CREATE INDEX audit_at ON audit (at)",
            "CREATE INDEX audit_principal ON audit (principal)",
            "CREATE INDEX audit_actor ON audit (actor)",
            "CREATE INDEX audit_query_id ON audit (query_id)",
            # An entry comes after all others, and stays as it is.
            InWordsOf(
                sqlite=(
                    """
                    CREATE TRIGGER audit_is_appended BEFORE INSERT ON audit
                    WHEN NEW.sequence <> (SELECT coalesce(max(sequence), 0) + 1 FROM audit)
                    BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END
                    """,
                    """
                    CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
                    BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END
                    """,
                    """
                    CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
                    BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END
                    """,
                ),
                postgresql=(
                    """
                    CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN RAISE EXCEPTION 'audit is append-only'; END $$
                    """,
                    """
                    CREATE FUNCTION audit_is_appended() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN
                        IF NEW.sequence <> (SELECT coalesce(max(sequence), 0) + 1 FROM audit) THEN
                            RAISE EXCEPTION 'audit is append-only';
                        END IF;
                        RETURN NEW;
                    END $$
                    """,
                    """
                    CREATE TRIGGER audit_is_appended BEFORE INSERT ON audit
                    FOR EACH ROW EXECUTE FUNCTION audit_is_appended()
                    """,
                    """
                    CREATE TRIGGER audit_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
                    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
                    """,
                ),
            ),
        ),
    ),
    Migration(
        3,
        "what was done under which key of its client",
        (
            """
            CREATE TABLE catalog_outcomes (
                sequence BIGINT NOT NULL PRIMARY KEY,
                catalog TEXT NOT NULL,
                key TEXT NOT NULL,
                principal TEXT NOT NULL,
                tenant TEXT NOT NULL,
                route TEXT NOT NULL,
                digest TEXT NOT NULL,
                places TEXT NOT NULL,
                done_at DOUBLE PRECISION NOT NULL
            )
            """,
            "CREATE UNIQUE INDEX catalog_outcomes_key ON catalog_outcomes (catalog, key)",
            "CREATE INDEX catalog_outcomes_done_at ON catalog_outcomes (done_at)",
        ),
    ),
    Migration(
        4,
        "policies and the history of their changes",
        (
            """
            CREATE TABLE policy_versions (
                version BIGINT NOT NULL PRIMARY KEY,
                at DOUBLE PRECISION NOT NULL,
                principal TEXT NOT NULL,
                actor TEXT,
                what TEXT NOT NULL
            )
            """,
            """
            CREATE TABLE policy_elements (
                kind TEXT NOT NULL,
                definition TEXT NOT NULL,
                PRIMARY KEY (kind, definition)
            )
            """,
        ),
    ),
    Migration(
        5,
        "who asked on whose behalf",
        ("ALTER TABLE queries ADD COLUMN actor TEXT",),
    ),
    Migration(
        6,
        "statements that came with a key of their client's",
        (
            """
            CREATE TABLE submissions (
                tenant TEXT NOT NULL,
                principal TEXT NOT NULL,
                actor TEXT NOT NULL,
                key TEXT NOT NULL,
                part BIGINT NOT NULL,
                digest TEXT NOT NULL,
                query_id TEXT NOT NULL,
                claimed_at DOUBLE PRECISION NOT NULL,
                expires_at DOUBLE PRECISION NOT NULL,
                begun_at DOUBLE PRECISION,
                outcome TEXT,
                PRIMARY KEY (tenant, principal, actor, key, part)
            )
            """,
            "CREATE INDEX submissions_expires_at ON submissions (expires_at)",
        ),
    ),
    Migration(
        7,
        "several gateways: which of them are there, whose query it is, and what was changed since one looked",
        (
            """
            CREATE TABLE revisions (
                topic TEXT NOT NULL PRIMARY KEY,
                revision BIGINT NOT NULL
            )
            """,
            """
            CREATE TABLE gateways (
                id TEXT NOT NULL PRIMARY KEY,
                home TEXT NOT NULL,
                address TEXT NOT NULL,
                started_at DOUBLE PRECISION NOT NULL,
                heartbeat_at DOUBLE PRECISION NOT NULL,
                beats BIGINT NOT NULL
            )
            """,
            "ALTER TABLE queries ADD COLUMN owner TEXT",
        ),
    ),
    Migration(
        8,
        "what was tried before a query found its engine, and whether that was a fallback",
        (
            "ALTER TABLE queries ADD COLUMN attempts TEXT NOT NULL DEFAULT '[]'",
            "ALTER TABLE queries ADD COLUMN is_fallback BIGINT NOT NULL DEFAULT 0",
        ),
    ),
    Migration(
        9,
        "wishes to end a query that another gateway runs",
        ("CREATE TABLE cancellations (query_id TEXT NOT NULL PRIMARY KEY, wished_by TEXT NOT NULL)",),
    ),
)


def migrate(engine: Engine, migrations: Sequence[Migration] = MIGRATIONS, *, now: Clock = wall) -> int:
    """Apply what is missing, in order. Returns the version reached; a newer database is left untouched."""
    known = migrations[-1].version
    while (found := _step(engine, migrations, now)) < known:
        continue
    if found > known:
        raise NewerDatabaseError(found, known)
    return found


def _step(engine: Engine, migrations: Sequence[Migration], now: Clock) -> int:
    """Apply the next one, if one is missing. Looked for and applied under one write lock."""
    with engine.begin() as connection:
        found = _version(connection)
        missing = next((migration for migration in migrations if migration.version > found), None)
        if missing is None:
            return found
        _apply(connection, missing, now())
        return missing.version


def _version(connection: Connection) -> int:
    connection.execute(
        text(
            "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY, "
            "description TEXT NOT NULL, applied_at DOUBLE PRECISION NOT NULL)"
        )
    )
    return int(connection.execute(text("SELECT coalesce(max(version), 0) FROM schema_version")).scalar_one())


def _apply(connection: Connection, migration: Migration, applied_at: float) -> None:
    for statement in migration.in_words_of(connection.dialect.name):
        connection.execute(text(statement))
    connection.execute(
        text("INSERT INTO schema_version (version, description, applied_at) VALUES (:v, :d, :a)"),
        {"v": migration.version, "d": migration.description, "a": applied_at},
    )
