package io.bailiwick;

import java.util.Optional;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.RelationPlugin;
import org.sparkproject.connect.protobuf.Any;
import org.sparkproject.connect.protobuf.InvalidProtocolBufferException;

/** Tells the gateway what {@link Tasks} remembers, in one row of JSON, without a job. */
public final class TasksAnswer implements RelationPlugin {
  private static final String TASKS = "type.googleapis.com/bailiwick.Tasks";

  @Override
  public Optional<LogicalPlan> transform(byte[] relation, SparkConnectPlanner planner) {
    try {
      boolean isAsked = Any.parseFrom(relation).getTypeUrl().equals(TASKS);
      return isAsked ? Optional.of(Describe.row(Tasks.told())) : Optional.empty();
    } catch (InvalidProtocolBufferException error) {
      throw Describe.unchecked(error);
    }
  }
}
