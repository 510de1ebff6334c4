package io.bailiwick;

import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * An EXPLAIN, which must not tell what a policy hides: the rules stand in the plan as {@link Hidden}, and what Spark
 * writes about the scans of such tables is taken out of the text.
 */
record Explanation(SparkSession session, ExplainCommand command) {
  /** Costs and generated code tell about hidden rows and rules. */
  private static final Set<String> HARMLESS = Set.of("simple", "extended", "formatted");
  private static final String TELLING = "(snapshotId|schemaId)=-?[0-9]+";

  /** The command itself where nothing is hidden from the person who asks. */
  LogicalPlan hidden() {
    DataSourceV2Relation restricted = restricted();
    if (restricted == null) {
      return command;
    }
    String mode = command.mode().name();
    if (!HARMLESS.contains(mode)) {
      throw new Denied(Denied.RESTRICTED, "A policy hides parts of " + restricted.name() + " from you, so EXPLAIN "
          + mode.toUpperCase(Locale.ROOT) + " would tell too much.");
    }
    Attribute text = CollectionConverters.asJava(command.output()).get(0);
    Expression scrubbed = new RegExpReplace(text, literal(TELLING), literal("$1=<hidden>"));
    Alias column = new Alias(scrubbed, text.name(), NamedExpression.newExprId(), Describe.seq(List.of()),
        scala.Option.empty(), Describe.seq(List.of()));
    return new Project(Describe.seq(List.of(column)), command);
  }

  private DataSourceV2Relation restricted() {
    DataSourceV2Relation[] found = {null};
    LogicalPlan explained;
    try {
      explained = session.sessionState()
          .executePlan(command.logicalPlan(), CommandExecutionMode$.MODULE$.SKIP()).analyzed();
    } catch (Denied denied) {
      throw denied;
    } catch (Exception error) {
      return null; // Spark shows what is wrong with a query in the place of its plan.
    }
    explained.foreachWithSubqueries(node -> {
      found[0] = node instanceof DataSourceV2Relation relation && Mark.isAnyOn(relation) ? relation : found[0];
      return BoxedUnit.UNIT;
    });
    return found[0];
  }

  private static Literal literal(String text) {
    return new Literal(UTF8String.fromString(text), DataTypes.StringType);
  }
}
