package io.bailiwick;

import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.aggregate.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Makes sure that a rule never fails on a row, of its table or of one that it reads: the error would show the row's
 * values.
 *
 * <p>What could fail gives null instead, so the row is left out and the value is not shown. Expressions that cannot
 * fail are left as they are, for Spark understands them better.
 */
final class Sure {
  private static final Set<Class<?>> CANNOT_FAIL = Set.of(
      Literal.class, AttributeReference.class, And.class, Or.class, Not.class, EqualTo.class, EqualNullSafe.class,
      LessThan.class, LessThanOrEqual.class, GreaterThan.class, GreaterThanOrEqual.class, In.class, InSet.class,
      IsNull.class, IsNotNull.class, Coalesce.class, If.class, CaseWhen.class, Nvl.class, Concat.class, Lower.class,
      Upper.class, StringTrim.class, Substring.class, Right.class, Left.class, Length.class, StartsWith.class,
      EndsWith.class, Contains.class, Sha2.class, Md5.class, Murmur3Hash.class, XxHash64.class, GetStructField.class,
      Exists.class, InSubquery.class, ListQuery.class, ScalarSubquery.class, Mask.class);

  /** What may stand in a rule's own queries besides. */
  private static final Set<Class<?>> IN_QUERIES = Set.of(
      Alias.class, OuterReference.class, SortOrder.class, AggregateExpression.class, Count.class, Max.class,
      Min.class, TryEval.class);

  /** Nodes in which a null can stand for what could not be computed. */
  private static final Set<Class<?>> ROW_BY_ROW = Set.of(Project.class, Filter.class, Join.class);

  private Sure() {}

  static Expression made(Expression expression) {
    if (expression instanceof And both) {
      return new And(made(both.left()), made(both.right()));
    }
    return fails(expression) ? new TryEval(expression) : expression;
  }

  /** The same rule with queries in it that do not fail either. IllegalArgumentException where that cannot be. */
  static Expression withSureQueries(Expression rule) {
    return rule.transform(new Replacement<>(PlanExpression.class, query -> query.plan() instanceof LogicalPlan plan
        ? (Expression) query.withNewPlan(sure(plan)) : query));
  }

  private static LogicalPlan sure(LogicalPlan plan) {
    return (LogicalPlan) plan.transformUp(new Replacement<>(LogicalPlan.class, Sure::sureNode));
  }

  private static LogicalPlan sureNode(LogicalPlan node) {
    boolean isSure = CollectionConverters.asJava(node.expressions()).stream().noneMatch(Sure::fails);
    if (!isSure && !ROW_BY_ROW.contains(node.getClass())) {
      throw new IllegalArgumentException("A rule's query could fail on a row, and its error would show the row."
          + " Compute what could fail in the query's WHERE or select list, by try_cast, try_divide or the like.");
    }
    LogicalPlan made = isSure ? node : (LogicalPlan) node.mapExpressions(Sure::sureColumn);
    return (LogicalPlan) made.mapExpressions(Sure::withSureQueries);
  }

  private static Expression sureColumn(Expression column) {
    return column instanceof Alias alias
        ? (Expression) alias.withNewChildren(Describe.seq(List.of(made(alias.child())))) : made(column);
  }

  private static boolean fails(Expression expression) {
    return expression.exists(part -> !CANNOT_FAIL.contains(part.getClass()) && !IN_QUERIES.contains(part.getClass())
        && !isSafeCast(part));
  }

  /** Anything has a text, and a wider type holds what a narrower one does. */
  private static boolean isSafeCast(Expression part) {
    return part instanceof Cast cast && (cast.evalMode() == EvalMode$.MODULE$.TRY()
        || cast.dataType().equals(DataTypes.StringType)
        || Cast$.MODULE$.canUpCast(cast.child().dataType(), cast.dataType()));
  }
}
