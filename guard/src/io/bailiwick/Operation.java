package io.bailiwick;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.SparkContext;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What the gateway says about the operation that this thread works for: its lease, whose it is, what it may do.
 *
 * <p>It comes as tags of the operation and not as configuration of the session: one session serves many operations,
 * and one that was started under an earlier lease must not be taken for one of the next.
 *
 * <p>`standing` is the other lease of a session that is one person's own, and empty in one that is shared. With
 * `readsOnly` the gateway takes it for a query; what is more than that is refused, for the gateway to think again.
 * `onTrusted` says that the engine was started to run code of users.
 */
record Operation(
    String id, String lease, String standing, String principal, boolean mayCall, boolean explains, boolean readsOnly,
    boolean onTrusted) {
  private static final String TRUSTED = "spark.bailiwick.user-code";
  private static final String TAG = "_Tag_";
  private static final String ID = "_Operation_";
  private static final int REMEMBERED_MAX = 1000;
  /** Operations that are a CALL; what the procedure does inside is not a person's query. */
  private static final Set<String> PROCEDURES = remembered();
  private static final Set<String> EXPLANATIONS = remembered();
  private static final Set<String> LOOPS = remembered();

  static Operation current(SparkContext spark) {
    String id = "";
    String lease = "";
    String standing = "";
    String principal = null;
    Set<String> flags = new HashSet<>();
    for (String tag : CollectionConverters.asJava(spark.getJobTags())) {
      // Spark writes `…_User_<ours>_Session_<ours>_Tag_<ours>`; the first two are UUIDs.
      int start = tag.indexOf(TAG) + TAG.length();
      if (start < TAG.length()) {
        id = tag.contains(ID) ? tag : id;
      } else if (tag.startsWith("L", start)) {
        lease = tag.substring(start);
      } else if (tag.startsWith("S", start)) {
        standing = tag.substring(start + 1);
      } else if (tag.startsWith("P", start)) {
        principal = new String(Base64.getUrlDecoder().decode(tag.substring(start + 1)), StandardCharsets.UTF_8);
      } else {
        flags.add(tag.substring(start));
      }
    }
    boolean explains = flags.contains("E") || EXPLANATIONS.contains(id);
    boolean onTrusted = spark.conf().getBoolean(TRUSTED, false);
    return new Operation(
        id, lease, standing, principal, flags.contains("C"), explains, flags.contains("R"), onTrusted);
  }

  /** Whether the session is one person's own, which may be left changed. */
  boolean isDedicated() {
    return !standing.isEmpty();
  }

  /** Only those who may are given a session of their own on such an engine. */
  boolean mayRunCode() {
    return onTrusted && isDedicated();
  }

  /** What a view holds was loaded under the standing lease, by the same person. */
  boolean mayRead(Stamp stamp) {
    return stamp.lease().equals(lease) || isDedicated() && stamp.lease().equals(standing);
  }

  boolean isProcedure() {
    return mayCall && PROCEDURES.contains(id);
  }

  void noteProcedure() {
    note(PROCEDURES);
  }

  /** Spark plans what is explained only after the EXPLAIN itself was analysed. */
  void noteExplanation() {
    note(EXPLANATIONS);
  }

  /** Whether it is a recursive query that was checked. Spark analyses its planned parts again, round by round. */
  boolean isLoop() {
    return LOOPS.contains(id);
  }

  void noteLoop() {
    note(LOOPS);
  }

  private void note(Set<String> kind) {
    if (!id.isEmpty()) {
      kind.add(id);
    }
  }

  private static Set<String> remembered() {
    return Collections.synchronizedSet(Newest.set(REMEMBERED_MAX));
  }
}
