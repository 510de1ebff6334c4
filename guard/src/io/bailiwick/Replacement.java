package io.bailiwick;

import java.util.function.Function;
import scala.runtime.AbstractPartialFunction;

/** Replaces the nodes of one class, keeps the others. */
final class Replacement<T, N extends T> extends AbstractPartialFunction<T, T> {
  private final Class<N> kind;
  private final Function<N, ? extends T> replace;

  Replacement(Class<N> kind, Function<N, ? extends T> replace) {
    this.kind = kind;
    this.replace = replace;
  }

  @Override
  public boolean isDefinedAt(T node) {
    return kind.isInstance(node);
  }

  @Override
  @SuppressWarnings("unchecked")
  public <A extends T, B> B applyOrElse(A node, scala.Function1<A, B> otherwise) {
    return kind.isInstance(node) ? (B) replace.apply(kind.cast(node)) : otherwise.apply(node);
  }
}
