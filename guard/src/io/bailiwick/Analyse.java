package io.bailiwick;

import java.io.IOException;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.connect.proto.AnalyzePlanRequest;
import org.apache.spark.connect.proto.AnalyzePlanRequest.AnalyzeCase;
import org.apache.spark.connect.proto.AnalyzePlanResponse;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.RelationPlugin;
import org.apache.spark.sql.connect.service.SparkConnectAnalyzeHandler;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import org.apache.spark.sql.execution.ExplainMode$;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.types.DataTypes;
import org.sparkproject.connect.protobuf.Any;
import org.sparkproject.connect.protobuf.CodedInputStream;

/**
 * Answers what Spark's AnalyzePlan would, in one row of bytes, from inside an operation: only there is it known for
 * whom tables are loaded. Runs nothing.
 */
public final class Analyse implements RelationPlugin {
  private static final String ANALYSE = "type.googleapis.com/bailiwick.Analyse";
  private static final String MODE = "EXPLAIN_MODE_";
  /** The default of `spark.connect.grpc.marshallerRecursionLimit`. */
  private static final int DEPTH_MAX = 1024;
  /** Those that tell by what a plan is made of: rules have no part in it but their names. */
  private static final Set<AnalyzeCase> COMPARING = EnumSet.of(AnalyzeCase.SAME_SEMANTICS, AnalyzeCase.SEMANTIC_HASH);
  private static final Set<AnalyzeCase> ALLOWED = EnumSet.of(
      AnalyzeCase.SCHEMA, AnalyzeCase.EXPLAIN, AnalyzeCase.TREE_STRING, AnalyzeCase.IS_LOCAL, AnalyzeCase.IS_STREAMING,
      AnalyzeCase.DDL_PARSE, AnalyzeCase.JSON_TO_DDL, AnalyzeCase.SAME_SEMANTICS, AnalyzeCase.SEMANTIC_HASH);

  @Override
  public Optional<LogicalPlan> transform(byte[] relation, SparkConnectPlanner planner) {
    try {
      Any asked = Any.parseFrom(relation);
      if (!asked.getTypeUrl().equals(ANALYSE)) {
        return Optional.empty();
      }
      AnalyzePlanRequest question = AnalyzePlanRequest.parseFrom(deep(asked));
      if (!ALLOWED.contains(question.getAnalyzeCase())) {
        throw new Denied(Denied.NOT_ALLOWED, question.getAnalyzeCase() + " is not told of plans.");
      }
      return Optional.of(Describe.row(answer(question, planner).toByteArray(), DataTypes.BinaryType));
    } catch (IOException error) {
      throw Describe.unchecked(error);
    } catch (StackOverflowError error) {
      throw Describe.unchecked(Describe.tooComplex()); // Else Spark takes it for its own death.
    }
  }

  /** Plans may be as deep here as they may be elsewhere in Spark. */
  private static CodedInputStream deep(Any asked) {
    CodedInputStream bytes = asked.getValue().newCodedInput();
    bytes.setRecursionLimit(DEPTH_MAX);
    return bytes;
  }

  private static AnalyzePlanResponse answer(AnalyzePlanRequest question, SparkConnectPlanner planner) {
    if (question.getAnalyzeCase() == AnalyzeCase.EXPLAIN) {
      return explained(question.getExplain(), planner);
    }
    if (COMPARING.contains(question.getAnalyzeCase())) {
      Operation.current(planner.session().sparkContext()).noteExplanation();
    }
    return new SparkConnectAnalyzeHandler(null).process(question, planner.sessionHolder());
  }

  /** By way of the command EXPLAIN, which hides what it must. Unlike that, what makes no sense is an error. */
  private static AnalyzePlanResponse explained(AnalyzePlanRequest.Explain question, SparkConnectPlanner planner) {
    SparkSession session = planner.session();
    Operation.current(session.sparkContext()).noteExplanation();
    LogicalPlan plan = planner.transformRelation(question.getPlan().getRoot());
    session.sessionState().executePlan(plan, CommandExecutionMode$.MODULE$.SKIP()).assertAnalyzed();
    String mode = question.getExplainMode().name().substring(MODE.length()).toLowerCase(Locale.ROOT);
    ExplainCommand command = new ExplainCommand(plan, ExplainMode$.MODULE$.fromString(mode));
    Row row = Dataset$.MODULE$.ofRows(session, command).collectAsList().get(0);
    AnalyzePlanResponse.Builder answer = AnalyzePlanResponse.newBuilder();
    answer.getExplainBuilder().setExplainString(row.getString(0));
    return answer.build();
  }
}
