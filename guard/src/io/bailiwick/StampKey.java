package io.bailiwick;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.SparkContext;

/** The secret that this engine shares with the gateway. Without one no seal is whole, and nothing can be read. */
final class StampKey {
  private static final String FILE = "spark.bailiwick.stamp-key-file";
  private static final String ALGORITHM = "HmacSHA256";
  private static final int BYTES_MIN = 32;
  private static volatile StampKey known;
  private final SecretKeySpec key;

  private StampKey(byte[] key) {
    this.key = new SecretKeySpec(key, ALGORITHM);
  }

  /** The engine's key; null if it was given none. */
  static StampKey of(SparkContext spark) {
    if (known == null) {
      try {
        byte[] key = HexFormat.of().parseHex(Files.readString(Path.of(spark.conf().get(FILE, ""))).strip());
        known = key.length < BYTES_MIN ? null : new StampKey(key);
      } catch (IOException | IllegalArgumentException error) {
        return null;
      }
    }
    return known;
  }

  boolean isWhole(String payload, String seal) {
    try {
      Mac mac = Mac.getInstance(ALGORITHM);
      mac.init(key);
      byte[] wanted = mac.doFinal(payload.getBytes(StandardCharsets.US_ASCII));
      return MessageDigest.isEqual(wanted, HexFormat.of().parseHex(seal));
    } catch (GeneralSecurityException | IllegalArgumentException error) {
      return false;
    }
  }
}
