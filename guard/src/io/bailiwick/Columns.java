package io.bailiwick;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.iceberg.Schema;
import org.apache.iceberg.types.Types.NestedField;
import org.apache.iceberg.types.Types.StructType;
import org.apache.spark.sql.catalyst.expressions.Attribute;

/** The columns of a relation, found by the field ids and names that rules know them by. */
final class Columns {
  private final Map<String, Attribute> attributes = new HashMap<>();
  private final Schema schema;
  private final List<Path> paths = new ArrayList<>();

  Columns(Schema schema, List<? extends Attribute> output) {
    this.schema = schema;
    output.forEach(attribute -> attributes.put(attribute.name(), attribute));
    collect(schema.asStruct(), List.of());
  }

  /** A field and what it lies in, the column first. `name` has a dot between them. */
  record Path(List<NestedField> fields) {
    String name() {
      return String.join(".", fields.stream().map(NestedField::name).toList());
    }

    int id() {
      return fields.get(fields.size() - 1).fieldId();
    }

    boolean isColumn() {
      return fields.size() == 1;
    }

    NestedField column() {
      return fields.get(0);
    }

    boolean isWithin(Path outer) {
      return fields.size() >= outer.fields.size()
          && fields.subList(0, outer.fields.size()).equals(outer.fields);
    }
  }

  Attribute attribute(NestedField column) {
    Attribute found = attributes.get(column.name());
    if (found == null) {
      throw new IllegalStateException("the relation lacks a column of its schema");
    }
    return found;
  }

  /** All columns and the fields of structs in them; what lies in arrays and maps has no path. */
  List<Path> paths() {
    return paths;
  }

  private void collect(StructType struct, List<NestedField> above) {
    for (NestedField field : struct.fields()) {
      List<NestedField> fields = new ArrayList<>(above);
      fields.add(field);
      paths.add(new Path(fields));
      if (field.type().isStructType()) {
        collect(field.type().asStructType(), fields);
      }
    }
  }

  /** What the rule means by this column, under the name that its text has for it. Raises if it is not there. */
  Named bound(Stamp.Column column) {
    String name = column.name().toLowerCase(Locale.ROOT);
    for (Path path : paths) {
      boolean isSame = column.fieldId() == null
          ? path.name().toLowerCase(Locale.ROOT).equals(name) : path.id() == column.fieldId();
      if (isSame && path.isColumn()) {
        return new Named(column.name(), attribute(path.column()));
      }
      // The text names a field by its way through structs, so no part of that way may have been renamed.
      if (isSame && path.name().toLowerCase(Locale.ROOT).equals(name)) {
        return new Named(path.column().name(), attribute(path.column()));
      }
    }
    throw new IllegalArgumentException("a column that a rule reads is not there");
  }

  /** Whether a field of this id, or of one of these names, lies in an array or a map. */
  boolean hidesInside(Stamp.Mask mask) {
    boolean byId = mask.fieldId() != null && schema.findField(mask.fieldId()) != null
        && paths.stream().noneMatch(path -> path.id() == mask.fieldId());
    return byId || mask.names().stream().anyMatch(name -> schema.caseInsensitiveFindField(name) != null
        && paths.stream().noneMatch(path -> path.name().toLowerCase(Locale.ROOT).equals(name)));
  }

  /** An attribute under the name that a rule has for it. */
  record Named(String name, Attribute attribute) {}
}
