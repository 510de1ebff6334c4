package io.bailiwick;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.AsOfVersion;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
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
    LogicalPlan applied = isDue(plan) ? applied(plan) : plan;
    if (isLast && applied instanceof ExplainCommand explain) {
      return new Explanation(session, explain).hidden();
    }
    LogicalPlan named = isLast ? named(applied, operation) : applied;
    return isLast && named instanceof CreateViewCommand view ? kept(view) : named;
  }

  /** A view of a DataFrame keeps its plan, not its text. */
  private static LogicalPlan kept(CreateViewCommand view) {
    return view.copy(view.name(), view.userSpecifiedColumns(), view.comment(), view.collation(), view.properties(),
        view.originalText(), Wrapping.unwrapped(view.plan()), view.allowExisting(), view.replace(), view.viewType(),
        view.viewSchemaMode(), view.isAnalyzed(), view.referredTempFunctions());
  }

  /** Asked first, because Spark calls this many times for each plan, and to rebuild one costs more than to look. */
  private boolean isDue(LogicalPlan plan) {
    Writes writes = new Writes(session);
    boolean[] due = {false};
    plan.foreachWithSubqueries(node -> {
      writes.check(node);
      due[0] |= node instanceof DataSourceV2Relation relation && isDue(relation, Stamped.of(session, relation))
          || node instanceof AppendData append && isUnchecked(append);
      return BoxedUnit.UNIT;
    });
    return due[0];
  }

  private boolean isDue(DataSourceV2Relation relation, Stamped stamped) {
    if (stamped == null || stamped.stamp().forPolicy()) {
      return stamped != null && relation.timeTravelSpec().isEmpty();
    }
    Stamp stamp = stamped.stamp();
    return stamp.isRestricted() && stamp.actions().contains(Writes.SELECT)
        && !new Mark(session, stamp.sealed()).isOn(relation);
  }

  private LogicalPlan applied(LogicalPlan plan) {
    Map<ExprId, DataType> retyped = new HashMap<>();
    LogicalPlan applied = plan.transformUpWithSubqueries(new Replacement<LogicalPlan, LogicalPlan>(
        LogicalPlan.class, node -> node instanceof DataSourceV2Relation relation ? applied(relation, plan, retyped)
            : node instanceof AppendData append && isUnchecked(append) ? checked(append) : node));
    return retyped.isEmpty() ? applied : (LogicalPlan) applied.transformAllExpressionsWithSubqueries(
        new Replacement<Expression, AttributeReference>(AttributeReference.class, column ->
            retyped.containsKey(column.exprId()) ? column.withDataType(retyped.get(column.exprId())) : column));
  }

  private LogicalPlan applied(DataSourceV2Relation relation, LogicalPlan whole, Map<ExprId, DataType> retyped) {
    Stamped stamped = Stamped.of(session, relation);
    if (!isDue(relation, stamped)) {
      return relation;
    }
    if (stamped.stamp().forPolicy()) {
      return pinned(relation);
    }
    refuseHiddenColumns(relation, whole);
    LogicalPlan wrapped = new Wrapping(session, relation, stamped).plan();
    // A field of a struct that is never null may be so behind a mask, and then the struct is of another type.
    List<Attribute> shown = CollectionConverters.asJava(wrapped.output());
    for (int i = 0; i < shown.size(); i++) {
      DataType type = shown.get(i).dataType();
      if (!type.equals(CollectionConverters.asJava(relation.output()).get(i).dataType())) {
        retyped.put(shown.get(i).exprId(), type);
      }
    }
    return wrapped;
  }

  /** What a rule reads stays as it was loaded. Spark would load it again later, when the rule's right is over. */
  private static LogicalPlan pinned(DataSourceV2Relation relation) {
    return relation.copy(relation.table(), relation.output(), relation.catalog(), relation.identifier(),
        relation.options(), scala.Option.apply(new AsOfVersion("analysed")));
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

  private boolean isUnchecked(AppendData append) {
    Stamped stamped = append.resolved() && append.table() instanceof DataSourceV2Relation target
        ? Stamped.of(session, target) : null;
    return stamped != null && !stamped.stamp().filters().isEmpty() && !isChecked(append, stamped.stamp());
  }

  /** With each row held against the row filters of the table that it goes into. */
  private LogicalPlan checked(AppendData append) {
    DataSourceV2Relation target = (DataSourceV2Relation) append.table();
    return append.withNewQuery(new RowChecking(session, target, Stamped.of(session, target)).plan(append.query()));
  }

  static boolean isChecked(AppendData append, Stamp stamp) {
    return append.query() instanceof Filter filter && filter.condition() instanceof RowCheck check
        && check.sealed.equals(stamp.sealed());
  }

  /** The one who asks, in the place of `current_user()`; in a rule, the one whom it is applied to. */
  private LogicalPlan named(LogicalPlan plan, Operation operation) {
    PolicyRight right = PolicyRight.current();
    String principal = right == null ? operation.principal() : right.principal();
    if (principal == null || !plan.containsPattern(TreePattern.CURRENT_LIKE())) {
      return plan;
    }
    Literal name = new Literal(UTF8String.fromString(principal), DataTypes.StringType);
    return plan.transformAllExpressionsWithSubqueries(
        new Replacement<Expression, CurrentUser>(CurrentUser.class, found -> name));
  }
}
