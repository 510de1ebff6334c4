package io.bailiwick;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.PosParameter;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedInlineTable;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Which types the parameters of an INSERT, UPDATE or DELETE should have. The change itself is not analysed: Spark is
 * asked about a query on its table, which nobody runs, that compares each value with the column it is for.
 */
final class Wanted {
  private final List<Expression> comparisons = new ArrayList<>();

  private Wanted() {}

  /** Lets `parsed` know the types; if Spark cannot analyse the comparisons, they stay unknown. */
  static void types(SparkSession session, LogicalPlan change, Parsed parsed) {
    try {
      Wanted wanted = new Wanted();
      LogicalPlan table = parsed.lacksValues() ? wanted.compare(session, change) : null;
      if (table != null) {
        Expression any = new In(Literal.TrueLiteral(), Describe.seq(wanted.comparisons));
        parsed.learn(new Analysed(session, Analysed.bound(new Filter(any, table), parsed)).parameterTypes);
      }
    } catch (Exception error) {
      if (!(error instanceof AnalysisException)) {
        throw error;
      }
    }
  }

  /** The table that is changed; null where this knows no way to ask. */
  private LogicalPlan compare(SparkSession session, LogicalPlan change) {
    if (change instanceof DeleteFromTable delete) {
      comparisons.add(delete.condition());
      return delete.table();
    }
    if (change instanceof UpdateTable update) {
      comparisons.addAll(CollectionConverters.asJava(update.condition().toList()));
      CollectionConverters.asJava(update.assignments()).forEach(each -> compare(each.key(), each.value()));
      return update.table();
    }
    if (change instanceof InsertIntoStatement insert && insert.query() instanceof UnresolvedInlineTable values) {
      List<String> named = CollectionConverters.asJava(insert.userSpecifiedCols());
      List<String> columns = named.isEmpty() ? List.of(new Analysed(session, insert.table()).columns()) : named;
      for (var each : CollectionConverters.asJava(values.rows())) {
        List<Expression> row = CollectionConverters.asJava(each);
        for (int i = 0; i < Math.min(row.size(), columns.size()); i++) {
          compare(new UnresolvedAttribute(Describe.seq(List.of(columns.get(i)))), row.get(i));
        }
      }
      return insert.table();
    }
    return null;
  }

  private void compare(Expression column, Expression value) {
    if (value.exists(part -> part instanceof PosParameter)) {
      comparisons.add(new EqualTo(column, value));
    }
  }
}
