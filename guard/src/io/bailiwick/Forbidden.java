package io.bailiwick;

import java.util.List;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import scala.Tuple3;

/**
 * Functions of Spark's that nobody may call, replaced by a refusal.
 *
 * <p>{@link Allowed} would refuse them as well, but too late: Spark evaluates some expressions while it analyses. They
 * call methods by name, read files by name or tell which file a row lies in.
 */
final class Forbidden {
  static final List<String> NAMES = List.of(
      "reflect", "try_reflect", "java_method", "input_file_name", "input_file_block_start", "input_file_block_length",
      "from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf");

  private Forbidden() {}

  static void inject(SparkSessionExtensions extensions) {
    for (String name : NAMES) {
      ExpressionInfo info = new ExpressionInfo(Forbidden.class.getName(), name);
      extensions.injectFunction(new Tuple3<>(new FunctionIdentifier(name), info, arguments -> refused(name)));
    }
  }

  private static Expression refused(String name) {
    throw new Denied(Denied.NOT_ALLOWED, "The function " + name + " is not allowed in statements.");
  }
}
