package io.bailiwick;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Stands for a `?` while a statement is analysed, never while one runs. Its type is that of NULL, so Spark casts it to
 * what the statement wants there, and so tells the parameter's type. Not a LeafExpression: Java cannot extend that.
 */
final class Placeholder extends Valueless {
  /** How it shows in the name of a column that has no alias. */
  static final String TEXT = "?";
  final int position;

  Placeholder(int position) {
    this.position = position;
  }

  @Override
  public DataType dataType() {
    return DataTypes.NullType;
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return position;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Placeholder;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Placeholder placeholder && placeholder.position == position;
  }

  @Override
  public int hashCode() {
    return position;
  }

  @Override
  public String sql() {
    return TEXT;
  }
}
