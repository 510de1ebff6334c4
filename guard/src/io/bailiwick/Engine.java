package io.bailiwick;

import java.io.IOException;
import org.apache.spark.SparkEnv;
import org.apache.spark.deploy.SparkSubmit;
import org.apache.spark.sql.connect.service.SparkConnectService$;

/**
 * A Spark Connect server that never outlives the gateway.
 *
 * <p>The gateway holds the other end of our standard input for as long as it lives. However it dies, the kernel closes
 * that end, and this process halts at once: there is nothing in it worth saving.
 */
public final class Engine {
  private static final long POLL_MS = 20;

  private Engine() {}

  public static void main(String[] arguments) {
    daemon("bailiwick-gateway-watch", Engine::haltWhenGatewayIsGone);
    daemon("bailiwick-announce", Engine::announcePort);
    daemon("bailiwick-measures", Measures::tellForever);
    SparkSubmit.main(arguments);
  }

  private static void haltWhenGatewayIsGone() {
    try {
      while (System.in.read() >= 0) {
        // Nothing is ever sent; only the end matters.
      }
    } catch (IOException gone) {
      // The same as the end.
    }
    Runtime.getRuntime().halt(0);
  }

  /** Spark chose a free port; say which, once calls to it are answered. */
  private static void announcePort() {
    try {
      // Asked only once Spark has its environment: touching the service earlier would change its order of loading.
      while (SparkEnv.get() == null || !SparkConnectService$.MODULE$.started()) {
        Thread.sleep(POLL_MS);
      }
      // On a line of its own, whatever was written before.
      System.out.println("\nbailiwick-engine listening on " + SparkConnectService$.MODULE$.localPort());
    } catch (InterruptedException stopping) {
      Thread.currentThread().interrupt();
    }
  }

  private static void daemon(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }
}
