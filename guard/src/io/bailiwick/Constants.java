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
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * One row of constants is answered by the driver, as VALUES is: for `SELECT 1` Spark would start a job, which costs
 * several times the rest of the statement. Being an optimisation, it may be switched off without harm.
 *
 * <p>It is done when the plan becomes a physical one and not before: Spark evaluates the parameters of a statement by
 * optimising such a row, and looks for the projection that it began with.
 */
public final class Constants extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPlannerStrategy(session -> new Answered());
    return BoxedUnit.UNIT;
  }

  private static final class Answered extends SparkStrategy {
    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
      return plan instanceof Project project && project.child() instanceof OneRowRelation
          ? row(project) : Describe.seq(List.of());
    }

    private static Seq<SparkPlan> row(Project project) {
      List<Attribute> output = new ArrayList<>();
      List<Object> values = new ArrayList<>();
      for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
        if (!(column instanceof Alias alias) || !(alias.child() instanceof Literal constant)) {
          return Describe.seq(List.of());
        }
        output.add(column.toAttribute());
        values.add(constant.value());
      }
      InternalRow row = new GenericInternalRow(values.toArray());
      return Describe.seq(List.of(
          new LocalTableScanExec(Describe.seq(output), Describe.seq(List.of(row)), Option.empty())));
    }
  }
}
