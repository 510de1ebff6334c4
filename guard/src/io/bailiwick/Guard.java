package io.bailiwick;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.classic.SparkSession;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Enforces inside Spark what the gateway decided, for SQL and DataFrames alike. Named in `spark.sql.extensions`.
 *
 * <p>It knows no policy: each table brings a stamp, and what has none cannot be read. Spark goes on without an
 * extension that it cannot load, so the gateway tries each session with a table that has no stamp.
 */
public final class Guard extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    Forbidden.inject(extensions);
    extensions.injectHintResolutionRule(session -> new Early((SparkSession) session));
    extensions.injectResolutionRule(session -> new Apply((SparkSession) session, false));
    extensions.injectPostHocResolutionRule(session -> new Apply((SparkSession) session, true));
    extensions.injectCheckRule(session -> plan -> {
      new Check((SparkSession) session).plan(plan);
      return BoxedUnit.UNIT;
    });
    extensions.injectOptimizerRule(session -> new Pruning());
    extensions.injectPlannerStrategy(session -> new Barrier.Strategy());
    return BoxedUnit.UNIT;
  }
}
