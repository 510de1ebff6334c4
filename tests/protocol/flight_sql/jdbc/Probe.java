import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Uses the Flight SQL JDBC driver as any Java program would, and prints what it saw: a line of JSON for each case. It
 * judges nothing; the test beside it does. Address, password and token come from the environment.
 */
public final class Probe {
    private static final String URL = "jdbc:arrow-flight-sql://" + System.getenv("ADDRESS") + "?useEncryption=false";
    private static final String ENDLESS = System.getenv("ENDLESS");
    private static final String SCHEMA = "jdbc";

    private interface Case {
        Object run(Connection connection) throws Exception;
    }

    private interface Binding {
        void bind(PreparedStatement statement, int index) throws SQLException;
    }

    public static void main(String[] arguments) throws Exception {
        print("password", () -> signedIn(signIn("admin", System.getenv("PASSWORD"))));
        print("wrong password", () -> signedIn(signIn("admin", "wrong")));
        print("token", () -> signedIn(byToken()));
        try (Connection connection = signIn("admin", System.getenv("PASSWORD"))) {
            for (Map.Entry<String, Case> each : cases().entrySet()) {
                print(each.getKey(), () -> each.getValue().run(connection));
            }
        }
    }

    private static Map<String, Case> cases() {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("updates", Probe::updates);
        cases.put("create runs once", Probe::createsOnce);
        cases.put("update runs once", Probe::updatesOnce);
        cases.put("types", Probe::types);
        cases.put("empty", connection -> rows(query(connection, "SELECT id FROM jdbc.counted WHERE id < 0")));
        cases.put("many rows", Probe::manyRows);
        cases.put("execute tells queries from updates", Probe::executes);
        cases.put("parameters", Probe::parameters);
        cases.put("prepared again", Probe::preparedAgain);
        cases.put("prepared metadata", Probe::preparedMetadata);
        cases.put("prepared updates", Probe::preparedUpdates);
        cases.put("batch", Probe::batch);
        cases.put("catalogs", connection -> rows(connection.getMetaData().getCatalogs()));
        cases.put("schemas", connection -> rows(connection.getMetaData().getSchemas("lake", SCHEMA)));
        cases.put("tables", Probe::tables);
        cases.put("table types", connection -> rows(connection.getMetaData().getTableTypes()));
        cases.put("columns", Probe::columns);
        cases.put("type info", Probe::typeInfo);
        cases.put("keys", Probe::keys);
        cases.put("product", Probe::product);
        cases.put("syntax error", connection -> rows(query(connection, "SELEC 1")));
        cases.put("missing table", connection -> rows(query(connection, "SELECT * FROM nowhere")));
        cases.put("late error", connection -> rows(query(connection, "SELECT 1 / (id - id) FROM range(1)")));
        cases.put("after errors", connection -> rows(query(connection, "SELECT 1 AS one")));
        cases.put("identifiers", Probe::identifiers);
        cases.put("use", Probe::use);
        cases.put("cancel", Probe::cancel);
        cases.put("query timeout", Probe::queryTimeout);
        cases.put("autocommit", Connection::getAutoCommit);
        cases.put("autocommit off", Probe::autocommitOff);
        return cases;
    }

