package io.bailiwick;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps what a person wrote above the row filters of a table. Spark moves conditions down through nodes that it knows
 * to bear it, and this it does not know. It does nothing else, and is gone when the plan runs.
 *
 * <p>Not a filter on something that is not deterministic, which Spark would not move through either: queries in joins
 * and in changes of tables must be deterministic.
 */
public final class Barrier extends LogicalPlan {
  private final LogicalPlan child;

  /** Spark makes copies by this, of the parts in their order. */
  public Barrier(LogicalPlan child) {
    this.child = child;
  }

  @Override
  public scala.collection.immutable.Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public scala.collection.immutable.Seq<LogicalPlan> children() {
    return Describe.seq(List.of(child));
  }

  @Override
  public LogicalPlan withNewChildrenInternal(scala.collection.immutable.IndexedSeq<LogicalPlan> children) {
    return new Barrier(CollectionConverters.asJava(children).get(0));
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Barrier;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Barrier barrier && barrier.child.equals(child);
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode();
  }

  /** What lies under it is run as if it were not there. */
  static final class Strategy extends SparkStrategy {
    @Override
    public scala.collection.immutable.Seq<SparkPlan> apply(LogicalPlan plan) {
      return Describe.seq(plan instanceof Barrier barrier ? List.of(planLater(barrier.child)) : List.of());
    }
  }
}
