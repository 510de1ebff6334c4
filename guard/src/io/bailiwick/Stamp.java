package io.bailiwick;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;

/** What the gateway decided about one table for one lease. Its meaning is in `policy/stamp.py`. */
record Stamp(
    String sealed,
    String lease,
    String principal,
    String table,
    String uuid,
    double expiresAt,
    Set<String> actions,
    List<Filter> filters,
    List<Mask> masks,
    boolean forPolicy) {
  static final String CONFIG = "bailiwick.stamp";
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int KEPT_MAX = 500;
  /** One query looks at the stamp of each of its tables many times. */
  private static final Map<String, Stamp> OPENED = new ConcurrentHashMap<>();

  /** A column as a rule names it; `fieldId` is null where the name is all that is known. */
  record Column(String name, Integer fieldId) {}

  record Filter(String name, String using, List<Column> columns, Set<String> tables) {}

  /** `names` are in lower case. With `isValue` the name `value` stands for what is masked. */
  record Mask(
      String name,
      String using,
      Integer fieldId,
      Set<String> names,
      List<Column> columns,
      Set<String> tables,
      boolean isValue) {}

  boolean isRestricted() {
    return !filters.isEmpty() || !masks.isEmpty();
  }

  /** The stamp, if the seal is whole; else null. Whether it is for this operation and this table is asked elsewhere. */
  static Stamp open(String sealed, SparkContext spark) {
    Stamp opened = OPENED.get(sealed);
    if (opened == null) {
      int dot = sealed.lastIndexOf('.');
      StampKey key = StampKey.of(spark);
      if (dot < 0 || key == null || !key.isWhole(sealed.substring(0, dot), sealed.substring(dot + 1))) {
        return null;
      }
      opened = read(sealed, payload(sealed));
      if (OPENED.size() >= KEPT_MAX) {
        OPENED.clear();
      }
      OPENED.put(sealed, opened);
    }
    return opened;
  }

  /** Where the table's files may lie. Not asked whether the seal is whole: executors have no key. */
  static List<String> prefixes(String sealed) {
    return texts(payload(sealed).required("prefixes"));
  }

  private static JsonNode payload(String sealed) {
    try {
      return JSON.readTree(Base64.getUrlDecoder().decode(sealed.substring(0, sealed.lastIndexOf('.'))));
    } catch (IOException error) {
      throw new IllegalArgumentException("a stamp that cannot be read", error);
    }
  }

  private static Stamp read(String sealed, JsonNode told) {
    List<Filter> filters = new ArrayList<>();
    for (JsonNode rule : told.required("filters")) {
      filters.add(new Filter(text(rule, "name"), text(rule, "using"), columns(rule), tables(rule)));
    }
    List<Mask> masks = new ArrayList<>();
    for (JsonNode rule : told.required("masks")) {
      Set<String> names = new HashSet<>();
      texts(rule.required("names")).forEach(name -> names.add(name.toLowerCase(Locale.ROOT)));
      masks.add(new Mask(text(rule, "name"), text(rule, "using"), number(rule.required("field_id")), names,
          columns(rule), tables(rule), flag(rule, "is_value")));
    }
    return new Stamp(sealed, text(told, "lease"), text(told, "principal"), text(told, "table"),
        text(told, "uuid"), told.required("expires_at").doubleValue(), Set.copyOf(texts(told.required("actions"))),
        List.copyOf(filters), List.copyOf(masks), flag(told, "for_policy"));
  }

  private static List<Column> columns(JsonNode rule) {
    List<Column> columns = new ArrayList<>();
    for (JsonNode column : rule.required("columns")) {
      columns.add(new Column(text(column, "name"), number(column.required("field_id"))));
    }
    return columns;
  }

  private static Set<String> tables(JsonNode rule) {
    return Set.copyOf(texts(rule.required("tables")));
  }

  private static List<String> texts(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(each -> texts.add(each.textValue()));
    return texts;
  }

  private static String text(JsonNode object, String field) {
    JsonNode value = object.required(field);
    if (!value.isTextual()) {
      throw new IllegalArgumentException("a stamp's " + field + " is no text");
    }
    return value.textValue();
  }

  private static boolean flag(JsonNode object, String field) {
    JsonNode value = object.required(field);
    if (!value.isBoolean()) {
      throw new IllegalArgumentException("a stamp's " + field + " is neither true nor false");
    }
    return value.booleanValue();
  }

  private static Integer number(JsonNode value) {
    return value.isNull() ? null : Integer.valueOf(value.intValue());
  }
}
