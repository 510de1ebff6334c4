package io.bailiwick;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.expressions.PipeOperator;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.plans.logical.views.*;
import org.apache.spark.sql.execution.command.*;

/**
 * Which statements are which kind, by the classes their parse is made of.
 *
 * <p>Allow-lists only: a node that stands in none of them makes its statement one for a session of its own, and the
 * statement doors refuse it. What a new Spark adds stays refused until someone has looked at it.
 */
final class Kinds {
  static final String READ = "read";
  static final String CHANGE = "change";
  static final String SHOWS = "shows";
  static final String SESSION = "session";
  /** Leaves behind what a session of one's own may hold. */
  static final String OWN = "own";

  /** What a query is made of, as parsed. ScriptTransformation is missing on purpose: it runs programs. */
  private static final Set<Class<?>> QUERIES = Set.of(
      UnresolvedRelation.class, RelationTimeTravel.class, UnresolvedInlineTable.class, ResolvedInlineTable.class,
      UnresolvedTableValuedFunction.class, UnresolvedTVFAliases.class, UnresolvedSubqueryColumnAliases.class,
      UnresolvedHaving.class, UnresolvedHint.class, UnresolvedWith.class, PlanWithUnresolvedIdentifier.class,
      Project.class, Filter.class, Aggregate.class, Join.class, LateralJoin.class, Sort.class, GlobalLimit.class,
      LocalLimit.class, LimitAll.class, Offset.class, Distinct.class, Union.class, UnionLoop.class, Intersect.class,
      Except.class, SubqueryAlias.class, OneRowRelation.class, LocalRelation.class, Range.class, Generate.class,
      Window.class, WithWindowDefinition.class, Pivot.class, Unpivot.class, Sample.class, Repartition.class,
      RepartitionByExpression.class, RebalancePartitions.class, PipeOperator.class);

  /** Changes whose first part is what they change; it is parsed like a table that is read. */
  static final Set<Class<?>> TARGET_FIRST = Set.of(
      InsertIntoStatement.class, OverwriteByExpression.class, MergeIntoTable.class, UpdateTable.class,
      DeleteFromTable.class);

  /** What begins with a number of rows. Spark wants to know it while it analyses. */
  static final Set<Class<?>> COUNT_FIRST = Set.of(GlobalLimit.class, LocalLimit.class, Offset.class);

  private static final Set<Class<?>> CHANGES = Set.of(
      CreateTable.class, CreateTableAsSelect.class, ReplaceTable.class, ReplaceTableAsSelect.class, DropTable.class,
      RenameTable.class, TruncateTable.class, TruncatePartition.class, AddColumns.class, ReplaceColumns.class,
      DropColumns.class, RenameColumn.class, AlterColumns.class, SetTableProperties.class, UnsetTableProperties.class,
      SetTableLocation.class, AlterTableClusterBy.class, AlterTableCollation.class, AddConstraint.class,
      AddCheckConstraint.class, DropConstraint.class, AddPartitions.class, DropPartitions.class, RenamePartitions.class,
      CommentOnTable.class, CommentOnNamespace.class, AnalyzeTable.class, AnalyzeColumn.class, CreateNamespace.class,
      DropNamespace.class, SetNamespaceProperties.class, UnsetNamespacePropertiesCommand.class,
      SetNamespaceLocation.class, CreateView.class, AlterViewAs.class, SetViewProperties.class,
      UnsetViewProperties.class, AlterViewSchemaBinding.class, DropView.class, CreateIcebergView.class,
      DropIcebergView.class, Call.class);

  /** Iceberg's own, whose first part is the name of the table. */
  static final Set<Class<?>> NAME_FIRST = Set.of(
      AddPartitionField.class, DropPartitionField.class, ReplacePartitionField.class,
      SetWriteDistributionAndOrdering.class, SetIdentifierFields.class, DropIdentifierFields.class,
      CreateOrReplaceBranch.class, CreateOrReplaceTag.class, DropBranch.class, DropTag.class);

  private static final Set<Class<?>> TELLING = Set.of(
      ShowTables.class, ShowTablesExtended.class, ShowTablePartition.class, ShowNamespacesCommand.class,
      ShowViews.class, ShowIcebergViews.class, ShowColumns.class, ShowCreateTable.class, ShowTableProperties.class,
      ShowPartitions.class, ShowFunctions.class, ShowCatalogsCommand.class, ShowCurrentNamespaceCommand.class,
      ShowProceduresCommand.class, DescribeRelation.class, DescribeRelationJsonCommand.class, DescribeColumn.class,
      DescribeQueryCommand.class, DescribeNamespace.class, DescribeFunction.class, DescribeProcedureCommand.class,
      ExplainCommand.class);

  /** How commands name what they are about. */
  private static final Set<Class<?>> NAMES = Set.of(
      UnresolvedTable.class, UnresolvedView.class, UnresolvedTableOrView.class, UnresolvedIdentifier.class,
      ResolvedIdentifier.class, ResolvedV2View.class, UnresolvedNamespace.class, ResolvedNamespace.class,
      CurrentNamespace$.class, UnresolvedFunctionName.class, UnresolvedProcedure.class);

  /** They say what is current. */
  private static final Set<Class<?>> CURRENT =
      Set.of(SetCatalogAndNamespace.class, SetNamespaceCommand.class, SetCatalogCommand.class);

  private Kinds() {}

  static boolean tells(Class<?> node) {
    return TELLING.contains(node);
  }

  /** Whether a statement with these nodes is a temporary view of a query, or says what is current. */
  static boolean isOwn(List<Class<?>> nodes) {
    List<Class<?>> rest = nodes.subList(1, nodes.size());
    return nodes.get(0) == CreateViewCommand.class ? of(rest).equals(READ)
        : CURRENT.contains(nodes.get(0)) && NAMES.containsAll(rest);
  }

  /** Whether statements may be a command of this class: everything but queries and names. */
  static boolean isCommand(Class<?> node) {
    return TARGET_FIRST.contains(node) || CHANGES.contains(node) || NAME_FIRST.contains(node) || TELLING.contains(node);
  }

  /** The kind of a statement with these nodes, the root first. */
  static String of(List<Class<?>> nodes) {
    Set<Class<?>> rest = new HashSet<>(nodes);
    rest.removeAll(QUERIES);
    if (rest.isEmpty()) {
      return READ;
    }
    boolean tells = TELLING.contains(nodes.get(0)) && rest.remove(nodes.get(0));
    rest.removeAll(NAMES);
    boolean changes = rest.removeAll(TARGET_FIRST) | rest.removeAll(NAME_FIRST) | rest.removeAll(CHANGES);
    if (!rest.isEmpty()) {
      return SESSION;
    }
    if (tells) {
      // Explaining a CALL is not worth the risk that it is carried out: Spark does so while it analyses.
      return nodes.contains(Call.class) ? SESSION : SHOWS;
    }
    return changes ? CHANGE : SESSION;
  }

  /** The node that gives the statement its name: the first that is no part of a query. */
  static String command(List<Class<?>> nodes) {
    Class<?> node = nodes.stream().filter(each -> !QUERIES.contains(each)).findFirst().orElse(nodes.get(0));
    return node.getSimpleName().replace("$", "");
  }
}
