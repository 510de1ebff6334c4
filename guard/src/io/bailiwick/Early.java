package io.bailiwick;

import org.apache.spark.sql.catalyst.plans.logical.Call;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.ExplainCommand;
import scala.runtime.BoxedUnit;

/** Refuses, before Spark resolves anything, what Spark carries out while it analyses. */
final class Early extends Rule<LogicalPlan> {
  private final SparkSession session;

  Early(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    Operation operation = Operation.current(session.sparkContext());
    if (operation.isProcedure()) {
      return plan;
    }
    if (plan instanceof Call && operation.mayCall()) {
      operation.noteProcedure();
      return plan;
    }
    if (plan instanceof ExplainCommand) {
      operation.noteExplanation();
    }
    // What an EXPLAIN holds is looked at when Spark comes to analyse it.
    plan.foreachWithSubqueries(node -> {
      if (node instanceof Call) {
        throw new Denied(Denied.NOT_ALLOWED, "CALL is for administrators, and stands for itself.");
      }
      return BoxedUnit.UNIT;
    });
    return plan;
  }
}
