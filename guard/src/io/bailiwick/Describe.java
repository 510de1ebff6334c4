package io.bailiwick;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.connect.proto.SQL;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.analysis.UnresolvedInlineTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.RelationPlugin;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.sparkproject.connect.protobuf.Any;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells what a statement is, in one row of JSON, and runs nothing. Also the way by which statements with parameters
 * are run: Spark's own pastes them into the text, where a minus before a negative number begins a comment.
 *
 * <p>A query is analysed, and so is what only tells (SHOW, DESCRIBE). A change is not: Spark carries out some of them
 * while it analyses (CALL, a MERGE that evolves its table's schema). Only the queries inside it are, for the tables
 * they read. Errors of parsing and analysis are Spark's own. Where the values of parameters are not given, the answer
 * says which types they should have, as far as Spark can tell. Who asks to parse only is told what the text alone says.
 */
public final class Describe implements RelationPlugin {
  private static final String DESCRIBE = "type.googleapis.com/bailiwick.Describe";
  private static final String PARSE = "type.googleapis.com/bailiwick.Parse";
  private static final String RUN = "type.googleapis.com/bailiwick.Run";
  private static final String CHECK = "type.googleapis.com/bailiwick.CheckExpression";
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int DEPTH_MAX = 200;

  @Override
  public Optional<LogicalPlan> transform(byte[] relation, SparkConnectPlanner planner) {
    try {
      Any request = Any.parseFrom(relation);
      if (!Set.of(DESCRIBE, PARSE, RUN, CHECK).contains(request.getTypeUrl())) {
        return Optional.empty();
      }
      SQL question = SQL.parseFrom(request.getValue());
      if (depth(question.getQuery()) > DEPTH_MAX) {
        throw tooComplex();
      }
      SparkSession session = planner.session();
      if (request.getTypeUrl().equals(CHECK)) {
        return Optional.of(row(new PolicyCheck(session, question.getQuery()).answer().toString()));
      }
      LogicalPlan plan = session.sessionState().sqlParser().parsePlan(question.getQuery());
      Parsed parsed = new Parsed(plan, session.sessionState().catalogManager());
      boolean own = parsed.isOwn() && Operation.current(session.sparkContext()).isDedicated();
      if (request.getTypeUrl().equals(PARSE)) {
        return Optional.of(row(answer(parsed, null, own).toString()));
      }
      boolean runs = request.getTypeUrl().equals(RUN);
      if (runs || question.getPosArgumentsCount() > 0) {
        parsed.bind(question.getPosArgumentsList().stream().map(planner::transformExpression).toList());
      }
      return Optional.of(runs ? Analysed.bound(plan, parsed) : row(describe(session, plan, parsed, own).toString()));
    } catch (IOException | AnalysisException error) {
      throw unchecked(error);
    } catch (StackOverflowError error) {
      throw unchecked(tooComplex()); // Else Spark takes it for its own death and the call ends without a word.
    }
  }

  /** How deep brackets stand in one another. Spark's parser takes time and memory far beyond that in proportion. */
  private static int depth(String sql) {
    int depth = 0;
    int deepest = 0;
    for (int i = 0; i < sql.length(); i++) {
      depth += sql.charAt(i) == '(' ? 1 : sql.charAt(i) == ')' ? -1 : 0;
      deepest = Math.max(deepest, depth);
    }
    return deepest;
  }

  static AnalysisException tooComplex() {
    return new AnalysisException("FAILED_TO_PARSE_TOO_COMPLEX", scala.collection.immutable.Map$.MODULE$.empty());
  }

  private static ObjectNode describe(SparkSession session, LogicalPlan plan, Parsed parsed, boolean own)
      throws IOException, AnalysisException {
    Analysed analysed = null;
    switch (own ? Kinds.OWN : parsed.kind()) {
      case Kinds.READ, Kinds.SHOWS -> analysed = analyse(session, plan, parsed);
      case Kinds.CHANGE -> {
        queriesInside(plan, session.sessionState().catalogManager())
            .forEach(query -> tryReads(session, query, parsed));
        Wanted.types(session, plan, parsed);
      }
      case Kinds.OWN -> queriesInside(plan, session.sessionState().catalogManager())
          .forEach(query -> tryReads(session, query, parsed));
      default -> { }
    }
    return answer(parsed, analysed, own);
  }

  /** Null where Spark cannot analyse the statement before its parameters are known. */
  private static Analysed analyse(SparkSession session, LogicalPlan plan, Parsed parsed) throws AnalysisException {
    if (parsed.dynamicExpressions && parsed.nodes.contains(UnresolvedInlineTable.class)) {
      return null; // Analysing VALUES evaluates it, and here it may call anything.
    }
    try {
      Analysed analysed = new Analysed(session, Analysed.bound(plan, parsed));
      parsed.reads.addAll(analysed.reads);
      parsed.learn(analysed.parameterTypes);
      analysed.reads.forEach(name -> parsed.catalogs.add(name.get(0)));
      return analysed;
    } catch (Exception error) {
      if (error instanceof AnalysisException && parsed.lacksValues()) {
        return null;
      }
      throw unchecked(error);
    }
  }

  /** Adds what `query` reads; one that cannot be analysed by itself (a DEFAULT in VALUES, say) adds nothing. */
  private static void tryReads(SparkSession session, LogicalPlan query, Parsed parsed) {
    try {
      analyse(session, query, parsed);
    } catch (Exception error) {
      if (!(error instanceof AnalysisException)) {
        throw unchecked(error);
      }
    }
  }

  private static List<LogicalPlan> queriesInside(LogicalPlan change, CatalogManager catalogs) {
    List<LogicalPlan> queries = new ArrayList<>();
    if (change instanceof UnresolvedWith with) {
      for (LogicalPlan query : queriesInside(with.child(), catalogs)) {
        queries.add(with.copy(query, with.cteRelations(), with.allowRecursion()));
      }
    } else {
      int first = Kinds.TARGET_FIRST.contains(change.getClass()) ? 1 : 0;
      for (int i = first; i < change.productArity(); i++) {
        Object part = change.productElement(i);
        if (part instanceof LogicalPlan plan && new Parsed(plan, catalogs).kind().equals(Kinds.READ)) {
          queries.add(plan);
        }
      }
    }
    return queries;
  }

  private static ObjectNode answer(Parsed parsed, Analysed analysed, boolean own)
      throws IOException, AnalysisException {
    boolean reflects = analysed != null && analysed.reflects;
    boolean read = parsed.kind().equals(Kinds.READ);
    ObjectNode answer = JSON.createObjectNode();
    answer.put("kind", reflects ? Kinds.SESSION : own ? Kinds.OWN : parsed.kind());
    answer.put("command", reflects ? "reflect" : parsed.command());
    names(answer.putArray("reads"), parsed.reads);
    names(answer.putArray("writes"), parsed.writes);
    parsed.catalogs.forEach(answer.putArray("catalogs")::add);
    parsed.functions.forEach(answer.putArray("functions")::add);
    ArrayNode parameters = answer.putArray("parameters");
    int position = 0;
    for (String type : parsed.parameters.values()) {
      parameters.addObject().put("position", position++).put("type", type);
    }
    answer.put("dynamic_names", parsed.dynamicNames);
    answer.put("deterministic", read && analysed != null && analysed.deterministic && !parsed.sampled);
    answer.put("schema", analysed == null ? null : analysed.schema());
    return answer;
  }

  private static void names(ArrayNode array, Set<List<String>> names) {
    names.forEach(name -> name.forEach(array.addArray()::add));
  }

  static LogicalPlan row(String text) {
    return row(text, DataTypes.StringType);
  }

  static LogicalPlan row(Object value, DataType type) {
    Attribute column = new AttributeReference(
        "description", type, false, Metadata.empty(), NamedExpression.newExprId(), seq(List.of()));
    return LocalRelation.fromExternalRows(seq(List.of(column)), seq(List.of(RowFactory.create(value))));
  }

  static scala.collection.immutable.Map<String, String> detail(String name, String text) {
    return scala.collection.immutable.Map$.MODULE$.<String, String>empty().updated(name, text);
  }

  static <T> scala.collection.immutable.Seq<T> seq(List<T> items) {
    return scala.collection.immutable.List$.MODULE$.from(CollectionConverters.asScala(items));
  }

  /** Spark's exceptions are checked ones to Java, and must arrive as they are. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
