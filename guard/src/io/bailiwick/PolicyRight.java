package io.bailiwick;

import java.util.function.Supplier;

/**
 * Says that this thread loads what a rule reads, and not what a person wrote.
 *
 * <p>`handle` is the session's by which the catalog knows who asks; `sealed` the stamp of the table whose rule it is,
 * empty while a rule is only being checked by the one who defines it, with their own rights.
 */
record PolicyRight(String handle, String sealed, String principal) {
  private static final ThreadLocal<PolicyRight> CURRENT = new ThreadLocal<>();

  /** Null where this thread works for what a person wrote. */
  static PolicyRight current() {
    return CURRENT.get();
  }

  boolean isCheck() {
    return sealed.isEmpty();
  }

  <T> T during(Supplier<T> work) {
    PolicyRight before = CURRENT.get();
    CURRENT.set(this);
    try {
      return work.get();
    } finally {
      CURRENT.set(before);
    }
  }
}
