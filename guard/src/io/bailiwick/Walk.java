package io.bailiwick;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Goes through everything that a plan is made of: children, expressions, queries inside expressions, the fields of
 * commands that Spark itself would not call children.
 */
abstract class Walk {
  private final Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());

  /** Called for each node. To go further down is for the callee to say, by calling `into`. */
  abstract void visit(TreeNode<?> node);

  final void into(Product node) {
    Iterator<Object> parts = CollectionConverters.asJava(node.productIterator());
    parts.forEachRemaining(this::each);
  }

  final void each(Object part) {
    if (part instanceof TreeNode<?> node) {
      // The parts of an expression may be reached many ways: what was rewritten keeps the original beside it.
      if (!(part instanceof Expression) || seen.add(part)) {
        visit(node);
      }
    } else if (part instanceof scala.collection.Iterable<?> several) {
      CollectionConverters.asJava(several).forEach(this::each);
    } else if (part instanceof scala.Option || part instanceof scala.util.Either
        || part instanceof Product tuple && tuple.getClass().getName().startsWith("scala.Tuple")) {
      into((Product) part);
    }
  }

  /** Whether an expression, or a query in it, refers to this attribute. */
  static boolean mentions(Expression expression, ExprId id) {
    boolean[] found = {false};
    new Walk() {
      @Override
      void visit(TreeNode<?> node) {
        found[0] |= node instanceof AttributeReference attribute && attribute.exprId().equals(id);
        into((Product) node);
      }
    }.each(expression);
    return found[0];
  }
}
