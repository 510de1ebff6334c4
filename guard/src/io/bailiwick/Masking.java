package io.bailiwick;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;

/** What is shown of each column of a table, in the place of what it holds. Errors are for the caller to keep quiet. */
final class Masking {
  private final List<Stamp.Mask> masks;
  private final Columns columns;
  private final Binding binding;
  private final boolean explains;

  Masking(List<Stamp.Mask> masks, Columns columns, Binding binding, boolean explains) {
    this.masks = masks;
    this.columns = columns;
    this.binding = binding;
    this.explains = explains;
    if (masks.stream().anyMatch(columns::hidesInside)) {
      throw new IllegalArgumentException("a mask reaches into an array or a map");
    }
  }

  /** `raw`, masked, under the names and identities of `outer`. */
  List<NamedExpression> shown(List<AttributeReference> outer, List<AttributeReference> raw) {
    Map<ExprId, Expression> masked = masked();
    List<NamedExpression> shown = new ArrayList<>();
    for (int i = 0; i < outer.size(); i++) {
      AttributeReference column = outer.get(i);
      shown.add(new Alias(masked.getOrDefault(raw.get(i).exprId(), raw.get(i)), column.name(), column.exprId(),
          column.qualifier(), scala.Option.apply(column.metadata()), Describe.seq(List.of())));
    }
    return shown;
  }

  private Map<ExprId, Expression> masked() {
    Map<ExprId, Expression> masked = new HashMap<>();
    List<Columns.Path> done = new ArrayList<>();
    for (Columns.Path path : columns.paths()) {
      Stamp.Mask mask = maskOf(path);
      if (mask == null || done.stream().anyMatch(path::isWithin)) {
        continue;
      }
      done.add(path);
      Attribute raw = columns.attribute(path.column());
      Expression column = masked.getOrDefault(raw.exprId(), raw);
      masked.put(raw.exprId(), explains ? new Hidden(mask.name(), raw.dataType())
          : replaced(column, path, 1, shown(mask, path)));
    }
    return masked;
  }

  /** One that knows the field by its id, else the one that knows a name of it. */
  private Stamp.Mask maskOf(Columns.Path path) {
    String name = path.name().toLowerCase(Locale.ROOT);
    Stamp.Mask byName = null;
    for (Stamp.Mask mask : masks) {
      if (mask.fieldId() != null && mask.fieldId() == path.id()) {
        return mask;
      }
      if (mask.names().contains(name)) {
        if (byName != null) {
          throw new IllegalArgumentException("two masks know a column by its name");
        }
        byName = mask;
      }
    }
    return byName;
  }

  /** The mask's expression for the field at `path`, of that field's type. */
  private Expression shown(Stamp.Mask mask, Columns.Path path) {
    Attribute column = columns.attribute(path.column());
    Expression value = column;
    for (int i = 1; i < path.fields().size(); i++) {
      value = field(value, path.fields().get(i).name());
    }
    Attribute self = path.isColumn() ? column : new AttributeReference(Binding.VALUE, value.dataType(), true,
        Metadata.empty(), NamedExpression.newExprId(), Describe.seq(List.of()));
    List<Columns.Named> named = new ArrayList<>();
    if (mask.isValue()) {
      named.add(new Columns.Named(Binding.VALUE, self));
    } else if (path.isColumn()) {
      mask.names().forEach(name -> named.add(new Columns.Named(name, self)));
    } else {
      named.add(new Columns.Named(column.name(), column));
    }
    mask.columns().stream().filter(each -> !mask.names().contains(each.name().toLowerCase(Locale.ROOT)))
        .map(columns::bound).forEach(named::add);
    Expression bound = substituted(binding.mask(mask.using(), named), self, value);
    return Binding.fitted(Sure.made(bound), value.dataType());
  }

  /** A field has no identity of its own, so one was made up for as long as the rule was bound. */
  private static Expression substituted(Expression bound, Attribute self, Expression value) {
    if (self == value) {
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
    Expression field = field(column, name);
    Expression inside = nullableAs(field, column, replaced(field, path, depth + 1, shown));
    return new UpdateFields(column, Describe.seq(List.of(new WithField(name, inside))));
  }

  /** A struct that is null has no fields: readers refuse one that is declared never to be null. */
  private static Expression nullableAs(Expression field, Expression struct, Expression shown) {
    return field.nullable() && !shown.nullable()
        ? new If(new IsNull(struct), Literal.create(null, shown.dataType()), shown) : shown;
  }

  private static Expression field(Expression struct, String name) {
    int place = ((StructType) struct.dataType()).fieldIndex(name);
    return new GetStructField(struct, place, scala.Option.apply(name));
  }
}
