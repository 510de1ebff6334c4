package io.bailiwick;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataType$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Turns the text of a rule into an expression over one relation.
 *
 * <p>A name in it means a column that the rule declares, or nothing; a function is one of Spark's own; a table is named
 * in full and loaded by the rule's own right. Anything else is an error, and the caller says what of it is told.
 */
final class Binding {
  /** In a rule about a tag, what is masked. */
  static final String VALUE = "value";
  private final PolicySession policies;
  private final List<String> catalogs;
  private final List<String> table;

  Binding(SparkSession session, List<String> table) {
    this.policies = PolicySession.beside(session);
    this.catalogs = Stamped.catalogs(session);
    this.table = table;
  }

  Expression filter(String text, List<Columns.Named> columns) {
    return BoundRules.bound(text, true, columns, () -> boundFilter(text, columns));
  }

  Expression mask(String text, List<Columns.Named> columns) {
    return BoundRules.bound(text, false, columns, () -> boundMask(text, columns));
  }

  private Expression boundFilter(String text, List<Columns.Named> columns) {
    LogicalPlan analysed = policies.analysed(new Filter(allowed(text), standIn(columns)));
    if (!(analysed instanceof Filter filter) || !(filter.child() instanceof SubqueryAlias)) {
      throw new IllegalArgumentException("A row filter is a condition on one row.");
    }
    if (!(filter.condition().dataType() instanceof BooleanType)) {
      throw new IllegalArgumentException("A row filter is true or false.");
    }
    return sound(filter.condition());
  }

  private Expression boundMask(String text, List<Columns.Named> columns) {
    Expression parsed = allowed(text);
    Alias shown = alias(parsed, "shown");
    LogicalPlan analysed = policies.analysed(new Project(Describe.seq(List.of(shown)), standIn(columns)));
    if (!(analysed instanceof Project project) || !(project.child() instanceof SubqueryAlias)
        || !(CollectionConverters.asJava(project.projectList()).get(0) instanceof Alias bound)) {
      throw new IllegalArgumentException("A mask is an expression over one row.");
    }
    return sound(bound.child());
  }

  /** The parse, of nothing but what a rule may be made of. */
  Expression allowed(String text) {
    Expression parsed = policies.parsed(text);
    Parsed parts = parts(parsed);
    if (!Kinds.of(parts.nodes).equals(Kinds.READ) || !parts.parameters.isEmpty() || parts.dynamicNames) {
      throw new IllegalArgumentException("A rule is an expression, with no more than queries inside.");
    }
    for (String function : parts.functions) {
      if (Forbidden.NAMES.contains(function)
          || !FunctionRegistry$.MODULE$.builtin().functionExists(new FunctionIdentifier(function))) {
        throw new IllegalArgumentException(
            "A rule may use functions of Spark's that are allowed, not " + function + ".");
      }
    }
    for (List<String> name : parts.reads) {
      if (name.size() < 3 || !catalogs.contains(name.get(0)) || !parts.written.contains(name)) {
        throw new IllegalArgumentException(
            "A rule names other tables in full, such as catalog.namespace.table, not " + String.join(".", name) + ".");
      }
    }
    return parsed;
  }

  Parsed parts(Expression parsed) {
    LogicalPlan plan = new Project(Describe.seq(List.of(alias(parsed, "shown"))), new OneRowRelation());
    return new Parsed(plan, policies.catalogs());
  }

  /** Has the columns that the rule may name and no others, with the identity of the relation's own. */
  private LogicalPlan standIn(List<Columns.Named> columns) {
    List<Attribute> output = new ArrayList<>();
    Set<String> names = new HashSet<>();
    for (Columns.Named column : columns) {
      if (names.add(column.name().toLowerCase(Locale.ROOT))) {
        output.add(renamed(column.attribute(), column.name()));
      }
    }
    LogicalPlan relation = new LocalRelation(
        Describe.seq(output), Describe.seq(List.of()), false, scala.Option.empty());
    return SubqueryAlias$.MODULE$.apply(Describe.seq(table), relation);
  }

  private static Attribute renamed(Attribute attribute, String name) {
    return new AttributeReference(name, attribute.dataType(), attribute.nullable(),
        attribute.metadata(), attribute.exprId(), Describe.seq(List.of()));
  }

  private static Alias alias(Expression expression, String name) {
    return new Alias(expression, name, NamedExpression.newExprId(), Describe.seq(List.of()), scala.Option.empty(),
        Describe.seq(List.of()));
  }

  private static Expression sound(Expression bound) {
    if (!bound.deterministic()) {
      throw new IllegalArgumentException("A rule decides the same way each time it is asked.");
    }
    return Sure.withSureQueries(bound);
  }

  /** As `wanted`, or null where it cannot be: what is shown instead of a value never fails. */
  static Expression fitted(Expression shown, DataType wanted) {
    return DataType$.MODULE$.equalsIgnoreNullability(shown.dataType(), wanted)
        ? shown : new Cast(shown, wanted, scala.Option.apply("UTC"), EvalMode$.MODULE$.TRY());
  }
}
