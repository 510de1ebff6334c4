package io.bailiwick;

import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A session of the engine's own, in which rules are read.
 *
 * <p>No person ever had it: it holds no temporary view, function or variable, and its configuration is fixed. So a rule
 * means the same whoever's query it becomes part of.
 */
final class PolicySession {
  private static PolicySession only;
  private final SparkSession session;

  private PolicySession(SparkSession session) {
    this.session = session;
    SQLConf conf = session.sessionState().conf();
    conf.setConfString("spark.sql.session.timeZone", "UTC");
    conf.setConfString("spark.sql.ansi.enabled", "true");
    conf.setConfString("spark.sql.ansi.doubleQuotedIdentifiers", "false");
    conf.setConfString("spark.sql.ansi.enforceReservedKeywords", "false");
    conf.setConfString("spark.sql.parser.escapedStringLiterals", "false");
    conf.setConfString("spark.sql.caseSensitive", "false");
  }

  /** `any` is one of the engine's sessions: all share what the new one is made of. */
  static synchronized PolicySession beside(SparkSession any) {
    if (only == null || only.session.sparkContext() != any.sparkContext()) {
      only = new PolicySession(any.newSession());
    }
    return only;
  }

  CatalogManager catalogs() {
    return session.sessionState().catalogManager();
  }

  /** Whether a rule reads this relation, and not what a person wrote. */
  boolean loaded(DataSourceV2Relation relation) {
    return relation.catalog().exists(catalog -> catalogs().catalog(catalog.name()) == catalog);
  }

  Expression parsed(String text) {
    return parsed(parser -> parser.parseExpression(text));
  }

  /** The parts of a table's full name. */
  List<String> name(String text) {
    scala.collection.immutable.Seq<String> parts = parsed(parser -> parser.parseMultipartIdentifier(text));
    return CollectionConverters.asJava(parts);
  }

  private <T> T parsed(Parse<T> parse) {
    return inside(() -> {
      try {
        return parse.by(session.sessionState().sqlParser());
      } catch (Exception error) {
        throw Describe.unchecked(error);
      }
    });
  }

  private interface Parse<T> {
    T by(ParserInterface parser) throws Exception;
  }

  /** Analysed and checked, as a query would be. */
  LogicalPlan analysed(LogicalPlan plan) {
    Analyzer analyzer = session.sessionState().analyzer();
    return inside(() -> {
      LogicalPlan analysed = analyzer.execute(plan);
      analyzer.checkAnalysis(analysed);
      return analysed;
    });
  }

  private <T> T inside(Supplier<T> work) {
    return SQLConf.withExistingConf(session.sessionState().conf(), work::get);
  }
}
