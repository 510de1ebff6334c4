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
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;
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
      return plan.transform(new AbstractPartialFunction<>() {
        @Override
        public boolean isDefinedAt(LogicalPlan part) {
          return part instanceof Project row
              && row.child() instanceof OneRowRelation
              && columns(row).stream().allMatch(Answered::isConstant);
        }

        @Override
        @SuppressWarnings("unchecked")
        public <A extends LogicalPlan, B> B applyOrElse(A part, scala.Function1<A, B> otherwise) {
          return isDefinedAt(part) ? (B) row((Project) part) : otherwise.apply(part);
        }
      });
    }

    private static LogicalPlan row(Project constants) {
      List<Attribute> output = new ArrayList<>();
      List<Object> values = new ArrayList<>();
      for (NamedExpression column : columns(constants)) {
        output.add(column.toAttribute());
        values.add(((Literal) ((Alias) column).child()).value());
      }
      InternalRow row = new GenericInternalRow(values.toArray());
      return new LocalRelation(scala(output), scala(List.of(row)), false, Option.empty());
    }

    private static <T> Seq<T> scala(List<T> items) {
      return ((scala.collection.IterableOnceOps<T, ?, ?>) CollectionConverters.asScala(items)).toList();
    }

    private static boolean isConstant(NamedExpression column) {
      return column instanceof Alias alias && alias.child() instanceof Literal;
    }

    private static List<NamedExpression> columns(Project project) {
      return CollectionConverters.asJava(project.projectList());
    }
  }
}
