package io.bailiwick;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** Maps and sets that forget what came to them first. */
final class Newest {
  private Newest() {}

  static <K, V> Map<K, V> map(int max) {
    return new LinkedHashMap<>() {
      @Override
      protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
        return size() > max;
      }
    };
  }

  static <T> Set<T> set(int max) {
    return Collections.newSetFromMap(map(max));
  }
}
