package io.bailiwick;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;

/** A refusal, in words that the gateway understands and may show. */
final class Denied extends RuntimeException {
  static final String PREFIX = "BAILIWICK_DENIED ";
  /** What was read or written carries no stamp of this operation. */
  static final String UNSTAMPED = "unstamped";
  /** A privilege is missing; the message names it. */
  static final String PRIVILEGE = "privilege";
  /** Allowed on the whole of a table, not on what a policy leaves of it. */
  static final String RESTRICTED = "restricted";
  /** A row to be written is one that the writer could not read. */
  static final String ROW = "row";
  /** A rule cannot be applied. */
  static final String POLICY = "policy";
  /** A command, function or kind of query that nobody may use here. */
  static final String NOT_ALLOWED = "not_allowed";
  /** More than a query, in an operation that the gateway took for one. */
  static final String CHANGES = "changes";

  private static final JsonMapper JSON =
      JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
  /** The sentence alone. */
  final String told;

  Denied(String reason, String told) {
    super(PREFIX + JSON.createObjectNode().put("code", "ACCESS_DENIED").put("reason", reason).put("message", told));
    this.told = told;
  }
}
