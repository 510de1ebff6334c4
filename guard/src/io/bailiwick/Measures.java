package io.bailiwick;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryType;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.spark.SparkEnv;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.UnifiedMemoryManager;
import org.apache.spark.sql.connect.service.SparkConnectService$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells on standard output how full and how busy this engine is, whenever that has changed.
 *
 * <p>Never the heap in use at the moment, which is near full by design. Only this process is measured, not executors
 * elsewhere.
 */
final class Measures {
  private static final long EVERY_MS = 2000;
  private static final Pattern FULL_COLLECTOR = Pattern.compile("Old|MarkSweep|Cycles");
  private static long fullCollections;
  private static long leftByFullCollection;
  private static boolean collectedIdle;

  private Measures() {}

  static void tellForever() {
    String told = "";
    try {
      while (true) {
        Thread.sleep(EVERY_MS);
        SparkEnv spark = SparkEnv.get();
        String now = spark == null || !SparkConnectService$.MODULE$.started() ? told : now(spark.memoryManager());
        if (!now.equals(told)) {
          System.out.println("bailiwick-engine measures " + now);
          told = now;
        }
      }
    } catch (InterruptedException stopping) {
      Thread.currentThread().interrupt();
    }
  }

  private static String now(MemoryManager memory) {
    long used = memory.executionMemoryUsed() + memory.storageMemoryUsed();
    long max = memory instanceof UnifiedMemoryManager pool ? pool.maxHeapMemory() + pool.maxOffHeapMemory() : 0;
    int active = activeOperations();
    collectWhenIdle(active);
    return String.format(Locale.ROOT,
        "{\"unified_used\": %d, \"unified_max\": %d, \"heap_after_full_gc\": %d, \"heap_max\": %d,"
            + " \"active_operations\": %d}",
        used, max, heapLeftByFullCollection(), Runtime.getRuntime().maxMemory(), active);
  }

  /**
   * A full collection in the middle of a large query leaves what that query held, and none may follow for long. So one
   * more, once, when nothing is at work: it disturbs nobody, and what it leaves is what cannot be freed.
   */
  private static void collectWhenIdle(int active) {
    if (active > 0) {
      collectedIdle = false;
    } else if (!collectedIdle && leftByFullCollection > Runtime.getRuntime().maxMemory() / 2) {
      collectedIdle = true;
      System.gc();
    }
  }

  /** 0 before the first one. Lesser collections leave garbage behind, so only a full one says what cannot be freed. */
  private static long heapLeftByFullCollection() {
    long collections = ManagementFactory.getGarbageCollectorMXBeans().stream()
        .filter(collector -> FULL_COLLECTOR.matcher(collector.getName()).find())
        .mapToLong(GarbageCollectorMXBean::getCollectionCount)
        .sum();
    if (collections > fullCollections) {
      fullCollections = collections;
      leftByFullCollection = ManagementFactory.getMemoryPoolMXBeans().stream()
          .filter(pool -> pool.getType() == MemoryType.HEAP && pool.getCollectionUsage() != null)
          .mapToLong(pool -> pool.getCollectionUsage().getUsed())
          .sum();
    }
    return leftByFullCollection;
  }

  private static int activeOperations() {
    return CollectionConverters.asJava(SparkConnectService$.MODULE$.executionManager().listExecuteHolders()).size();
  }
}
