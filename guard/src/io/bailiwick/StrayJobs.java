package io.bailiwick;

import java.util.Arrays;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.connect.service.SparkListenerConnectOperationCanceled;

/**
 * Ends jobs that an interrupted operation starts after its interrupt.
 *
 * <p>Spark cancels the jobs that an operation has in the moment of the interrupt. Adaptive planning submits jobs from
 * threads of its own, and one that comes a moment later is run to its end, with nobody waiting for it.
 */
public final class StrayJobs extends SparkListener {
  private static final int REMEMBERED_MAX = 1000;
  private static final String REASON = "its operation was interrupted";

  private final Set<String> interrupted = Newest.set(REMEMBERED_MAX);

  /** Spark tells all events to a listener from one thread, in their order. */
  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerConnectOperationCanceled) {
      String tag = ((SparkListenerConnectOperationCanceled) event).jobTag();
      interrupted.add(tag);
      SparkContext.getOrCreate().cancelJobsWithTag(tag, REASON);
    }
  }

  @Override
  public void onJobStart(SparkListenerJobStart started) {
    Properties properties = started.properties();
    String tags = properties == null ? null : properties.getProperty("spark.job.tags");
    if (tags != null && Arrays.stream(tags.split(",")).anyMatch(interrupted::contains)) {
      SparkContext.getOrCreate().cancelJob(started.jobId(), REASON);
    }
  }
}
