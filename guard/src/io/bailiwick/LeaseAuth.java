package io.bailiwick;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.catalog.SessionCatalog.SessionContext;
import org.apache.iceberg.rest.HTTPHeaders;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.ImmutableHTTPRequest;
import org.apache.iceberg.rest.RESTClient;
import org.apache.iceberg.rest.auth.AuthManager;
import org.apache.iceberg.rest.auth.AuthSession;

/** Signs each call to the facade with the engine's credential, the session's handle and the operation's lease. */
public final class LeaseAuth implements AuthManager {
  static final String SESSION = "X-Bailiwick-Session";
  static final String LEASE = "X-Bailiwick-Lease";
  /** The stamp of the table whose rule reads what is asked for. */
  static final String POLICY = "X-Bailiwick-Policy";

  /** Iceberg makes one by this constructor. */
  public LeaseAuth(String name) {}

  @Override
  public AuthSession catalogSession(RESTClient client, Map<String, String> properties) {
    try {
      String credential = Files.readString(Path.of(properties.get("credential-file"))).strip();
      return new Signed(Map.of("Authorization", "Bearer " + credential));
    } catch (IOException error) {
      throw new UncheckedIOException("The engine's credential cannot be read", error);
    }
  }

  @Override
  public AuthSession contextualSession(SessionContext context, AuthSession engine) {
    Map<String, String> headers = new HashMap<>(((Signed) engine).headers);
    headers.putAll(context.credentials());
    return new Signed(headers);
  }

  @Override
  public void close() {}

  private record Signed(Map<String, String> headers) implements AuthSession {
    @Override
    public HTTPRequest authenticate(HTTPRequest request) {
      HTTPHeaders signed = request.headers().putIfAbsent(HTTPHeaders.of(headers));
      return ImmutableHTTPRequest.builder().from(request).headers(signed).build();
    }

    @Override
    public void close() {}
  }
}
