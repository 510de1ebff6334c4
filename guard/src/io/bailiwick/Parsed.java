package io.bailiwick;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.plans.logical.views.ResolvedV2View;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.command.SetCatalogCommand;
import scala.Product;
import scala.Tuple3;
import scala.jdk.javaapi.CollectionConverters;

/** What a statement's parse tells: nothing is looked up but which catalogs there are, and nothing is run. */
final class Parsed {
  /** These call any method of any class; even analysing them may, where they stand in VALUES. */
  private static final Set<String> REFLECTION = Set.of("reflect", "try_reflect", "java_method");
  /** Stands for a name that is computed. */
  private static final String UNKNOWN = "";

  final List<Class<?>> nodes = new ArrayList<>();
  final Set<List<String>> reads = new LinkedHashSet<>();
  /** The names of `reads` as they stand in the text. */
  final Set<List<String>> written = new LinkedHashSet<>();
  final Set<List<String>> writes = new LinkedHashSet<>();
  final Set<String> catalogs = new TreeSet<>();
  final Set<String> functions = new TreeSet<>();
  /** The type of each parameter, null where it is not known, by where the parameter stands in the text. */
  final TreeMap<Integer, String> parameters = new TreeMap<>();
  /** What parameters stand for, by the same places; empty where that is not known yet. */
  final TreeMap<Integer, Expression> values = new TreeMap<>();
  boolean dynamicNames;
  boolean dynamicExpressions;
  boolean sampled;
  private boolean globalView;
  private final Set<List<String>> objects = new LinkedHashSet<>();
  private final CatalogManager manager;

  Parsed(LogicalPlan plan, CatalogManager manager) {
    this.manager = manager;
    visit(plan, Set.of(), false);
    switch (kind()) {
      case Kinds.CHANGE -> writes.addAll(objects);
      case Kinds.SHOWS -> reads.addAll(objects);
      default -> { }
    }
    reads.forEach(name -> catalogs.add(name.get(0)));
    writes.forEach(name -> catalogs.add(name.get(0)));
  }

  String kind() {
    return reflection() == null ? Kinds.of(nodes) : Kinds.SESSION;
  }

  /** Whether it may run in a session of one's own, although it leaves something behind. */
  boolean isOwn() {
    return reflection() == null && !globalView && Kinds.isOwn(nodes);
  }

  String command() {
    return reflection() == null ? Kinds.command(nodes) : reflection();
  }

  private String reflection() {
    return functions.stream().filter(name -> REFLECTION.contains(name.substring(name.lastIndexOf('.') + 1)))
        .findFirst().orElse(null);
  }

  void bind(List<Expression> given) throws AnalysisException {
    if (given.size() != parameters.size()) {
      throw new AnalysisException("UNBOUND_SQL_PARAMETER", Describe.detail("name", "?"));
    }
    Iterator<Expression> next = given.iterator();
    parameters.keySet().forEach(offset -> values.put(offset, next.next()));
  }

  boolean lacksValues() {
    return values.size() < parameters.size();
  }

  void learn(TreeMap<Integer, String> types) {
    types.forEach((offset, type) -> {
      if (type != null) {
        parameters.put(offset, type);
      }
    });
  }

  /** The name as a catalog knows it, by Spark's own rule: catalog, namespace, name. */
  List<String> full(List<String> parts) {
    List<String> full = new ArrayList<>();
    if (parts.size() < 2 || !manager.isCatalogRegistered(parts.get(0))) {
      full.add(manager.currentCatalog().name());
    }
    if (parts.size() == 1) {
      full.addAll(List.of(manager.currentNamespace()));
    }
    full.addAll(parts);
    return full;
  }

  /** `ctes` are the names that mean a common table expression here; `target` says that a table is being changed. */
  private void visit(Object part, Set<String> ctes, boolean target) {
    if (part instanceof LogicalPlan) {
      nodes.add(part.getClass());
    }
    if (part instanceof UnresolvedWith with) {
      visitWith(with, ctes);
    } else if (part instanceof UnresolvedRelation relation) {
      List<String> name = java(relation.multipartIdentifier());
      if (target || name.size() > 1 || !ctes.contains(name.get(0).toLowerCase(Locale.ROOT))) {
        add(name, target ? writes : reads);
        written.add(name);
      }
    } else if (part instanceof PlanWithUnresolvedIdentifier dynamic) {
      dynamicNames = true;
      visit(dynamic.identifierExpr(), ctes, false);
      // What it will become once the name is known, so that no kind of statement hides in it.
      visit(dynamic.planBuilder().apply(Describe.seq(List.of(UNKNOWN)), dynamic.children()), ctes, target);
    } else if (part instanceof TreeNode) {
      note(part);
      boolean targetFirst = Kinds.TARGET_FIRST.contains(part.getClass());
      for (int i = 0; i < ((Product) part).productArity(); i++) {
        visit(((Product) part).productElement(i), ctes, targetFirst && i == 0 || target && part instanceof LogicalPlan);
      }
    } else if (part instanceof scala.collection.Iterable<?> several) {
      CollectionConverters.asJava(several).forEach(each -> visit(each, ctes, target));
    } else if (part instanceof scala.Option || part instanceof scala.Tuple2 || part instanceof Tuple3) {
      var parts = CollectionConverters.asJava(((Product) part).productIterator());
      parts.forEachRemaining(each -> visit(each, ctes, target));
    }
  }

