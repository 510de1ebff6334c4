package io.bailiwick;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;

/** True for a row that a table's row filters let its writer see; any other row ends the statement. */
public final class RowCheck extends Expression implements CodegenFallback, Serializable {
  final String sealed;
  private final Expression condition;
  private final String table;

  /** Spark makes copies by this, of the parts in their order. */
  public RowCheck(Expression condition, String table, String sealed) {
    this.condition = condition;
    this.table = table;
    this.sealed = sealed;
  }

  @Override
  public Object eval(InternalRow row) {
    if (!Boolean.TRUE.equals(condition.eval(row))) {
      throw new Denied(Denied.ROW,
          "A row cannot be written to " + table + ": its row filters would hide it from you. Nothing was written.");
    }
    return true;
  }

  /** Spark must not ask it of rows that the statement itself leaves out. */
  @Override
  public boolean deterministic() {
    return false;
  }

  @Override
  public boolean foldable() {
    return false;
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public DataType dataType() {
    return DataTypes.BooleanType;
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    return CodegenFallback.super.doGenCode(context, code);
  }

  @Override
  public scala.collection.immutable.Seq<Expression> children() {
    return Describe.seq(List.of(condition));
  }

  @Override
  public Expression withNewChildrenInternal(scala.collection.immutable.IndexedSeq<Expression> children) {
    return new RowCheck(CollectionConverters.asJava(children).get(0), table, sealed);
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int index) {
    return List.of(condition, table, sealed).get(index);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof RowCheck;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RowCheck check && check.condition.equals(condition) && check.sealed.equals(sealed);
  }

  @Override
  public int hashCode() {
    return condition.hashCode();
  }

  @Override
  public String toString() {
    return "<row filters of " + table + ">";
  }

  @Override
  public String sql() {
    return toString();
  }
}
