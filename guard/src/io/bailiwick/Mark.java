package io.bailiwick;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Left on a node that the guard put into a plan, so that it is known there again.
 *
 * <p>Spark copies marks along when it rewrites a plan, and never to a node of another table. A mark says in which
 * session and under which stamp it was made: one that came from elsewhere counts for nothing.
 */
record Mark(SparkSession session, String sealed) {
  private static final TreeNodeTag<Mark> TAG = new TreeNodeTag<>("bailiwick");
  private static final TreeNodeTag<Boolean> BARE = new TreeNodeTag<>("bailiwick_bare");

  void putOn(LogicalPlan node) {
    node.setTagValue(TAG, this);
  }

  /** Spark gives a node without any tags those of the node whose place it takes. */
  static void leaveOff(LogicalPlan node) {
    node.setTagValue(BARE, true);
  }

  boolean isOn(LogicalPlan node) {
    return node.getTagValue(TAG).contains(this);
  }

  /** Whether the guard made this node, for whomever. */
  static boolean isAnyOn(LogicalPlan node) {
    return node.getTagValue(TAG).isDefined();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Mark mark && mark.session == session && mark.sealed.equals(sealed);
  }

  @Override
  public int hashCode() {
    return sealed.hashCode();
  }
}
