package io.bailiwick;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * One row of constants is answered by the driver, as VALUES is: for `SELECT 1` Spark would start a job, which costs
 * several times the rest of the statement. Being an optimisation, it may be switched off without harm.
 */
public final class Constants extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectOptimizerRule(session -> new Answered());
    return BoxedUnit.UNIT;
  }

  private static final class Answered extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return plan.transform(new Replacement<>(Project.class, Answered::row));
    }

    private static LogicalPlan row(Project project) {
      List<Attribute> output = new ArrayList<>();
      List<Object> values = new ArrayList<>();
      for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
        if (!(column instanceof Alias alias) || !(alias.child() instanceof Literal constant)) {
          return project;
        }
        output.add(column.toAttribute());
        values.add(constant.value());
      }
      InternalRow row = new GenericInternalRow(values.toArray());
      return project.child() instanceof OneRowRelation
          ? new LocalRelation(Describe.seq(output), Describe.seq(List.of(row)), false, Option.empty()) : project;
    }
  }
}
