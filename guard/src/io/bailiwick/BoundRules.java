package io.bailiwick;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.types.DataType;

/**
 * Rules that were bound before, for the next query that meets them: to bind one takes Spark about as long as to analyse
 * a small query. A rule with a query inside is bound each time: it has tables that were loaded for one lease.
 */
final class BoundRules {
  private static final int KEPT_MAX = 1000;
  private static final Map<Key, Bound> KNOWN = new ConcurrentHashMap<>();

  private BoundRules() {}

  private record Column(String name, DataType type, boolean nullable) {}

  /** All that the meaning of a rule depends on. */
  private record Key(String text, boolean isFilter, String principal, List<Column> columns) {}

  private record Bound(Expression expression, List<ExprId> columns) {}

  static Expression bound(String text, boolean isFilter, List<Columns.Named> columns, Supplier<Expression> bind) {
    Key key = new Key(text, isFilter, PolicyRight.current().principal(), columns.stream().map(column -> new Column(
        column.name(), column.attribute().dataType(), column.attribute().nullable())).toList());
    Bound known = KNOWN.get(key);
    if (known != null) {
      return over(known, columns);
    }
    Expression bound = bind.get();
    if (!SubqueryExpression.hasSubquery(bound)) {
      if (KNOWN.size() >= KEPT_MAX) {
        KNOWN.clear();
      }
      KNOWN.put(key, new Bound(bound, columns.stream().map(column -> column.attribute().exprId()).toList()));
    }
    return bound;
  }

  /** The same expression over the columns of another relation. */
  private static Expression over(Bound known, List<Columns.Named> columns) {
    Map<ExprId, Attribute> replaced = new HashMap<>();
    for (int i = 0; i < columns.size(); i++) {
      replaced.put(known.columns.get(i), columns.get(i).attribute());
    }
    return (Expression) known.expression.transform(new Replacement<Expression, AttributeReference>(
        AttributeReference.class, found -> replaced.getOrDefault(found.exprId(), found)));
  }
}
