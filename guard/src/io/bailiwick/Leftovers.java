package io.bailiwick;

import java.io.File;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.SparkEnv;
import org.apache.spark.scheduler.JobFailed;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Takes from the disks what queries have shuffled and Spark leaves there.
 *
 * <p>Spark removes the files of a query when it ends, except of exchanges that its plan does not show, as ORDER BY with
 * LIMIT makes one: those stay until Java collects what stood for them. Of stages that failed or were cancelled it knows
 * nothing more once their killed tasks have written their last, and what such a task was just writing it never finds
 * again. That last part is for this Java's disk alone: executors elsewhere look after their own.
 */
public final class Leftovers extends SparkListener {
  /** More than Spark needs from when a task begins until it says so. */
  private static final long TOLD_WITHIN_MS = 5_000;

  /** Far more than may have ended since the last stage of one of them was told to stop. */
  private static final int ENDED_REMEMBERED = 1_000;

  private static final long NEVER = Long.MAX_VALUE;

  private final Map<Integer, String> queryOfStage = new HashMap<>();
  private final Map<String, Set<Integer>> shufflesOfQuery = new HashMap<>();
  private final Set<String> endedQueries = Newest.set(ENDED_REMEMBERED);
  private final Map<Integer, Collection<Object>> stagesOfJob = new HashMap<>();
  private final Map<Integer, Integer> shuffleOfBroken = new HashMap<>();
  private final Set<Integer> abandoned = new HashSet<>();
  private final Map<Long, TaskInfo> running = new HashMap<>();
  private final Map<Integer, Integer> runningOfStage = new HashMap<>();
  private long firstBrokenAt = NEVER;
  private long lastBrokenAt = NEVER;

  /** Spark tells all events to a listener from one thread, in their order. */
  @Override
  public void onJobStart(SparkListenerJobStart started) {
    stagesOfJob.put(started.jobId(), CollectionConverters.asJava(started.stageIds()));
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted submitted) {
    int stage = submitted.stageInfo().stageId();
    // It is tried again.
    shuffleOfBroken.remove(stage);
    Properties properties = submitted.properties();
    // Of queries inside queries, the outermost.
    String query = properties == null ? null : properties.getProperty(SQLExecution.EXECUTION_ROOT_ID_KEY());
    if (query != null) {
      queryOfStage.put(stage, query);
    }
  }

  @Override
  public void onStageCompleted(SparkListenerStageCompleted completed) {
    StageInfo stage = completed.stageInfo();
    String query = queryOfStage.remove(stage.stageId());
    if (stage.shuffleDepId().isEmpty()) {
      return;
    }
    Integer shuffle = (Integer) stage.shuffleDepId().get();
    if (stage.failureReason().isDefined()) {
      shuffleOfBroken.put(stage.stageId(), shuffle);
    } else if (endedQueries.contains(query)) {
      // It was cancelled, and this stage came to its end before it was told.
      removeFiles(shuffle);
    } else if (query != null) {
      shufflesOfQuery.computeIfAbsent(query, unused -> new HashSet<>()).add(shuffle);
    }
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionEnd) {
      String query = Long.toString(((SparkListenerSQLExecutionEnd) event).executionId());
      endedQueries.add(query);
      Set<Integer> shuffles = shufflesOfQuery.remove(query);
      if (shuffles != null) {
        shuffles.forEach(Leftovers::removeFiles);
      }
    }
  }

  @Override
  public void onJobEnd(SparkListenerJobEnd ended) {
    Collection<Object> stages = stagesOfJob.remove(ended.jobId());
    if (stages == null) {
      return;
    }
    for (Object stage : stages) {
      if (shuffleOfBroken.containsKey(stage) && ended.jobResult() instanceof JobFailed) {
        abandoned.add((Integer) stage);
        removeShuffled((Integer) stage);
      } else {
        shuffleOfBroken.remove(stage);
      }
    }
  }

  @Override
  public void onTaskStart(SparkListenerTaskStart start) {
    running.put(start.taskInfo().taskId(), start.taskInfo());
    runningOfStage.merge(start.stageId(), 1, Integer::sum);
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd end) {
    TaskInfo task = end.taskInfo();
    if (running.remove(task.taskId()) == null) {
      return;
    }
    runningOfStage.computeIfPresent(end.stageId(), (stage, count) -> count > 1 ? count - 1 : null);
    removeShuffled(end.stageId());
    if (!task.successful() && end.taskType().equals("ShuffleMapTask")) {
      firstBrokenAt = Math.min(firstBrokenAt, task.finishTime());
      lastBrokenAt = task.finishTime();
    }
    removeUnfinished(task.finishTime());
  }

  private void removeShuffled(int stage) {
    // Not before the last task has ended: what that writes afterwards would belong to nobody.
    if (!runningOfStage.containsKey(stage) && abandoned.remove(stage)) {
      Integer shuffle = shuffleOfBroken.remove(stage);
      if (shuffle != null) {
        removeFiles(shuffle);
      }
    }
  }

  /** Of what has none any more, too. Should a query still want them, Spark computes them again. */
  private static void removeFiles(int shuffle) {
    SparkEnv.get().blockManager().master().removeShuffle(shuffle, false);
  }

  /** Files do not tell whose they are. One that is older than all tasks that run is nobody's. */
  private void removeUnfinished(long now) {
    long oldest = running.values().stream().mapToLong(TaskInfo::launchTime).min().orElse(now);
    long before = Math.min(oldest, now - TOLD_WITHIN_MS);
    if (firstBrokenAt >= before) {
      return;
    }
    firstBrokenAt = lastBrokenAt < before ? NEVER : lastBrokenAt;
    for (File file : CollectionConverters.asJava(SparkEnv.get().blockManager().diskBlockManager().getAllFiles())) {
      if (file.getName().startsWith("temp_shuffle_") && file.lastModified() < before) {
        file.delete();
      }
    }
  }
}
