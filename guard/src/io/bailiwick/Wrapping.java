package io.bailiwick;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
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
    binding = new Binding(session, name(relation));
    explains = Operation.current(session.sparkContext()).explains();
  }

  static List<String> name(DataSourceV2Relation relation) {
    Identifier identifier = relation.identifier().get();
    return Analysed.name(relation.catalog().get(), identifier);
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
    List<Columns.Named> named = new ArrayList<>();
    for (Stamp.Column column : rule.columns()) {
      Columns.Named found = columns.bound(column);
      if (found == null) {
        throw broken(relation.name());
      }
      named.add(found);
    }
    return Sure.made(binding.filter(rule.using(), named));
  }

  private List<NamedExpression> shown() {
    if (stamp.masks().isEmpty()) {
      return new ArrayList<>(CollectionConverters.asJava(relation.output()));
    }
    Map<Integer, Expression> masked = masked();
    List<NamedExpression> shown = new ArrayList<>();
    List<AttributeReference> outer = CollectionConverters.asJava(relation.output());
    List<AttributeReference> raw = CollectionConverters.asJava(inner.output());
    for (int i = 0; i < outer.size(); i++) {
      AttributeReference column = outer.get(i);
      shown.add(new Alias(masked.getOrDefault(i, raw.get(i)), column.name(), column.exprId(), column.qualifier(),
          scala.Option.apply(column.metadata()), Describe.seq(List.of())));
    }
    return shown;
  }

  /** What is shown for each column that a mask reaches, by the column's place. */
  private Map<Integer, Expression> masked() {
    stamp.masks().stream().filter(columns::hidesInside).findAny().ifPresent(mask -> {
      throw broken(relation.name());
    });
    List<AttributeReference> raw = CollectionConverters.asJava(inner.output());
    Map<Integer, Expression> masked = new HashMap<>();
    List<Columns.Path> done = new ArrayList<>();
    for (Columns.Path path : columns.paths()) {
      Stamp.Mask mask = maskOf(path);
      if (mask == null || done.stream().anyMatch(outer -> path.fields().subList(0, outer.fields().size())
          .equals(outer.fields()))) {
        continue;
      }
      done.add(path);
      int place = raw.indexOf(columns.attribute(path.column()));
      Expression column = masked.getOrDefault(place, raw.get(place));
      masked.put(place, explains ? new Hidden(mask.name(), raw.get(place).dataType()) : replaced(column, path, 1,
          shown(mask, path)));
    }
    return masked;
  }

  private Stamp.Mask maskOf(Columns.Path path) {
    String name = path.name().toLowerCase(Locale.ROOT);
    Stamp.Mask byName = null;
    for (Stamp.Mask mask : stamp.masks()) {
      if (mask.fieldId() != null && mask.fieldId() == path.id()) {
        return mask;
      }
      byName = mask.names().contains(name) ? mask : byName;
    }
    return byName;
  }

  /** The mask's expression for the field at `path`, of that field's type. */
  private Expression shown(Stamp.Mask mask, Columns.Path path) {
    Expression value = columns.attribute(path.column());
    for (int i = 1; i < path.fields().size(); i++) {
      value = field(value, path.fields().get(i).name());
    }
    Attribute self = path.isColumn() ? columns.attribute(path.column()) : new AttributeReference(Binding.VALUE,
        value.dataType(), true, org.apache.spark.sql.types.Metadata.empty(), NamedExpression.newExprId(),
        Describe.seq(List.of()));
    List<Columns.Named> named = new ArrayList<>();
    if (mask.isValue()) {
      named.add(new Columns.Named(Binding.VALUE, self));
    } else if (path.isColumn()) {
      mask.names().forEach(name -> named.add(new Columns.Named(name, self)));
    } else {
      named.add(new Columns.Named(path.column().name(), columns.attribute(path.column())));
    }
    for (Stamp.Column column : mask.columns()) {
      Columns.Named found = columns.bound(column);
      boolean isSelf = mask.names().contains(column.name().toLowerCase(Locale.ROOT));
      if (found == null && !isSelf) {
        throw broken(relation.name());
      }
      if (found != null) {
        named.add(found);
      }
    }
    Expression bound = substituted(binding.mask(mask.using(), named), self, value);
    return Binding.fitted(Sure.made(bound), value.dataType());
  }

  private static Expression substituted(Expression bound, Attribute self, Expression value) {
    if (self.semanticEquals(value)) {
      return bound;
    }
    Expression replaced = (Expression) bound.transform(new Replacement<Expression, AttributeReference>(
        AttributeReference.class, found -> found.exprId().equals(self.exprId()) ? value : found));
    if (Walk.mentions(replaced, self.exprId())) {
      throw new IllegalArgumentException("a field of a struct cannot be asked about in a query");
    }
    return replaced;
  }

  /** `column` with the field at `path` replaced, `depth` being how much of the way has been gone. */
  private static Expression replaced(Expression column, Columns.Path path, int depth, Expression shown) {
    if (depth == path.fields().size()) {
      return shown;
    }
    String name = path.fields().get(depth).name();
    Expression inside = replaced(field(column, name), path, depth + 1, shown);
    return new UpdateFields(column, Describe.seq(List.of(new WithField(name, inside))));
  }

  private static Expression field(Expression struct, String name) {
    DataType type = struct.dataType();
    int place = ((org.apache.spark.sql.types.StructType) type).fieldIndex(name);
    return new GetStructField(struct, place, scala.Option.apply(name));
  }

  private static LogicalPlan marked(LogicalPlan node, Mark mark) {
    mark.putOn(node);
    return node;
  }
}
