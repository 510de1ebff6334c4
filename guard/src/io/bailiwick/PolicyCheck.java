package io.bailiwick;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/** Tells what a rule's expression is before the rule is kept, by the code that will enforce it. Reads no rows. */
final class PolicyCheck {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final SparkSession session;
  private final JsonNode question;
  private final List<String> table = new ArrayList<>();

  PolicyCheck(SparkSession session, String question) throws IOException {
    this.session = session;
    this.question = JSON.readTree(question);
    this.question.required("table").forEach(part -> table.add(part.textValue()));
  }

  /** What it is, or in `error` why it is not one; Spark's own errors are raised as they are. */
  ObjectNode answer() throws AnalysisException {
    List<Columns.Named> columns = table.isEmpty() ? value() : columns();
    Binding binding = new Binding(session, table.isEmpty() ? List.of(Binding.VALUE) : table);
    ObjectNode answer = JSON.createObjectNode();
    String text = question.required("sql").textValue();
    try {
      Expression bound = new PolicyRight(handle(), "", "").during(() -> question.required("kind").textValue()
          .equals("filter") ? binding.filter(text, columns) : binding.mask(text, columns));
      Parsed parts = binding.parts(binding.allowed(text));
      used(bound, columns).forEach(answer.putArray("columns")::add);
      parts.reads.forEach(name -> name.forEach(answer.withArray("tables").addArray()::add));
      parts.functions.forEach(answer.putArray("functions")::add);
      answer.put("type", bound.dataType().simpleString());
    } catch (IllegalArgumentException error) {
      answer.put("error", error.getMessage());
    } catch (Denied denied) {
      answer.put("error", denied.told);
    }
    return answer;
  }

  private List<Columns.Named> value() {
    DataType type = SparkSchemaUtil.convert(Types.fromPrimitiveString(question.required("value_type").textValue()));
    Attribute value = new AttributeReference(
        Binding.VALUE, type, true, Metadata.empty(), NamedExpression.newExprId(), Describe.seq(List.of()));
    return List.of(new Columns.Named(Binding.VALUE, value));
  }

  private List<Columns.Named> columns() throws AnalysisException {
    CatalogPlugin catalog = session.sessionState().catalogManager().catalog(table.get(0));
    String[] namespace = table.subList(1, table.size() - 1).toArray(String[]::new);
    Table loaded = ((TableCatalog) catalog).loadTable(Identifier.of(namespace, table.get(table.size() - 1)));
    if (Stamped.of(session, catalog, loaded) == null) {
      throw new Denied(Denied.UNSTAMPED, String.join(".", table) + " cannot be used here.");
    }
    List<Columns.Named> columns = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(DataTypeUtils.toAttributes(loaded.schema()))) {
      columns.add(new Columns.Named(column.name(), column));
    }
    return columns;
  }

  private String handle() {
    return !table.isEmpty() && session.sessionState().catalogManager().catalog(table.get(0))
        instanceof SharedRestCatalog catalog ? catalog.handle() : "";
  }

  /** The columns that the expression reads, and of structs the fields. */
  private static Set<String> used(Expression bound, List<Columns.Named> columns) {
    Set<String> used = new LinkedHashSet<>();
    new Walk() {
      @Override
      void visit(TreeNode<?> node) {
        String path = node instanceof Expression expression ? path(expression, columns) : null;
        if (path == null) {
          into((Product) node);
        } else {
          used.add(path);
        }
      }
    }.each(bound);
    return used;
  }

  private static String path(Expression expression, List<Columns.Named> columns) {
    if (expression instanceof GetStructField field) {
      String above = path(field.child(), columns);
      return above == null ? null : above + "." + field.extractFieldName();
    }
    return expression instanceof AttributeReference attribute
        ? columns.stream().filter(column -> column.attribute().exprId().equals(attribute.exprId()))
            .map(Columns.Named::name).findFirst().orElse(null) : null;
  }
}
