package io.bailiwick;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;

/** An expression without parts and without a value: a plan with it cannot run. Spark's own is a trait of Scala's. */
abstract class Valueless extends Expression {
  @Override
  public final boolean nullable() {
    return true;
  }

  @Override
  public final Object eval(InternalRow row) {
    throw new UnsupportedOperationException(getClass().getSimpleName() + " has no value");
  }

  @Override
  public final ExprCode doGenCode(CodegenContext context, ExprCode code) {
    throw new UnsupportedOperationException(getClass().getSimpleName() + " has no value");
  }

  @Override
  public final scala.collection.immutable.Seq<Expression> children() {
    return Describe.seq(List.of());
  }

  @Override
  public final Expression withNewChildrenInternal(scala.collection.immutable.IndexedSeq<Expression> children) {
    return this;
  }
}
