package io.bailiwick;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.AsOfVersion;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Puts the policy into a plan, as the stamps of its tables say. What carries no stamp is left as it is: {@link Check}
 * refuses it.
 *
 * <p>`isLast` is for the time when all is resolved: a column is named after its expression, so `current_user()` must be
 * itself until then.
 */
final class Apply extends Rule<LogicalPlan> {
  private final SparkSession session;
  private final boolean isLast;

  Apply(SparkSession session, boolean isLast) {
    this.session = session;
    this.isLast = isLast;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    Operation operation = Operation.current(session.sparkContext());
    if (operation.isProcedure()) {
      return plan;
    }
    Writes writes = new Writes(session);
    plan.foreachWithSubqueries(node -> {
      writes.check(node);
      return BoxedUnit.UNIT;
    });
    LogicalPlan applied = plan.transformUpWithSubqueries(
        new Replacement<LogicalPlan, LogicalPlan>(LogicalPlan.class, node -> applied(node, plan)));
    if (isLast && applied instanceof ExplainCommand explain) {
      return new Explanation(session, explain).hidden();
    }
    return isLast ? named(applied, operation) : applied;
  }

  private LogicalPlan applied(LogicalPlan node, LogicalPlan whole) {
    if (node instanceof DataSourceV2Relation relation) {
      Stamped stamped = Stamped.of(session, relation);
      boolean isDue = stamped != null && stamped.stamp().isRestricted() && !stamped.stamp().forPolicy()
          && stamped.stamp().actions().contains(Writes.SELECT)
          && !new Mark(session, stamped.stamp().sealed()).isOn(relation);
      if (isDue) {
        refuseHiddenColumns(relation, whole);
        return new Wrapping(session, relation, stamped).plan();
      }
      return stamped != null && stamped.stamp().forPolicy() ? pinned(relation) : relation;
    }
    return node instanceof AppendData append ? checked(append) : node;
  }

  /** What a rule reads stays as it was loaded. Spark would load it again later, when the rule's right is over. */
  private static LogicalPlan pinned(DataSourceV2Relation relation) {
    return relation.timeTravelSpec().isDefined() ? relation : relation.copy(relation.table(), relation.output(),
        relation.catalog(), relation.identifier(), relation.options(), scala.Option.apply(new AsOfVersion("analysed")));
  }

  /** Spark lets a query name columns such as `_file` that are in no schema. */
  private static void refuseHiddenColumns(DataSourceV2Relation relation, LogicalPlan whole) {
    Set<ExprId> hidden = new HashSet<>();
    CollectionConverters.asJava(relation.metadataOutput()).forEach(column -> hidden.add(column.exprId()));
    whole.foreachWithSubqueries(node -> {
      for (Expression expression : CollectionConverters.asJava(node.expressions())) {
        expression.foreach(part -> {
          if (part instanceof AttributeReference named && hidden.contains(named.exprId())) {
            throw Wrapping.hiddenColumn(relation, named.name());
          }
          return BoxedUnit.UNIT;
        });
      }
      return BoxedUnit.UNIT;
    });
  }

  /** With each row held against the row filters of the table that it goes into. */
  private LogicalPlan checked(AppendData append) {
    if (!append.resolved() || !(append.table() instanceof DataSourceV2Relation target)) {
      return append;
    }
    Stamped stamped = Stamped.of(session, target);
    if (stamped == null || stamped.stamp().filters().isEmpty() || isChecked(append, stamped.stamp())) {
      return append;
    }
    return append.withNewQuery(new RowChecking(session, target, stamped).plan(append.query()));
  }

  static boolean isChecked(AppendData append, Stamp stamp) {
    return append.query() instanceof Filter filter && filter.condition() instanceof RowCheck check
        && check.sealed.equals(stamp.sealed());
  }

  /** The one who asks, in the place of `current_user()`; in a rule, the one whom it is applied to. */
  private LogicalPlan named(LogicalPlan plan, Operation operation) {
    PolicyRight right = PolicyRight.current();
    String principal = right == null ? operation.principal() : right.principal();
    if (principal == null) {
      return plan;
    }
    Literal name = new Literal(UTF8String.fromString(principal), DataTypes.StringType);
    return plan.transformAllExpressionsWithSubqueries(
        new Replacement<Expression, CurrentUser>(CurrentUser.class, found -> name));
  }
}