  private void visitWith(UnresolvedWith with, Set<String> outer) {
    Set<String> ctes = new HashSet<>(outer);
    for (Tuple3<String, SubqueryAlias, ?> cte : CollectionConverters.asJava(with.cteRelations())) {
      String name = cte._1().toLowerCase(Locale.ROOT);
      Set<String> inside = new HashSet<>(ctes);
      if (with.allowRecursion()) {
        inside.add(name);
      }
      visit(cte._2(), inside, false);
      ctes.add(name);
    }
    visit(with.child(), ctes, false);
  }

  @SuppressWarnings("unchecked")
  private void note(Object part) {
    if (part instanceof UnresolvedTable table) {
      add(java(table.multipartIdentifier()), objects);
    } else if (part instanceof UnresolvedTableOrView either) {
      add(java(either.multipartIdentifier()), objects);
    } else if (part instanceof UnresolvedView view) {
      add(java(view.multipartIdentifier()), objects);
    } else if (part instanceof UnresolvedIdentifier identifier) {
      add(java(identifier.nameParts()), objects);
    } else if (part instanceof ResolvedIdentifier identifier) {
      objects.add(Analysed.name(identifier.catalog(), identifier.identifier()));
    } else if (part instanceof ResolvedV2View view) {
      objects.add(Analysed.name(view.catalog(), view.identifier()));
    } else if (Kinds.NAME_FIRST.contains(part.getClass())) {
      add(java((scala.collection.Seq<String>) ((Product) part).productElement(0)), objects);
    } else if (part instanceof UnresolvedNamespace namespace) {
      List<String> parts = new ArrayList<>(java(namespace.multipartIdentifier()));
      parts.add(UNKNOWN);
      catalogs.add(full(parts).get(0));
    } else if (part instanceof CurrentNamespace$) {
      catalogs.add(manager.currentCatalog().name());
    } else if (part instanceof ResolvedNamespace namespace) {
      catalogs.add(namespace.catalog().name());
    } else if (part instanceof SetCatalogCommand set) {
      catalogs.add(set.catalogName());
    } else if (part instanceof CreateViewCommand view) {
      globalView |= view.viewType() != LocalTempView$.MODULE$;
    } else if (part instanceof RenameTable rename) {
      objects.add(renamed(rename));
    } else if (part instanceof UnresolvedFunction function) {
      call(java(function.nameParts()));
    } else if (part instanceof UnresolvedTableValuedFunction function) {
      call(java(function.name()));
    } else if (part instanceof UnresolvedGenerator generator) {
      call(java(generator.name().nameParts()));
    } else if (part instanceof UnresolvedProcedure procedure) {
      call(java(procedure.nameParts()));
      dynamicNames = true;
    } else if (part instanceof ExpressionWithUnresolvedIdentifier) {
      dynamicNames = true;
      dynamicExpressions = true;
    } else if (part instanceof PosParameter parameter) {
      parameters.putIfAbsent(parameter.pos(), null);
    } else if (Kinds.COUNT_FIRST.contains(part.getClass())
        && ((Product) part).productElement(0) instanceof PosParameter count) {
      parameters.put(count.pos(), "int");
    } else if (part instanceof Sample) {
      sampled = true;
    }
  }

  /** A table's new name stays in its catalog. */
  private List<String> renamed(RenameTable rename) {
    List<String> name = new ArrayList<>();
    name.add(rename.child() instanceof UnresolvedTableOrView old
        ? full(java(old.multipartIdentifier())).get(0) : manager.currentCatalog().name());
    name.addAll(java(rename.newName()));
    return name;
  }

  private void call(List<String> name) {
    functions.add(String.join(".", name).toLowerCase(Locale.ROOT));
    if (name.size() > 1) {
      catalogs.add(full(name).get(0));
    }
  }

  private void add(List<String> name, Set<List<String>> names) {
    if (!name.contains(UNKNOWN)) {
      names.add(full(name));
    }
  }

  private static List<String> java(scala.collection.Seq<String> parts) {
    return CollectionConverters.asJava(parts);
  }
}