    private static Connection signIn(String user, String password) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", user);
        properties.put("password", password);
        return DriverManager.getConnection(URL, properties);
    }

    private static Connection byToken() throws SQLException {
        Properties properties = new Properties();
        properties.put("token", System.getenv("TOKEN"));
        return DriverManager.getConnection(URL, properties);
    }

    private static Object signedIn(Connection opened) throws SQLException {
        try (Connection connection = opened) {
            return List.of(connection.isValid(10), rows(query(connection, "SELECT 41 + 1 AS answer")));
        }
    }

    private static Object updates(Connection connection) throws SQLException {
        List<Object> counts = new ArrayList<>();
        for (String sql : List.of(
                "INSERT INTO jdbc.counted VALUES (1, 'one'), (2, 'two'), (3, NULL)",
                "DELETE FROM jdbc.counted WHERE id = 3")) {
            try (Statement statement = connection.createStatement()) {
                counts.add(statement.executeUpdate(sql));
            }
        }
        counts.add(rows(query(connection, "SELECT * FROM jdbc.counted ORDER BY id")));
        return counts;
    }

    private static Object createsOnce(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("CREATE TABLE jdbc.created (id INT)");
        }
        return rows(query(connection, "SELECT count(*) FROM jdbc.created"));
    }

    private static Object updatesOnce(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("UPDATE jdbc.once SET n = n + 1");
        }
        return rows(query(connection, "SELECT n FROM jdbc.once"));
    }

    private static Object types(Connection connection) throws SQLException {
        String sql = "SELECT true AS c_boolean, 1Y AS c_tinyint, 2S AS c_smallint, 3 AS c_int, 4L AS c_bigint, "
                + "1.5F AS c_float, 2.5D AS c_double, 12.34BD AS c_decimal, 'ü' AS c_string, X'00FF' AS c_binary, "
                + "DATE '2024-02-29' AS c_date, TIMESTAMP '2024-02-29 12:30:00' AS c_timestamp, "
                + "TIMESTAMP_NTZ '2024-02-29 12:30:00' AS c_timestamp_ntz, array(1, 2) AS c_array, "
                + "named_struct('a', 1) AS c_struct, map('k', 1) AS c_map, CAST(NULL AS INT) AS c_null";
        Map<String, Object> told = new LinkedHashMap<>();
        try (ResultSet result = query(connection, sql)) {
            result.next();
            ResultSetMetaData columns = result.getMetaData();
            for (int index = 1; index <= columns.getColumnCount(); index++) {
                int column = index;
                told.put(columns.getColumnLabel(column), attempt(() -> Arrays.asList(columns.getColumnType(column),
                        columns.getColumnTypeName(column), shown(result.getObject(column)))));
            }
        }
        return told;
    }

    private static Object manyRows(Connection connection) throws SQLException {
        long count = 0;
        long sum = 0;
        try (ResultSet result = query(connection, "SELECT id FROM range(100000)")) {
            while (result.next()) {
                count++;
                sum += result.getLong(1);
            }
        }
        return List.of(count, sum);
    }

    private static Object executes(Connection connection) throws SQLException {
        List<Object> told = new ArrayList<>();
        try (Statement statement = connection.createStatement()) {
            told.add(statement.execute("SELECT 1"));
            told.add(statement.execute("INSERT INTO jdbc.executed VALUES (1), (2)"));
            told.add(statement.getUpdateCount());
            told.add(statement.execute("SHOW TABLES IN jdbc"));
        }
        return told;
    }

    private static Object parameters(Connection connection) throws SQLException {
        Timestamp noon = Timestamp.from(java.time.Instant.parse("2024-02-29T12:30:00Z"));
        Map<String, Binding> bindings = new LinkedHashMap<>();
        bindings.put("c_boolean", (statement, index) -> statement.setBoolean(index, true));
        bindings.put("c_int", (statement, index) -> statement.setInt(index, 3));
        bindings.put("c_bigint", (statement, index) -> statement.setLong(index, 4));
        bindings.put("c_float", (statement, index) -> statement.setFloat(index, 1.5F));
        bindings.put("c_double", (statement, index) -> statement.setDouble(index, 2.5));
        bindings.put("c_decimal", (statement, index) -> statement.setBigDecimal(index, new BigDecimal("12.34")));
        bindings.put("c_string", (statement, index) -> statement.setString(index, "ü'"));
        bindings.put("c_binary", (statement, index) -> statement.setBytes(index, new byte[] {0, -1}));
        bindings.put("c_date", (statement, index) -> statement.setDate(index, Date.valueOf("2024-02-29")));
        bindings.put("c_timestamp", (statement, index) -> statement.setTimestamp(index, noon));
        bindings.put("c_timestamp_ntz", (statement, index) -> statement.setTimestamp(index, noon));
        Map<String, Object> told = new LinkedHashMap<>();
        for (Map.Entry<String, Binding> each : bindings.entrySet()) {
            told.put(each.getKey(), attempt(() -> matching(connection, each.getKey(), each.getValue())));
        }
        told.put("null", attempt(() -> matching(connection, "c_int",
                (statement, index) -> statement.setNull(index, Types.INTEGER))));
        return told;
    }

    private static Object matching(Connection connection, String column, Binding binding) throws SQLException {
        String sql = "SELECT count(*) FROM jdbc.typed WHERE " + column + " = ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            binding.bind(statement, 1);
            return rows(statement.executeQuery());
        }
    }

    private static Object preparedAgain(Connection connection) throws SQLException {
        List<Object> found = new ArrayList<>();
        String sql = "SELECT name FROM jdbc.counted WHERE id = ? AND name <> ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (long id : new long[] {1, 2, 9}) {
                statement.setLong(1, id);
                statement.setString(2, "nobody");
                found.add(rows(statement.executeQuery()));
            }
        }
        return found;
    }

    private static Object preparedMetadata(Connection connection) throws SQLException {
        String sql = "SELECT id, name FROM jdbc.counted WHERE id = ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            ResultSetMetaData columns = statement.getMetaData();
            return List.of(columns.getColumnCount(), columns.getColumnName(1), columns.getColumnTypeName(1),
                    statement.getParameterMetaData().getParameterCount(),
                    statement.getParameterMetaData().getParameterTypeName(1));
        }
    }

    private static Object preparedUpdates(Connection connection) throws SQLException {
        List<Object> counts = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO jdbc.counted VALUES (?, ?)")) {
            statement.setLong(1, 10);
            statement.setString(2, "ten");
            counts.add(statement.executeUpdate());
            statement.setLong(1, 11);
            statement.setNull(2, Types.VARCHAR);
            counts.add(statement.executeUpdate());
        }
        try (PreparedStatement statement = connection.prepareStatement("DELETE FROM jdbc.counted WHERE id >= ?")) {
            statement.setLong(1, 10);
            counts.add(statement.executeUpdate());
        }
        return counts;
    }

    private static Object batch(Connection connection) throws SQLException {
        long sum = 0;
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO jdbc.batched VALUES (?, ?)")) {
            for (int id = 1; id <= 3; id++) {
                statement.setLong(1, id);
                statement.setString(2, "n" + id);
                statement.addBatch();
            }
            for (int count : statement.executeBatch()) {
                sum += count;
            }
        }
        return List.of(sum, rows(query(connection, "SELECT * FROM jdbc.batched ORDER BY id")));
    }

    private static Object tables(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        return picked(metadata.getTables("lake", SCHEMA, "coun%", new String[] {"table"}),
                "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE");
    }

    private static Object columns(Connection connection) throws SQLException {
        return picked(connection.getMetaData().getColumns("lake", SCHEMA, "typed", "%"),
                "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE");
    }

    private static Object typeInfo(Connection connection) throws SQLException {
        return picked(connection.getMetaData().getTypeInfo(), "TYPE_NAME", "DATA_TYPE");
    }

    private static Object keys(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        return List.of(rows(metadata.getPrimaryKeys("lake", SCHEMA, "counted")),
                rows(metadata.getImportedKeys("lake", SCHEMA, "counted")),
                rows(metadata.getExportedKeys("lake", SCHEMA, "counted")),
                rows(metadata.getCrossReference("lake", SCHEMA, "counted", "lake", SCHEMA, "typed")));
    }

    private static Object product(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("name", metadata.getDatabaseProductName());
        told.put("version", metadata.getDatabaseProductVersion());
        told.put("quote", metadata.getIdentifierQuoteString());
        told.put("transactions", metadata.supportsTransactions());
        told.put("isolation", metadata.getDefaultTransactionIsolation());
        told.put("schema term", metadata.getSchemaTerm());
        told.put("catalog term", metadata.getCatalogTerm());
        told.put("escape", metadata.getSearchStringEscape());
        told.put("has functions", metadata.getStringFunctions().contains("upper"));
        told.put("has keywords", !metadata.getSQLKeywords().isEmpty());
        told.put("outer joins", metadata.supportsOuterJoins());
        told.put("read only", metadata.isReadOnly());
        return told;
    }

    private static Object identifiers(Connection connection) throws SQLException {
        String quote = connection.getMetaData().getIdentifierQuoteString();
        List<Object> found = new ArrayList<>();
        for (String name : List.of("select", "a.b", "Größe", "MixedCase", "white space")) {
            try (ResultSet result = query(connection, "SELECT 1 AS " + quote + name + quote)) {
                found.add(result.getMetaData().getColumnLabel(1));
            }
        }
        return found;
    }

    private static Object use(Connection connection) throws SQLException {
        try (Connection own = signIn("admin", System.getenv("PASSWORD")); Statement statement = own.createStatement()) {
            statement.execute("USE jdbc");
            return rows(query(own, "SELECT count(*) FROM executed"));
        }
    }

    private static Object cancel(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    waitUntilRunning("jdbc canc");
                    statement.cancel();
                } catch (Exception error) {
                    System.err.println(error);
                }
            });
            canceller.start();
            try {
                return rows(statement.executeQuery(ENDLESS + " -- jdbc cancel"));
            } finally {
                canceller.join();
            }
        }
    }

    private static void waitUntilRunning(String words) throws Exception {
        // The words are put together here, so that the question does not find itself.
        String sql = "SELECT count(*) FROM system.runtime.queries WHERE state = 'running' AND sql LIKE '%" + words
                + "' || 'el%'";
        try (Connection own = signIn("admin", System.getenv("PASSWORD"))) {
            for (int attempts = 0; attempts < 300; attempts++) {
                if (!rows(query(own, sql)).equals(List.of(List.of(0L)))) {
                    return;
                }
                Thread.sleep(100);
            }
        }
        throw new IllegalStateException("the query did not start");
    }

    private static Object queryTimeout(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(2);
            return rows(statement.executeQuery(ENDLESS + " -- jdbc timeout"));
        }
    }

    private static Object autocommitOff(Connection connection) throws SQLException {
        try (Connection own = signIn("admin", System.getenv("PASSWORD"))) {
            own.setAutoCommit(false);
            return rows(query(own, "SELECT 1"));
        }
    }

    private static ResultSet query(Connection connection, String sql) throws SQLException {
        Statement statement = connection.createStatement();
        statement.closeOnCompletion();
        return statement.executeQuery(sql);
    }

    private static List<Object> rows(ResultSet opened) throws SQLException {
        try (ResultSet result = opened) {
            List<Object> rows = new ArrayList<>();
            int count = result.getMetaData().getColumnCount();
            while (result.next()) {
                List<Object> row = new ArrayList<>();
                for (int index = 1; index <= count; index++) {
                    row.add(result.getObject(index));
                }
                rows.add(row);
            }
            return rows;
        }
    }

    private static List<Object> picked(ResultSet opened, String... names) throws SQLException {
        try (ResultSet result = opened) {
            List<Object> rows = new ArrayList<>();
            while (result.next()) {
                List<Object> row = new ArrayList<>();
                for (String name : names) {
                    row.add(result.getObject(name));
                }
                rows.add(row);
            }
            return rows;
        }
    }

    private static String shown(Object value) {
        return value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value);
    }

    private interface Attempt {
        Object run() throws Exception;
    }

    private static Object attempt(Attempt attempt) {
        try {
            return attempt.run();
        } catch (Throwable error) {
            return failure(error);
        }
    }

    private static Map<String, Object> failure(Throwable error) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("error", error.getClass().getSimpleName());
        told.put("state", error instanceof SQLException exception ? exception.getSQLState() : null);
        StringBuilder message = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            message.append(each.getMessage()).append(" | ");
        }
        told.put("message", message.toString());
        return told;
    }

    private static void print(String name, Attempt attempt) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("case", name);
        line.put("saw", attempt(attempt));
        System.out.println(json(line));
        System.out.flush();
    }

    private static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((key, each) -> parts.add(json(String.valueOf(key)) + ":" + json(each)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof List<?> list) {
            return "[" + String.join(",", list.stream().map(Probe::json).toList()) + "]";
        }
        StringBuilder text = new StringBuilder("\"");
        for (char each : value.toString().toCharArray()) {
            if (each == '"' || each == '\\') {
                text.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                text.append(String.format("\\u%04x", (int) each));
            } else {
                text.append(each);
            }
        }
        return text.append('"').toString();
    }
}
