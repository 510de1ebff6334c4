package io.bailiwick;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/** Holds rows that are on their way into a table against that table's row filters. */
final class RowChecking {
  private final DataSourceV2Relation target;
  private final Wrapping rules;
  private final Stamp stamp;

  RowChecking(SparkSession session, DataSourceV2Relation target, Stamped stamped) {
    this.target = target;
    this.stamp = stamped.stamp();
    this.rules = new Wrapping(session, target.newInstance(), stamped);
  }

  LogicalPlan plan(LogicalPlan rows) {
    List<NamedExpression> renamed = new ArrayList<>();
    List<AttributeReference> columns = rules.columns();
    List<Attribute> values = CollectionConverters.asJava(rows.output());
    for (int i = 0; i < values.size(); i++) {
      // The table's own identity for each column is what the filters are bound to.
      renamed.add(new Alias(values.get(i), values.get(i).name(), columns.get(i).exprId(), Describe.seq(List.of()),
          scala.Option.empty(), Describe.seq(List.of())));
    }
    Expression all = rules.bound().stream().<Expression>map(each -> each).reduce(And::new).get();
    RowCheck check = new RowCheck(all, target.name(), stamp.sealed());
    return new Filter(check, new Project(Describe.seq(renamed), rows));
  }
}
