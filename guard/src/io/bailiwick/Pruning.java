package io.bailiwick;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets files and row groups be skipped although there is a barrier: what a person asks of plain columns is asked below
 * it too. Only copies go there, and only of conditions that cannot fail and that do nothing but compare, so that they
 * tell nothing of a row that the filters leave out. Columns behind a mask are expressions by now, and stay above.
 *
 * <p>Being an optimisation, it may be switched off without harm.
 */
final class Pruning extends Rule<LogicalPlan> {
  private static final Set<Class<?>> COMPARISONS = Set.of(EqualTo.class, EqualNullSafe.class, LessThan.class,
      LessThanOrEqual.class, GreaterThan.class, GreaterThanOrEqual.class);
  private static final Set<Class<?>> CONNECTIVES = Set.of(And.class, Or.class, Not.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.transformUpWithSubqueries(new Replacement<LogicalPlan, Filter>(Filter.class, Pruning::pruned));
  }

  private static LogicalPlan pruned(Filter filter) {
    if (!(filter.child() instanceof Barrier barrier)) {
      return filter;
    }
    List<Expression> known = below(barrier);
    Expression copies = null;
    for (Expression condition : conjuncts(filter.condition())) {
      boolean isNew = known.stream().noneMatch(condition::semanticEquals);
      if (isNew && isHarmless(condition)) {
        copies = copies == null ? condition : new And(copies, condition);
      }
    }
    if (copies == null) {
      return filter;
    }
    LogicalPlan inside = CollectionConverters.asJava(barrier.children()).get(0);
    return new Filter(filter.condition(), new Barrier(new Filter(copies, inside)));
  }

  /** What is asked below the barrier already. */
  private static List<Expression> below(Barrier barrier) {
    List<Expression> known = new ArrayList<>();
    List<LogicalPlan> children = CollectionConverters.asJava(barrier.children());
    while (children.size() == 1) {
      LogicalPlan node = children.get(0);
      if (node instanceof Filter filter) {
        known.addAll(conjuncts(filter.condition()));
      }
      children = CollectionConverters.asJava(node.children());
    }
    return known;
  }

  private static List<Expression> conjuncts(Expression condition) {
    List<Expression> conjuncts = new ArrayList<>();
    if (condition instanceof And both) {
      conjuncts.addAll(conjuncts(both.left()));
      conjuncts.addAll(conjuncts(both.right()));
    } else {
      conjuncts.add(condition);
    }
    return conjuncts;
  }

  private static boolean isHarmless(Expression condition) {
    List<Expression> parts = CollectionConverters.asJava(condition.children());
    if (CONNECTIVES.contains(condition.getClass())) {
      return parts.stream().allMatch(Pruning::isHarmless);
    }
    if (condition instanceof IsNull || condition instanceof IsNotNull) {
      return parts.get(0) instanceof AttributeReference;
    }
    if (condition instanceof In) {
      return parts.get(0) instanceof AttributeReference
          && parts.stream().skip(1).allMatch(value -> value instanceof Literal);
    }
    return condition instanceof InSet set ? set.child() instanceof AttributeReference
        : COMPARISONS.contains(condition.getClass()) && (isColumnAndValue(parts.get(0), parts.get(1))
            || isColumnAndValue(parts.get(1), parts.get(0)));
  }

  private static boolean isColumnAndValue(Expression column, Expression value) {
    return column instanceof AttributeReference && value instanceof Literal;
  }
}
