package io.bailiwick;

import java.lang.reflect.Field;
import java.util.List;
import org.apache.iceberg.BaseMetadataTable;
import org.apache.iceberg.Schema;
import org.apache.iceberg.spark.source.SparkChangelogTable;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.iceberg.spark.source.StagedSparkTable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * A table of the catalog, with the stamp that came with it.
 *
 * <p>`schema` is that of the version which is read. `isDerived` says that this is not the table but something about it:
 * its snapshots, its files, its changes.
 */
record Stamped(Stamp stamp, Schema schema, boolean isDerived) {
  static final String CATALOGS = "spark.bailiwick.catalogs";

  /** Null unless the relation was loaded by this session, for this operation or for a view that it may read. */
  static Stamped of(SparkSession session, DataSourceV2Relation relation) {
    return relation.catalog().isEmpty() || relation.identifier().isEmpty()
        ? null : of(session, relation.catalog().get(), relation.table());
  }

  /** The same for a table that a command names. */
  static Stamped of(SparkSession session, CatalogPlugin catalog, Table table) {
    if (table instanceof RowLevelOperationTable operation) {
      return of(session, catalog, operation.table());
    }
    Stamped stamped = found(session, table);
    if (stamped == null || !isOf(session, catalog, stamped.stamp)) {
      return null;
    }
    Stamp stamp = stamped.stamp;
    boolean holds = stamp.expiresAt() > System.currentTimeMillis() / 1000.0
        && Operation.current(session.sparkContext()).mayRead(stamp);
    return holds ? stamped : null;
  }

  /** Whether the operation loaded it itself: what a view brings along is not to be changed. */
  boolean isOwn(SparkSession session) {
    return stamp.lease().equals(Operation.current(session.sparkContext()).lease());
  }

  static boolean isKnown(SparkSession session, CatalogPlugin catalog) {
    return catalogs(session).contains(catalog.name());
  }

  static List<String> catalogs(SparkSession session) {
    return List.of(session.sparkContext().conf().get(CATALOGS, "").split(","));
  }

  /**
   * Whether this session's own catalog loaded it: a global temporary view, say, brings another session's relation.
   * What a rule reads comes from the session in which rules are read, and from nowhere else.
   */
  private static boolean isOf(SparkSession session, CatalogPlugin catalog, Stamp stamp) {
    if (!isKnown(session, catalog)) {
      return false;
    }
    PolicySession policies = PolicySession.beside(session);
    boolean isPolicys = policies.catalogs().catalog(catalog.name()) == catalog;
    PolicyRight right = PolicyRight.current();
    if (isPolicys) {
      return stamp.forPolicy() || right != null && right.isCheck();
    }
    CatalogManager own = session.sessionState().catalogManager();
    return !stamp.forPolicy() && own.catalog(catalog.name()) == catalog;
  }

  private static Stamped found(SparkSession session, Table table) {
    if (table.getClass() == SparkChangelogTable.class) {
      org.apache.iceberg.Table base = (org.apache.iceberg.Table) inside(SparkChangelogTable.class, "table", table);
      return sealed(session, base, base.schema(), true);
    }
    // What CREATE TABLE AS SELECT fills before it is there comes with a stamp of its own.
    if (table.getClass() != SparkTable.class && table.getClass() != StagedSparkTable.class) {
      return null;
    }
    org.apache.iceberg.Table loaded = ((SparkTable) table).table();
    if (loaded instanceof BaseMetadataTable metadata) {
      return sealed(session, metadata.table(), metadata.schema(), true);
    }
    // Not the table's current one where an older version is read, and only Iceberg itself knows which it took.
    return sealed(session, loaded, (Schema) inside(SparkTable.class, "schema", table), false);
  }

  private static Stamped sealed(
      SparkSession session, org.apache.iceberg.Table table, Schema schema, boolean isDerived) {
    String sealed = table.io().properties().get(Stamp.CONFIG);
    Stamp stamp = sealed == null ? null : Stamp.open(sealed, session.sparkContext());
    return stamp == null || !stamp.uuid().equals(table.uuid().toString())
        ? null : new Stamped(stamp, schema, isDerived);
  }

  private static Object inside(Class<?> kind, String field, Object object) {
    try {
      Field found = kind.getDeclaredField(field);
      found.setAccessible(true);
      return found.get(object);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("Iceberg keeps a table's " + field + " elsewhere now", error);
    }
  }
}
