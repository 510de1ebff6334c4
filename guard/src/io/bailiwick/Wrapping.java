package io.bailiwick;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What stands in a plan for a table of which a person may see only a part.
 *
 * <p>From below: the relation, its row filters, a barrier, the masks under the names and identities of the columns they
 * hide. The barrier keeps what the person wrote from being asked of rows that the filters leave out: an expression that
 * fails would tell of them. Without filters there is nothing to keep apart.
 */
final class Wrapping {
  /** What a person may ask of a scan of such a table. */
  private static final Set<String> OPTIONS = Set.of(
      "snapshot-id", "as-of-timestamp", "branch", "tag", "versionasof", "timestampasof", "start-snapshot-id",
      "end-snapshot-id", "split-size", "lookback", "file-open-cost", "batch-size", "vectorization-enabled");

  private static final Logger LOG = LoggerFactory.getLogger(Wrapping.class);
  private final SparkSession session;
  private final DataSourceV2Relation relation;
  private final Stamp stamp;
  private final Columns columns;
  private final DataSourceV2Relation inner;
  private final Binding binding;
  private final boolean explains;

  Wrapping(SparkSession session, DataSourceV2Relation relation, Stamped stamped) {
    this.session = session;
    this.relation = relation;
    this.stamp = stamped.stamp();
    check(stamped);
    // Marked is a copy: the relation itself may stand elsewhere in the plan, unwrapped.
    inner = stamp.masks().isEmpty() ? (DataSourceV2Relation) relation.clone() : relation.newInstance();
    new Mark(session, stamp.sealed()).putOn(inner);
    columns = new Columns(stamped.schema(), CollectionConverters.asJava(inner.output()));
    binding = new Binding(session, PolicySession.beside(session).name(stamp.table()));
    explains = Operation.current(session.sparkContext()).explains();
  }

  LogicalPlan plan() {
    Mark mark = new Mark(session, stamp.sealed());
    LogicalPlan plan = inner;
    for (Expression condition : bound()) {
      plan = marked(new Filter(condition, plan), mark);
    }
    if (!stamp.filters().isEmpty()) {
      plan = marked(new Barrier(plan), mark);
    }
    Project project = new Project(Describe.seq(trusted(this::shown)), plan);
    // Else Spark would find the table's hidden columns (_file, _pos) through it.
    project.setTagValue(Project.hiddenOutputTag(), Describe.seq(List.of()));
    return marked(project, mark);
  }

  /**
   * The plan with each table in the place of what stands for it, for a view to keep: whoever reads the view meets the
   * rules that hold then. Spark itself loads the tables of a view anew each time.
   */
  static LogicalPlan unwrapped(LogicalPlan plan) {
    return plan.transformDownWithSubqueries(
        new Replacement<LogicalPlan, Project>(Project.class, node -> Mark.isAnyOn(node) ? table(node) : node));
  }

  private static LogicalPlan table(Project shown) {
    LogicalPlan inner = shown.child();
    while (Mark.isAnyOn(inner) && (inner instanceof Filter || inner instanceof Barrier)) {
      inner = CollectionConverters.asJava(inner.children()).get(0);
    }
    if (!(inner instanceof DataSourceV2Relation relation) || !Mark.isAnyOn(relation)) {
      return shown;
    }
    Iterator<Attribute> output = CollectionConverters.asJava(shown.output()).iterator();
    List<AttributeReference> columns = new ArrayList<>();
    for (AttributeReference column : CollectionConverters.asJava(relation.output())) {
      columns.add(column.withExprId(output.next().exprId()));
    }
    DataSourceV2Relation table = relation.copy(relation.table(), Describe.seq(columns), relation.catalog(),
        relation.identifier(), relation.options(), relation.timeTravelSpec());
    Mark.leaveOff(table);
    return table;
  }

  /** The conditions of all row filters, over `columns`. */
  List<Expression> bound() {
    return trusted(() -> {
      List<Expression> conditions = new ArrayList<>();
      for (Stamp.Filter rule : stamp.filters()) {
        conditions.add(explains ? new Hidden(rule.name(), DataTypes.BooleanType) : condition(rule));
      }
      return conditions;
    });
  }

  List<AttributeReference> columns() {
    return CollectionConverters.asJava(inner.output());
  }

  /** Done by the rules' own right. Whatever Spark has to say about a rule would tell of it, so nothing is said. */
  private <T> T trusted(Supplier<T> work) {
    String handle = relation.catalog().get() instanceof SharedRestCatalog catalog ? catalog.handle() : "";
    try {
      return new PolicyRight(handle, stamp.sealed(), stamp.principal()).during(work);
    } catch (Exception error) {
      LOG.warn("a rule on {} cannot be applied", relation.name(), error);
      throw broken(relation.name());
    }
  }

  static Denied broken(String table) {
    return new Denied(Denied.POLICY,
        "A policy on " + table + " cannot be applied to what is asked of it. An administrator can tell why.");
  }

  private void check(Stamped stamped) {
    if (stamped.isDerived()) {
      throw new Denied(Denied.RESTRICTED, "A policy hides parts of this table, so " + relation.name()
          + ", which tells about all of it, cannot be read.");
    }
    for (AttributeReference column : CollectionConverters.asJava(relation.output())) {
      if (MetadataAttribute.isValid(column.metadata())) {
        throw hiddenColumn(relation, column.name());
      }
    }
    for (String option : relation.options().keySet()) {
      if (!OPTIONS.contains(option.toLowerCase(Locale.ROOT))) {
        throw new Denied(Denied.RESTRICTED,
            "A policy hides parts of " + relation.name() + ", so it cannot be read with the option " + option + ".");
      }
    }
  }

  static Denied hiddenColumn(DataSourceV2Relation relation, String column) {
    return new Denied(Denied.RESTRICTED,
        "A policy hides parts of " + relation.name() + ", so it has no column " + column + " for you.");
  }

  private Expression condition(Stamp.Filter rule) {
    List<Columns.Named> named = rule.columns().stream().map(columns::bound).toList();
    return Sure.made(binding.filter(rule.using(), named));
  }

  private List<NamedExpression> shown() {
    return stamp.masks().isEmpty() ? new ArrayList<>(CollectionConverters.asJava(relation.output()))
        : new Masking(stamp.masks(), columns, binding, explains).shown(
            CollectionConverters.asJava(relation.output()), columns());
  }

  private static LogicalPlan marked(LogicalPlan node, Mark mark) {
    mark.putOn(node);
    return node;
  }
}
