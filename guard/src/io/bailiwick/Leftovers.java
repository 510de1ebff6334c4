package io.bailiwick;

import java.io.File;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkEnv;
import org.apache.spark.scheduler.JobFailed;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Takes from this Java's disk what stages have shuffled that came to no end.
 *
 * <p>Spark removes the files of a query when it ends, except of stages that failed or were cancelled. Of those it knows
 * nothing more once their killed tasks have written their last, and what such a task was just writing it never finds
 * again. Executors elsewhere look after their own disks.
 */
public final class Leftovers extends SparkListener {
  /** More than Spark needs from when a task begins until it says so. */
  private static final long TOLD_WITHIN_MS = 5_000;

  private static final long NEVER = Long.MAX_VALUE;

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
    // It is tried again.
    shuffleOfBroken.remove(submitted.stageInfo().stageId());
  }

  @Override
  public void onStageCompleted(SparkListenerStageCompleted completed) {
    StageInfo stage = completed.stageInfo();
    if (stage.failureReason().isDefined() && stage.shuffleDepId().isDefined()) {
      shuffleOfBroken.put(stage.stageId(), (Integer) stage.shuffleDepId().get());
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
        SparkEnv.get().shuffleManager().unregisterShuffle(shuffle);
      }
    }
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
