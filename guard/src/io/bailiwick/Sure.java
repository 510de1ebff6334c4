package io.bailiwick;

import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.types.DataTypes;

/**
 * Makes sure that a rule's expression never fails on a row: the error would show the row's values.
 *
 * <p>What could fail gives null instead, so the row is left out and the value is not shown. Expressions that cannot
 * fail are left as they are, for Spark understands them better.
 */
final class Sure {
  private static final Set<Class<?>> CANNOT_FAIL = Set.of(
      Literal.class, AttributeReference.class, And.class, Or.class, Not.class, EqualTo.class, EqualNullSafe.class,
      LessThan.class, LessThanOrEqual.class, GreaterThan.class, GreaterThanOrEqual.class, In.class, InSet.class,
      IsNull.class, IsNotNull.class, Coalesce.class, If.class, CaseWhen.class, Nvl.class, Concat.class, Lower.class,
      Upper.class, StringTrim.class, Substring.class, Right.class, Left.class, Length.class, StartsWith.class,
      EndsWith.class, Contains.class, Sha2.class, Md5.class, Murmur3Hash.class, XxHash64.class, GetStructField.class,
      Exists.class, InSubquery.class, ListQuery.class, ScalarSubquery.class, Mask.class);

  private Sure() {}

  static Expression made(Expression expression) {
    if (expression instanceof And both) {
      return new And(made(both.left()), made(both.right()));
    }
    boolean fails = expression.exists(part -> !CANNOT_FAIL.contains(part.getClass()) && !isSafeCast(part));
    return fails ? new TryEval(expression) : expression;
  }

  /** Anything has a text. */
  private static boolean isSafeCast(Expression part) {
    return part instanceof Cast cast && (cast.dataType().equals(DataTypes.StringType)
        || cast.dataType().equals(cast.child().dataType()));
  }
}
