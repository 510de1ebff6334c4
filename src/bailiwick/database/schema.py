"""The tables, as the code of today sees them.

How a database comes to look like this is told by `migrations.py`; a test compares the two. Types are kept to
what SQLite and PostgreSQL both know. Times are seconds since the epoch.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    MetaData,
    Table,
    Text,
)

metadata = MetaData()

schema_version = Table(
    "schema_version",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("description", Text, nullable=False),
    Column("applied_at", Double, nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    # A sorted JSON list of role names.
    Column("roles", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    # Null for a user who proves who they are by other means.
    Column("password_hash", Text, nullable=True),
    # Another number after every change that must end the signed tokens handed out before it.
    Column("generation", BigInteger, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    # Not `user`: that is a reserved word in PostgreSQL.
    Column("user_name", Text, ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
    Column("secret_hash", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("revoked_at", Double, nullable=True),
    Index("tokens_user_name", "user_name"),
)

catalog_namespaces = Table(
    "catalog_namespaces",
    metadata,
    Column("catalog", Text, primary_key=True),
    # The levels joined by U+001F.
    Column("namespace", Text, primary_key=True),
    # A JSON object of strings.
    Column("properties", Text, nullable=False),
)

catalog_objects = Table(
    "catalog_objects",
    metadata,
    Column("catalog", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("metadata_location", Text, nullable=False),
    # A namespace that still holds something cannot be deleted, whatever raced with the check before it.
    ForeignKeyConstraint(
        ["catalog", "namespace"], ["catalog_namespaces.catalog", "catalog_namespaces.namespace"]
    ),
    CheckConstraint("kind IN ('table', 'view')", name="catalog_objects_kind"),
)

# What was done under which of its clients' keys, written in the transaction that did it.
catalog_outcomes = Table(
    "catalog_outcomes",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("catalog", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("route", Text, nullable=False),
    # Of the whole request.
    Column("digest", Text, nullable=False),
    # A JSON list: what was changed, and where its metadata was right after.
    Column("places", Text, nullable=False),
    Column("done_at", Double, nullable=False),
    Index("catalog_outcomes_key", "catalog", "key", unique=True),
    Index("catalog_outcomes_done_at", "done_at"),
)

queries = Table(
    "queries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("principal", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("door", Text, nullable=False),
    Column("sql", Text, nullable=False),
    Column("kind", Text, nullable=True),
    Column("state", Text, nullable=False),
    Column("node_id", Text, nullable=True),
    Column("error_code", Text, nullable=True),
    Column("error_message", Text, nullable=True),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double, nullable=True),
    Column("finished_at", Double, nullable=True),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    # Who signed in, where that was somebody else than the principal.
    Column("actor", Text, nullable=True),
    # The gateway that runs it; null where there is only one.
    Column("owner", Text, nullable=True),
    # JSON: engine, code, message and seconds of each try before the last.
    Column("attempts", Text, nullable=False, server_default="[]"),
    Column("is_fallback", BigInteger, nullable=False, server_default="0"),
    Index("queries_created_at", "created_at"),
    Index("queries_state", "state"),
)

# Wishes to end a query, for the gateway that runs it.
cancellations = Table(
    "cancellations",
    metadata,
    Column("query_id", Text, primary_key=True),
    Column("wished_by", Text, nullable=False),
)

# Statements that came with a key of their client's, and how they ended.
submissions = Table(
    "submissions",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("principal", Text, primary_key=True),
    # Who acts for the principal; empty where they act for themselves.
    Column("actor", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    # Which of several runs under one key.
    Column("part", BigInteger, primary_key=True, autoincrement=False),
    # Of the statement, where it was meant, and its values.
    Column("digest", Text, nullable=False),
    # The query that holds the claim.
    Column("query_id", Text, nullable=False),
    Column("claimed_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    # Since when it may have changed something.
    Column("begun_at", Double, nullable=True),
    # A JSON object: how a change ended.
    Column("outcome", Text, nullable=True),
    Index("submissions_expires_at", "expires_at"),
)

audit = Table(
    "audit",
    metadata,
    # Without gaps, from 1. Triggers refuse every change and deletion.
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    # Copies of what the entry says, to search by.
    Column("at", Double, nullable=False),
    Column("principal", Text, nullable=False),
    Column("actor", Text, nullable=True),
    Column("query_id", Text, nullable=True),
    # The entry as canonical JSON: exactly the text that the hash is of.
    Column("entry", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Index("audit_at", "at"),
    Index("audit_principal", "principal"),
    Index("audit_actor", "actor"),
    Index("audit_query_id", "query_id"),
)

policy_versions = Table(
    "policy_versions",
    metadata,
    # Without gaps, from 1: two who change policies at once cannot both make the next one.
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("principal", Text, nullable=False),
    Column("actor", Text, nullable=True),
    # A JSON list of sentences.
    Column("what", Text, nullable=False),
)

policy_elements = Table(
    "policy_elements",
    metadata,
    Column("kind", Text, primary_key=True),
    # A JSON object with all that there is to say about it.
    Column("definition", Text, primary_key=True),
)

# How often each of what gateways hold in memory was changed, written in the transaction that changes it.
revisions = Table(
    "revisions",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)

gateways = Table(
    "gateways",
    metadata,
    # Another one each time a gateway starts.
    Column("id", Text, primary_key=True),
    # The same each time one starts in the same data directory, of which only one at a time can.
    Column("home", Text, nullable=False),
    # Where the other gateways reach it.
    Column("address", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    # By its own clock, for people to read.
    Column("heartbeat_at", Double, nullable=False),
    # By this others see that it lives, whatever its clock says.
    Column("beats", BigInteger, nullable=False),
)
