package io.bailiwick;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.MetadataAttribute;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.plans.logical.views.ResolvedV2View;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.command.DescribeQueryCommand;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/** Looks at an analysed plan for the last time, and refuses it unless all of it is known to be allowed. */
final class Check extends Walk {
  private final SparkSession session;
  private final Operation operation;
  /** What the node that is looked at lies in, the innermost first. */
  private final Deque<LogicalPlan> above = new ArrayDeque<>();

  Check(SparkSession session) {
    this.session = session;
    this.operation = Operation.current(session.sparkContext());
  }

  void plan(LogicalPlan plan) {
    if (!operation.isProcedure() && !isForDecoding(plan)) {
      each(plan);
    }
  }

  /** What Spark has analysed to learn how to turn rows into objects of its own. There are no rows in it. */
  private static boolean isForDecoding(LogicalPlan plan) {
    return plan instanceof DeserializeToObject decoding && decoding.child() instanceof LocalRelation rows
        && CollectionConverters.asJava(rows.data()).isEmpty();
  }

  @Override
  void visit(TreeNode<?> node) {
    if (node instanceof LogicalPlan plan) {
      visitPlan(plan);
    } else {
      if (node instanceof Expression expression) {
        Allowed.check(expression, operation);
      }
      into((Product) node);
    }
  }

  private void visitPlan(LogicalPlan plan) {
    if (plan instanceof DataSourceV2Relation relation) {
      checkRelation(relation);
      return;
    }
    if (plan instanceof ResolvedTable table) {
      checkTable(table);
      return;
    }
    if (operation.isLoop() && plan instanceof DataSourceV2ScanRelation planned) {
      checkPlanned(planned.relation());
      return;
    }
    if (operation.isLoop() && plan instanceof LogicalRDD) {
      return; // The rows of the round before.
    }
    Allowed.check(plan, operation);
    if (plan instanceof Transpose && above.peekLast() instanceof CreateViewCommand) {
      // Its rows were read, under the rules of this moment, when it was analysed; a view is read under those to come.
      throw new Denied(Denied.NOT_ALLOWED, "A view would keep the rows of a transposed frame.");
    }
    if (plan instanceof UnionLoop) {
      operation.noteLoop();
    }
    checkCatalog(plan);
    new Writes(session).check(plan);
    if (plan instanceof V2WriteCommand write) {
      checkRows(write);
      above.push(plan);
      // Not its table: what may be done to that is known by now, and nothing is read from it here.
      Iterator<Object> parts = CollectionConverters.asJava(plan.productIterator());
      parts.forEachRemaining(part -> {
        boolean isTarget = part == write.table() || write instanceof RowLevelWrite row && part == row.originalTable();
        if (!isTarget) {
          each(part);
        }
      });
      above.pop();
    } else if (!(plan instanceof DescribeQueryCommand || plan instanceof ExplainCommand)) {
      // Those analyse their query by themselves when they run, and this is called again.
      above.push(plan);
      into((Product) plan);
      above.pop();
    }
  }

  private void checkRelation(DataSourceV2Relation relation) {
    Stamped stamped = Stamped.of(session, relation);
    if (stamped == null) {
      throw new Denied(Denied.UNSTAMPED, relation.name() + " cannot be read here.");
    }
    Stamp stamp = stamped.stamp();
    Writes.missing(stamp, Writes.SELECT, relation.name());
    // A view is made without a look at any row, and each use of it comes here again.
    if (!stamp.isRestricted() || stamp.forPolicy() || above.peekLast() instanceof CreateViewCommand) {
      return;
    }
    boolean isWhole = new Mark(session, stamp.sealed()).isOn(relation) && !stamped.isDerived() && isWrapped(stamp);
    for (AttributeReference column : CollectionConverters.asJava(relation.output())) {
      isWhole &= !MetadataAttribute.isValid(column.metadata());
    }
    if (!isWhole) {
      throw Wrapping.broken(relation.name());
    }
  }

  /** One that was checked before, as part of the whole query; Spark has moved things about since. */
  private void checkPlanned(DataSourceV2Relation relation) {
    Stamped stamped = Stamped.of(session, relation);
    boolean isKnown = stamped != null && stamped.stamp().actions().contains(Writes.SELECT)
        && (!stamped.stamp().isRestricted() || new Mark(session, stamped.stamp().sealed()).isOn(relation));
    if (!isKnown) {
      throw new Denied(Denied.UNSTAMPED, relation.name() + " cannot be read here.");
    }
  }

  /** Whether what stands right above is what {@link Wrapping} puts there. */
  private boolean isWrapped(Stamp stamp) {
    Mark mark = new Mark(session, stamp.sealed());
    Iterator<LogicalPlan> outwards = above.iterator();
    List<Class<?>> wanted = new ArrayList<>(Collections.nCopies(stamp.filters().size(), Filter.class));
    if (!wanted.isEmpty()) {
      wanted.add(Barrier.class);
    }
    wanted.add(Project.class);
    for (Class<?> kind : wanted) {
      LogicalPlan node = outwards.hasNext() ? outwards.next() : null;
      if (node == null || node.getClass() != kind || !mark.isOn(node)) {
        return false;
      }
    }
    return true;
  }

  private void checkTable(ResolvedTable table) {
    Stamped stamped = Stamped.of(session, table.catalog(), table.table());
    if (stamped == null || !stamped.isOwn(session)) {
      throw new Denied(Denied.UNSTAMPED, table.name() + " cannot be used here.");
    }
    if (stamped.stamp().isRestricted() && (stamped.isDerived() || !Allowed.onRestricted(above.peek()))) {
      throw new Denied(Denied.RESTRICTED,
          "A policy hides parts of " + table.name() + " from you, and this would tell about all of it.");
    }
  }

  private void checkRows(V2WriteCommand write) {
    if (write instanceof AppendData append && append.table() instanceof DataSourceV2Relation target) {
      Stamp stamp = Stamped.of(session, target).stamp();
      if (!stamp.filters().isEmpty() && !Apply.isChecked(append, stamp)) {
        throw Wrapping.broken(target.name());
      }
    }
  }

  private void checkCatalog(LogicalPlan plan) {
    CatalogPlugin catalog = null;
    if (plan instanceof ResolvedIdentifier identifier) {
      catalog = identifier.catalog();
    } else if (plan instanceof ResolvedNamespace namespace) {
      catalog = namespace.catalog();
    } else if (plan instanceof ResolvedV2View view) {
      catalog = view.catalog();
    }
    if (catalog != null && !Stamped.isKnown(session, catalog)) {
      throw new Denied(Denied.NOT_ALLOWED, "There is nothing for you in the catalog " + catalog.name() + ".");
    }
  }
}
