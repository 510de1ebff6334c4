package io.bailiwick;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;

/**
 * Stands for a rule in a plan that is only shown. It names the rule and tells nothing of it, not even which columns it
 * reads. It has no value: a plan with it cannot run.
 */
public final class Hidden extends Expression {
  private final String name;
  private final DataType type;

  /** Spark makes copies by this, of the parts in their order. */
  public Hidden(String name, DataType type) {
    this.name = name;
    this.type = type;
  }

  @Override
  public boolean nullable() {
    return true;
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
  public Object eval(InternalRow row) {
    throw new UnsupportedOperationException("a rule that is only shown");
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    throw new UnsupportedOperationException("a rule that is only shown");
  }

  @Override
  public scala.collection.immutable.Seq<Expression> children() {
    return Describe.seq(List.of());
  }

  @Override
  public Expression withNewChildrenInternal(scala.collection.immutable.IndexedSeq<Expression> children) {
    return this;
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
