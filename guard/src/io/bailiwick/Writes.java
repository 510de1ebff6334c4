package io.bailiwick;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Whether a change of a table's rows is allowed by that table's stamp. The catalog asks the same again when the change
 * is committed; here it is refused before any work is done, and with a reason.
 *
 * <p>Who sees only a part of a table may add rows to it and change no others: it would change what they do not see.
 * Changing or deleting what one cannot read is refused too, for the condition would tell of it.
 */
final class Writes {
  static final String SELECT = "select";
  private static final String INSERT = "insert";
  private static final String UPDATE = "update";
  private static final String DELETE = "delete";
  private final SparkSession session;

  Writes(SparkSession session) {
    this.session = session;
  }

  /** Raises Denied if `node` is a change that is not allowed; one that is not resolved yet is looked at later. */
  void check(LogicalPlan node) {
    if (node instanceof AppendData append) {
      need(append.table(), false, INSERT);
    } else if (node instanceof RowLevelWrite write) {
      need(write.originalTable(), true, rowLevel(write));
    } else if (node instanceof V2WriteCommand overwrite) {
      need(overwrite.table(), true, INSERT, DELETE);
    } else if (node instanceof DeleteFromTable delete) {
      need(delete.table(), true, SELECT, DELETE);
    } else if (node instanceof UpdateTable update) {
      need(update.table(), true, SELECT, UPDATE);
    } else if (node instanceof MergeIntoTable merge) {
      need(merge.targetTable(), true, actions(merge));
    } else if (node instanceof TruncateTable || node instanceof TruncatePartition) {
      LogicalPlan table = CollectionConverters.asJava(node.children()).get(0);
      need(table, true, DELETE);
    }
  }

  /** The relation under an alias; null while there is none. */
  private static LogicalPlan target(LogicalPlan table) {
    LogicalPlan found = table;
    while (CollectionConverters.asJava(found.children()).size() == 1) {
      found = CollectionConverters.asJava(found.children()).get(0);
    }
    return found instanceof DataSourceV2Relation || found instanceof ResolvedTable ? found : null;
  }

  /** `table` is a plan, but Spark's type for the targets of writes does not say so. */
  private void need(Object table, boolean whole, String... actions) {
    LogicalPlan target = target((LogicalPlan) table);
    if (target == null) {
      if (((LogicalPlan) table).resolved()) {
        throw new Denied(Denied.UNSTAMPED, "Only tables of the catalog can be changed.");
      }
      return;
    }
    Stamped stamped = target instanceof ResolvedTable resolved
        ? Stamped.of(session, resolved.catalog(), resolved.table())
        : Stamped.of(session, (DataSourceV2Relation) target);
    String name = target instanceof ResolvedTable resolved ? resolved.name() : ((DataSourceV2Relation) target).name();
    if (stamped == null || stamped.isDerived() || !stamped.isOwn(session)) {
      throw new Denied(Denied.UNSTAMPED, name + " cannot be changed here.");
    }
    for (String action : actions) {
      missing(stamped.stamp(), action, name);
    }
    if (whole && stamped.stamp().isRestricted()) {
      throw new Denied(Denied.RESTRICTED, "A policy hides parts of " + name
          + " from you, so you may add rows to it, but not change, delete or overwrite any.");
    }
  }

  static void missing(Stamp stamp, String action, String table) {
    if (!stamp.actions().contains(action)) {
      throw new Denied(
          Denied.PRIVILEGE, "You lack the privilege " + action.toUpperCase(Locale.ROOT) + " on " + table + ".");
    }
  }

  private static String[] actions(MergeIntoTable merge) {
    List<String> actions = new ArrayList<>(List.of(SELECT));
    List<MergeAction> all = new ArrayList<>(CollectionConverters.asJava(merge.matchedActions()));
    all.addAll(CollectionConverters.asJava(merge.notMatchedActions()));
    all.addAll(CollectionConverters.asJava(merge.notMatchedBySourceActions()));
    for (MergeAction action : all) {
      boolean inserts = action instanceof InsertAction || action instanceof InsertStarAction;
      actions.add(inserts ? INSERT : action instanceof DeleteAction ? DELETE : UPDATE);
    }
    return actions.toArray(String[]::new);
  }

  /** Of a DELETE, UPDATE or MERGE that Spark has rewritten into what it writes. */
  private static String[] rowLevel(RowLevelWrite write) {
    return switch (write.operation().command()) {
      case DELETE -> new String[] {SELECT, DELETE};
      case UPDATE -> new String[] {SELECT, UPDATE};
      case MERGE -> merged(write.query());
    };
  }

  private static String[] merged(LogicalPlan query) {
    List<String> actions = new ArrayList<>(List.of(SELECT));
    boolean isKnown = false;
    for (LogicalPlan node = query; !isKnown;) {
      if (node instanceof MergeRows rows) {
        CollectionConverters.asJava(rows.instructions()).forEach(each -> actions.add(action((Expression) each)));
        isKnown = true;
      } else if (CollectionConverters.asJava(node.children()).size() == 1) {
        node = CollectionConverters.asJava(node.children()).get(0);
      } else {
        return new String[] {SELECT, INSERT, UPDATE, DELETE};
      }
    }
    return actions.toArray(String[]::new);
  }

  private static String action(Expression instruction) {
    if (!(instruction instanceof MergeRows.Keep keep)) {
      return instruction instanceof MergeRows.Split ? UPDATE : DELETE;
    }
    return switch (keep.context().toString()) {
      case "Insert" -> INSERT;
      case "Update" -> UPDATE;
      case "Copy" -> SELECT;
      default -> DELETE;
    };
  }
}
