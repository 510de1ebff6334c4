package io.bailiwick;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PipeOperator;
import org.apache.spark.sql.catalyst.expressions.PythonUDAF;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.PythonUDTF;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.expressions.TransformExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.plans.logical.views.ResolvedV2View;
import org.apache.spark.sql.execution.command.*;

/**
 * What an analysed plan may be made of, by class. What is not here is refused, so what a new Spark adds stays refused
 * until someone has looked at it.
 */
final class Allowed {
  /** Queries and the commands' ways to name things. Relations are asked for their stamps instead. */
  private static final Set<Class<?>> NODES = Set.of(
      Project.class, Filter.class, Aggregate.class, Join.class, LateralJoin.class, AsOfJoin.class, Sort.class,
      GlobalLimit.class, LocalLimit.class, LimitAll.class, Offset.class, Tail.class, Distinct.class, Deduplicate.class,
      Union.class, UnionLoop.class, UnionLoopRef.class, Intersect.class, Except.class, SubqueryAlias.class, View.class,
      CTERelationDef.class, CTERelationRef.class, WithCTE.class, OneRowRelation.class, LocalRelation.class,
      Range.class, EmptyRelation.class, ResolvedInlineTable.class, Generate.class, Window.class, Expand.class,
      Unpivot.class, Pivot.class, Sample.class, Repartition.class, RepartitionByExpression.class,
      RebalancePartitions.class, ResolvedHint.class, MergeRows.class, PipeOperator.class, WindowGroupLimit.class,
      ResolvedIdentifier.class, ResolvedNamespace.class, CurrentNamespace$.class, ResolvedV2View.class,
      ResolvedNonPersistentFunc.class, ResolvedPersistentFunc.class, CollectMetrics.class, EventTimeWatermark.class,
      Transpose.class, Barrier.class);

  /** Commands beyond those that {@link Kinds} knows by their parse. */
  private static final Set<Class<?>> COMMANDS = Set.of(
      AppendData.class, OverwriteByExpression.class, OverwritePartitionsDynamic.class, ReplaceData.class,
      WriteDelta.class, ShowFunctionsCommand.class, DescribeFunctionCommand.class, NoopCommand.class,
      SetCatalogCommand.class, SetNamespaceCommand.class, SetCatalogAndNamespace.class);

  /** Python of the asker's own, in columns and around rows. */
  private static final Set<Class<?>> CODE = Set.of(
      PythonUDF.class, PythonUDAF.class, PythonUDTF.class, MapInPandas.class, MapInArrow.class,
      FlatMapGroupsInPandas.class, FlatMapGroupsInArrow.class, FlatMapCoGroupsInPandas.class,
      FlatMapCoGroupsInArrow.class);

  /** These load tables by themselves and tell all about them, so they are for those who may see all. */
  private static final Set<Class<?>> FOR_ADMINISTRATORS = Set.of(ShowTablesExtended.class, ShowTablePartition.class);

  /** They tell more of a table than its schema. */
  private static final Set<Class<?>> TELL_ALL = Set.of(
      ShowCreateTable.class, ShowTableProperties.class, ShowPartitions.class, DescribeRelationJsonCommand.class,
      AnalyzeTable.class, AnalyzeColumn.class);

  private static final Set<String> EXPRESSIONS = listed("expressions.txt");
  /** Where the methods lie that Spark's and Iceberg's own functions are made of. */
  private static final Set<String> PACKAGES =
      Set.of("org.apache.spark.sql.catalyst.", "org.apache.spark.unsafe.", "org.apache.iceberg.spark.functions.");

  /** Of what `sampleBy` is made: a function of Spark's own, for which it has no expression. */
  private static final String SAMPLING = "org.apache.spark.sql.classic.DataFrameStatFunctions$$Lambda";

  private Allowed() {}

  static void check(LogicalPlan node, Operation operation) {
    Class<?> kind = node.getClass();
    if (operation.readsOnly() && node instanceof Command && !Kinds.tells(kind)) {
      throw new Denied(Denied.CHANGES, shortName(kind) + " is more than a query.");
    }
    boolean allowed = NODES.contains(kind) || COMMANDS.contains(kind) || Kinds.isCommand(kind) && kind != Call.class
        || operation.isDedicated() && isOfSession(node) || operation.mayRunCode() && CODE.contains(kind);
    if (!allowed || FOR_ADMINISTRATORS.contains(kind) && !operation.mayCall()) {
      throw new Denied(Denied.NOT_ALLOWED, shortName(node.getClass()) + " is not allowed in statements.");
    }
  }

  /** About temporary views, which only a session of one's own has. Global ones would be everybody's. */
  private static boolean isOfSession(LogicalPlan node) {
    return node instanceof CreateViewCommand view && view.viewType() == LocalTempView$.MODULE$
        || node instanceof DropTempViewCommand drop && drop.ident().namespace().length == 0
        || node instanceof DescribeTableCommand describe && !describe.isExtended() || node instanceof ResolvedTempView;
  }

  static void check(Expression expression, Operation operation) {
    String name = expression.getClass().getName();
    boolean allowed = EXPRESSIONS.contains(name)
        || operation.mayRunCode() && CODE.contains(expression.getClass())
        || expression instanceof StaticInvoke invoke && isOurs(invoke.staticObject())
        || expression instanceof Invoke invoke && invoke.targetObject() instanceof Literal target
            && target.value() != null && isOurs(target.value().getClass())
        || expression instanceof ScalaUDF own && own.function().getClass().getName().startsWith(SAMPLING)
        || expression instanceof ApplyFunctionExpression apply && isOurs(apply.function().getClass())
        || expression instanceof TransformExpression transform && isOurs(transform.function().getClass());
    if (!allowed) {
      throw new Denied(
          Denied.NOT_ALLOWED, "The function " + expression.prettyName() + " is not allowed in statements.");
    }
  }

  /** Whether the command may be about a table of which a person sees only a part; null is a look at its columns. */
  static boolean onRestricted(LogicalPlan command) {
    if (command == null) {
      return true;
    }
    boolean isExtended = command instanceof DescribeRelation describe && describe.isExtended()
        || command instanceof DescribeColumn column && column.isExtended();
    return !isExtended && !TELL_ALL.contains(command.getClass());
  }

  private static boolean isOurs(Class<?> kind) {
    return PACKAGES.stream().anyMatch(kind.getName()::startsWith);
  }

  private static String shortName(Class<?> kind) {
    return kind.getSimpleName().replace("$", "");
  }

  private static Set<String> listed(String resource) {
    try (BufferedReader lines = new BufferedReader(new InputStreamReader(
        Allowed.class.getResourceAsStream(resource), StandardCharsets.UTF_8))) {
      return lines.lines().map(String::strip).filter(line -> !line.isEmpty() && !line.startsWith("#"))
          .collect(Collectors.toCollection(HashSet::new));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
