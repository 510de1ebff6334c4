package io.bailiwick;

import org.apache.spark.sql.types.DataType;

/**
 * Stands for a rule in a plan that is only shown. It names the rule and tells nothing of it, not even which columns it
 * reads. It has no value: a plan with it cannot run.
 */
public final class Hidden extends Valueless {
  private final String name;
  private final DataType type;

  /** Spark makes copies by this, of the parts in their order. */
  public Hidden(String name, DataType type) {
    this.name = name;
    this.type = type;
  }

  @Override
  public boolean foldable() {
    return false;
  }

  @Override
  public DataType dataType() {
    return type;
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? name : type;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Hidden;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Hidden hidden && hidden.name.equals(name) && hidden.type.equals(type);
  }

  @Override
  public int hashCode() {
    return name.hashCode();
  }

  @Override
  public String toString() {
    return "<policy " + name + ">";
  }

  @Override
  public String sql() {
    return toString();
  }
}
