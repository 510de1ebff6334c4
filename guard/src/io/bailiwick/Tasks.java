package io.bailiwick;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.TaskInfo;

/**
 * Remembers the newest tasks of people's queries, for `system.runtime.tasks`. {@link TasksAnswer} tells them.
 *
 * <p>Counts and times only: no value of a row, no message, no host. Nothing is sent until somebody asks.
 */
public final class Tasks extends SparkListener {
  private static final int TASKS_MAX = 5000;
  private static final int STAGES_MAX = 1000;
  private static final String QUERY_TAG = "_Tag_Q";
  private static final long UNKNOWN = -1;
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final Map<Integer, String> QUERY_OF_STAGE = Newest.map(STAGES_MAX);
  private static final Map<Long, Task> TASKS = Newest.map(TASKS_MAX);

  private record Counts(long inputRows, long outputRows, long bytes, long spilledBytes) {
    static final Counts NONE = new Counts(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN);
  }

  private record Task(String query, int stage, int stageAttempt, TaskInfo info, String state, Counts counts) {}

  /** The gateway tags what it runs for a query with its id; what it runs for itself has no such tag. */
  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted submitted) {
    Properties properties = submitted.properties();
    String tags = properties == null ? "" : properties.getProperty("spark.job.tags", "");
    Arrays.stream(tags.split(",")).filter(tag -> tag.contains(QUERY_TAG)).findFirst().ifPresent(tag -> {
      String query = tag.substring(tag.indexOf(QUERY_TAG) + QUERY_TAG.length());
      synchronized (TASKS) {
        QUERY_OF_STAGE.put(submitted.stageInfo().stageId(), query);
      }
    });
  }

  @Override
  public void onTaskStart(SparkListenerTaskStart start) {
    remember(start.stageId(), start.stageAttemptId(), start.taskInfo(), "running", Counts.NONE);
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd end) {
    TaskInfo info = end.taskInfo();
    String state = info == null || info.failed() ? "failed" : info.killed() ? "killed" : "finished";
    remember(end.stageId(), end.stageAttemptId(), info, state, counts(end.taskMetrics(), end.taskType()));
  }

  private static Counts counts(TaskMetrics metrics, String taskType) {
    if (metrics == null) {
      return Counts.NONE;
    }
    long written = metrics.outputMetrics().recordsWritten() + metrics.shuffleWriteMetrics().recordsWritten();
    // Rows that a task hands to the driver are counted by nobody.
    boolean isCounted = written > 0 || taskType.equals("ShuffleMapTask");
    return new Counts(
        metrics.inputMetrics().recordsRead() + metrics.shuffleReadMetrics().recordsRead(),
        isCounted ? written : UNKNOWN,
        metrics.inputMetrics().bytesRead() + metrics.shuffleReadMetrics().totalBytesRead(),
        metrics.diskBytesSpilled());
  }

  private static void remember(int stage, int stageAttempt, TaskInfo info, String state, Counts counts) {
    synchronized (TASKS) {
      String query = QUERY_OF_STAGE.get(stage);
      if (query != null && info != null) {
        // A copy: Spark's own holds on to every counter of the task.
        TaskInfo lean = info.cloneWithEmptyAccumulables();
        TASKS.put(info.taskId(), new Task(query, stage, stageAttempt, lean, state, counts));
      }
    }
  }

  /** All that is remembered, an array for each task, the oldest first. */
  static String told() {
    ArrayNode tasks = JSON.createArrayNode();
    long now = System.currentTimeMillis();
    synchronized (TASKS) {
      for (Task task : TASKS.values()) {
        TaskInfo info = task.info();
        Counts counts = task.counts();
        long elapsed = Math.max(0, (info.finished() ? info.finishTime() : now) - info.launchTime());
        tasks.addArray().add(task.query()).add(task.stage()).add(task.stageAttempt()).add(info.index())
            .add(info.attemptNumber()).add(info.executorId()).add(task.state()).add(elapsed)
            .add(counts.inputRows()).add(counts.outputRows()).add(counts.bytes()).add(counts.spilledBytes());
      }
    }
    return tasks.toString();
  }
}
