package io.bailiwick;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.SessionCatalog.SessionContext;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.ViewCatalog;
import org.apache.iceberg.rest.HTTPClient;
import org.apache.iceberg.rest.RESTSessionCatalog;
import org.apache.iceberg.spark.SparkCatalog;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Tuple2;

/**
 * The catalog of every session of an engine, over one REST client.
 *
 * <p>Where the facade is and who the engine is come from static configuration, so no session can change them. A session
 * brings only its handle (`token`). What it may do is decided by the facade from the handle and the lease of the
 * operation that asks, see {@link LeaseAuth}.
 */
public final class SharedRestCatalog extends SparkCatalog {
  private static final String SETTINGS = "spark.bailiwick.catalog.";
  private static RESTSessionCatalog shared;
  private String handle = "";

  /** The secret by which the facade knows this session. */
  String handle() {
    return handle;
  }

  /** The catalog deletes a table's files itself: once the table is gone, nobody has a right to them here. */
  @Override
  public boolean purgeTable(Identifier identifier) {
    return icebergCatalog().dropTable(buildIdentifier(identifier), true);
  }

  @Override
  protected Catalog buildIcebergCatalog(String name, CaseInsensitiveStringMap options) {
    SparkContext spark = SparkSession.active().sparkContext();
    RESTSessionCatalog rest = shared(spark);
    String id = UUID.randomUUID().toString();
    handle = options.getOrDefault("token", "");
    ClassLoader loader = SharedRestCatalog.class.getClassLoader();
    Class<?>[] faces = {Catalog.class, SupportsNamespaces.class, ViewCatalog.class};
    return (Catalog) Proxy.newProxyInstance(loader, faces, (proxy, method, arguments) -> {
      // Made anew for each call: what is loaded now belongs to the lease that loads it, and sends that lease for ever.
      // The lease is part of the id because Iceberg keeps one catalog per id for ten minutes, its headers with it.
      SessionContext context = context(id, Operation.current(spark).lease());
      Class<?> face = method.getDeclaringClass();
      return call(method, face == ViewCatalog.class ? rest.asViewCatalog(context) : rest.asCatalog(context), arguments);
    });
  }

  /** A rule's tables are loaded in a session of the engine's own, for the session whose query meets the rule. */
  private SessionContext context(String id, String lease) {
    PolicyRight right = PolicyRight.current();
    if (right == null) {
      return new SessionContext(
          id + lease, null, Map.of(LeaseAuth.SESSION, handle, LeaseAuth.LEASE, lease), Map.of());
    }
    Map<String, String> signs = new HashMap<>(Map.of(LeaseAuth.SESSION, right.handle(), LeaseAuth.LEASE, lease));
    if (!right.isCheck()) {
      signs.put(LeaseAuth.POLICY, right.sealed());
    }
    String asked = right.handle() + right.sealed().substring(right.sealed().lastIndexOf('.') + 1);
    return new SessionContext(id + lease + asked, null, signs, Map.of());
  }

  private static Object call(Method method, Object target, Object[] arguments) throws Throwable {
    try {
      return method.invoke(target, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  private static synchronized RESTSessionCatalog shared(SparkContext spark) {
    if (shared == null) {
      Map<String, String> settings = new HashMap<>();
      for (Tuple2<String, String> setting : spark.conf().getAllWithPrefix(SETTINGS)) {
        settings.put(setting._1(), setting._2());
      }
      settings.put("rest.auth.type", LeaseAuth.class.getName());
      settings.put("rest-metrics-reporting-enabled", "false");
      settings.put("rest-table-cache.max-entries", "0");
      settings.put("io-impl", ConfinedFileIO.class.getName());
      RESTSessionCatalog catalog = new RESTSessionCatalog(
          properties -> HTTPClient.builder(properties).uri(properties.get("uri")).build(), null);
      catalog.setConf(spark.hadoopConfiguration());
      catalog.initialize("bailiwick", settings);
      shared = catalog;
    }
    return shared;
  }
}
