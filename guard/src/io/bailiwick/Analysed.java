package io.bailiwick;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.PosParameter;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.util.ArrowUtils;
import scala.Tuple3;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** What Spark's analysis of a plan tells. Commands in it are not carried out. */
final class Analysed {
  private static final Expression ONE = Literal.create(1, DataTypes.IntegerType);
  final Set<List<String>> reads = new LinkedHashSet<>();
  final TreeMap<Integer, String> parameterTypes = new TreeMap<>();
  boolean deterministic = true;
  /** Whether it calls a method by its name, be it in a view or by a name that is computed. */
  boolean reflects;
  private final LogicalPlan plan;
  private final SQLConf conf;
  private final PolicySession policies;

  Analysed(SparkSession session, LogicalPlan bound) {
    policies = PolicySession.beside(session);
    QueryExecution execution = session.sessionState().executePlan(bound, CommandExecutionMode$.MODULE$.SKIP());
    execution.assertAnalyzed();
    plan = execution.analyzed();
    conf = session.sessionState().conf();
    plan.foreachWithSubqueries(node -> {
      visit(node);
      return BoxedUnit.UNIT;
    });
  }

  String[] columns() {
    return plan.schema().fieldNames();
  }

  /** The schema as Spark will stream it, as an encapsulated IPC message; null where a parameter decides it. */
  byte[] schema() throws IOException, AnalysisException {
    for (StructField field : plan.schema().fields()) {
      if (field.dataType().existsRecursively(type -> type instanceof TimeType)) {
        String text = field.dataType().sql() + " of the column " + field.name();
        throw new AnalysisException("UNSUPPORTED_DATATYPE", Describe.detail("typeName", text));
      }
    }
    if (!parameterTypes.isEmpty() && (plan.schema().existsRecursively(type -> type instanceof NullType)
        || String.join("", plan.schema().fieldNames()).contains(Placeholder.TEXT))) {
      return null;
    }
    Schema schema =
        ArrowUtils.toArrowSchema(plan.schema(), conf.sessionLocalTimeZone(), false, conf.arrowUseLargeVarTypes());
    ByteArrayOutputStream message = new ByteArrayOutputStream();
    MessageSerializer.serialize(new WriteChannel(Channels.newChannel(message)), schema);
    return message.toByteArray();
  }

  static List<String> name(CatalogPlugin catalog, Identifier identifier) {
    List<String> name = new ArrayList<>();
    name.add(catalog.name());
    name.addAll(List.of(identifier.namespace()));
    name.add(identifier.name());
    return name;
  }

  private void visit(LogicalPlan node) {
    if (node instanceof Filter && Mark.isAnyOn(node)) {
      return; // The policy's own, which the person who asks did not write.
    }
    if (node instanceof DataSourceV2Relation table && table.catalog().isDefined() && table.identifier().isDefined()) {
      if (!policies.loaded(table)) {
        reads.add(name(table.catalog().get(), table.identifier().get()));
      }
    } else if (node instanceof View view && !view.isTempView()) {
      reads.add(CollectionConverters.asJava(view.desc().identifier().nameParts()));
    } else if (node instanceof LogicalRelation table && table.catalogTable().isDefined()) {
      reads.add(CollectionConverters.asJava(table.catalogTable().get().identifier().nameParts()));
    }
    for (Expression expression : CollectionConverters.asJava(node.expressions())) {
      deterministic &= expression.deterministic();
      expression.foreach(part -> {
        visit(part);
        return BoxedUnit.UNIT;
      });
    }
  }

  private void visit(Expression part) {
    if (part instanceof Cast cast && cast.child() instanceof Placeholder placeholder) {
      parameterTypes.put(placeholder.position, cast.dataType().simpleString());
    } else if (part instanceof Placeholder placeholder) {
      parameterTypes.putIfAbsent(placeholder.position, null);
    } else if (part instanceof CallMethodViaReflection) {
      reflects = true;
    } else if (part instanceof CurrentTimestampLike || part instanceof CurrentDate || part instanceof CurrentTime
        || part instanceof LocalTimestamp) {
      // Spark calls these deterministic: they are fixed for one execution, not for the next.
      deterministic = false;
    }
  }

  /** `plan`, all of a statement or a part of it, with the values of its parameters; placeholders stand for unknown. */
  static LogicalPlan bound(LogicalPlan plan, Parsed parsed) {
    LogicalPlan outside = plan.transformAllExpressionsWithSubqueries(new Replacement<Expression, PosParameter>(
        PosParameter.class, found -> parsed.values.getOrDefault(found.pos(), new Placeholder(found.pos()))));
    return outside.transformDownWithSubqueries(
        new Replacement<LogicalPlan, LogicalPlan>(LogicalPlan.class, node -> boundInside(node, parsed)));
  }

  private static LogicalPlan boundInside(LogicalPlan node, Parsed parsed) {
    if (Kinds.COUNT_FIRST.contains(node.getClass())) {
      return (LogicalPlan) node.mapExpressions(count -> asCount(count, parsed));
    }
    if (!(node instanceof UnresolvedWith with)) {
      return node;
    }
    // The expressions of a WITH are in no child of it.
    List<Tuple3<String, SubqueryAlias, scala.Option<Object>>> ctes = new ArrayList<>();
    for (var cte : CollectionConverters.asJava(with.cteRelations())) {
      ctes.add(new Tuple3<>(cte._1(), (SubqueryAlias) bound(cte._2(), parsed), cte._3()));
    }
    return with.copy(with.child(), Describe.seq(ctes), with.allowRecursion());
  }

  /** Drivers bind any number as the widest kind of integer, and Spark takes only an INT here. */
  private static Expression asCount(Expression count, Parsed parsed) {
    if (count instanceof Placeholder) {
      return ONE;
    }
    return count instanceof Literal literal && literal.value() instanceof Long number
        && number == number.intValue() && parsed.values.containsValue(count)
        ? Literal.create(number.intValue(), DataTypes.IntegerType) : count;
  }
}
