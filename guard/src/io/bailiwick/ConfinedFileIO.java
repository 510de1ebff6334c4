package io.bailiwick;

import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.ResolvingFileIO;

/**
 * The files of one table, and no others: every path must lie under a prefix that the table's stamp names.
 *
 * <p>A table's metadata says where its files lie, and whoever can commit can make it say anything. So this is asked of
 * each path, on the driver and on executors, for reading, writing, listing and deleting. Without a stamp there are no
 * files at all.
 */
public final class ConfinedFileIO extends ResolvingFileIO {
  private static final String FILE = "file";
  private ArrayList<String> prefixes = new ArrayList<>();

  @Override
  public void initialize(Map<String, String> properties) {
    super.initialize(properties);
    String sealed = properties.get(Stamp.CONFIG);
    prefixes = new ArrayList<>();
    if (sealed != null) {
      for (String prefix : Stamp.prefixes(sealed)) {
        String normal = normal(prefix);
        prefixes.add(normal.endsWith("/") ? normal : normal + "/");
      }
    }
  }

  @Override
  public InputFile newInputFile(String location) {
    return super.newInputFile(checked(location));
  }

  @Override
  public InputFile newInputFile(String location, long length) {
    return super.newInputFile(checked(location), length);
  }

  @Override
  public OutputFile newOutputFile(String location) {
    return super.newOutputFile(checked(location));
  }

  @Override
  public void deleteFile(String location) {
    super.deleteFile(checked(location));
  }

  @Override
  public void deleteFiles(Iterable<String> locations) {
    List<String> all = new ArrayList<>();
    locations.forEach(location -> all.add(checked(location)));
    super.deleteFiles(all);
  }

  @Override
  public Iterable<FileInfo> listPrefix(String prefix) {
    return super.listPrefix(checked(prefix));
  }

  @Override
  public void deletePrefix(String prefix) {
    super.deletePrefix(checked(prefix));
  }

  /** `location` itself, if it lies under a prefix. */
  private String checked(String location) {
    String normal = normal(location);
    for (String prefix : prefixes) {
      if ((normal + "/").startsWith(prefix) && (!isFile(normal) || isReallyUnder(prefix, normal))) {
        return location;
      }
    }
    throw outside();
  }

  /** One spelling for all that mean the same place; what could mean another one than it says is refused. */
  private static String normal(String location) {
    if (location.chars().anyMatch(character -> character < ' ' || character == '\\')) {
      throw outside();
    }
    int colon = location.indexOf(':');
    boolean hasScheme = colon > 0 && location.substring(0, colon).matches("[A-Za-z][A-Za-z0-9+.-]*");
    String scheme = hasScheme ? location.substring(0, colon).toLowerCase(Locale.ROOT) : FILE;
    String rest = hasScheme ? location.substring(colon + 1) : location;
    if (scheme.equals(FILE)) {
      // `file:/x`, `file:///x` and `/x` are one; `file://host/x` is on another machine, wherever that is.
      if (rest.startsWith("//") && !rest.startsWith("///") || !rest.startsWith("/")) {
        throw outside();
      }
      rest = rest.replaceAll("/+", "/");
    }
    for (String part : rest.split("/", -1)) {
      String decoded = decoded(part);
      if (decoded.equals(".") || decoded.equals("..")) {
        throw outside();
      }
    }
    return scheme + ":" + rest;
  }

  private static String decoded(String part) {
    try {
      return URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8);
    } catch (IllegalArgumentException error) {
      return part;
    }
  }

  private static boolean isFile(String normal) {
    return normal.startsWith(FILE + ":");
  }

  /** Links lead elsewhere, so what counts is where the nearest thing that exists really lies. */
  private static boolean isReallyUnder(String prefix, String normal) {
    try {
      Path root = real(Path.of(prefix.substring(FILE.length() + 1)));
      return real(Path.of(normal.substring(FILE.length() + 1))).startsWith(root);
    } catch (IOException | InvalidPathException error) {
      return false;
    }
  }

  private static Path real(Path path) throws IOException {
    Path existing = path;
    while (!Files.exists(existing, java.nio.file.LinkOption.NOFOLLOW_LINKS) && existing.getParent() != null) {
      existing = existing.getParent();
    }
    // A link to nothing is there and leads nowhere: not to be written through.
    return existing.toRealPath().resolve(existing.relativize(path)).normalize();
  }

  private static Denied outside() {
    return new Denied(Denied.NOT_ALLOWED, "A file of this table lies outside of where its files may lie.");
  }
}
