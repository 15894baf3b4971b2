// What JDBC sees of the views in schema gkmeans, and how it scores.
//
// Client HOST PORT DATABASE USER prints what client.py prints; clients.pl compares.
import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;

public class Client {
    private static final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    // A value as text that keeps all of its bits; each type of the client has a form of its own.
    static String shown(Object value) {
        if (value == null) {
            return "NULL";
        } else if (value instanceof Double) {
            return String.format("float %016x", Double.doubleToRawLongBits((Double) value));
        } else if (value instanceof Timestamp) {
            return "at " + ChronoUnit.MICROS.between(Instant.EPOCH, ((Timestamp) value).toInstant());
        }
        return value.toString().replace("\n", "\\n").replace("\t", "\\t");
    }

    static void tell(String... values) {
        out.println(String.join("\t", values));
    }

    // Names, types and comments of the columns of a view, as the driver's catalog function has them.
    static List<String> columnsOf(Connection connection, String view) throws SQLException {
        List<String> names = new ArrayList<>();
        try (ResultSet column = connection.getMetaData().getColumns(null, "gkmeans", view, null)) {
            while (column.next()) {
                names.add(column.getString("COLUMN_NAME"));
                tell("column", view, column.getString("COLUMN_NAME"), column.getString("TYPE_NAME"));
                tell("remark", view, column.getString("COLUMN_NAME"), column.getString("REMARKS"));
            }
        }
        return names;
    }

    // Types and values of all columns of all views.
    static void views(Connection connection) throws SQLException {
        List<String> views = new ArrayList<>();
        try (ResultSet view = connection.getMetaData().getTables(null, "gkmeans", "%", new String[] {"VIEW"})) {
            while (view.next()) {
                views.add(view.getString("TABLE_NAME"));
            }
        }
        for (String view : views) {
            List<String> names = columnsOf(connection, view);
            try (Statement statement = connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT * FROM gkmeans." + view)) {
                while (row.next()) {
                    for (int i = 0; i < names.size(); i++) {
                        tell("value", view, shown(row.getObject(1)), names.get(i), shown(row.getObject(i + 1)));
                    }
                }
            }
        }
    }

    static void bind(PreparedStatement statement, Object... parameters) throws SQLException {
        for (int i = 0; i < parameters.length; i++) {
            if (parameters[i] == null) {
                statement.setNull(i + 1, Types.NULL);
            } else {
                statement.setObject(i + 1, parameters[i]);
            }
        }
    }

    // One call with parameters; an error is told with its SQLSTATE.
    static void attempt(String name, PreparedStatement statement, Object... parameters) {
        try {
            bind(statement, parameters);
            try (ResultSet row = statement.executeQuery()) {
                List<String> values = new ArrayList<>();
                row.next();
                for (int i = 1; i <= row.getMetaData().getColumnCount(); i++) {
                    values.add(shown(row.getObject(i)));
                }
                tell(name, String.join("|", values));
            }
        } catch (SQLException error) {
            tell(name, error.getSQLState(), error.getMessage().split("\n")[0].replaceFirst("^ERROR: ", ""));
        }
    }

    static void call(Connection connection, String name, String query, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(query)) {
            attempt(name, statement, parameters);
        }
    }

    static void scores(Connection connection) throws SQLException {
        String model = "public.segments";
        try (PreparedStatement array = connection.prepareStatement(
                    "SELECT gkmeans_predict(?::regclass, ?::float8[]), gkmeans_distance(?::regclass, ?::float8[])");
                PreparedStatement columns = connection.prepareStatement(
                    "SELECT gkmeans_name(?::regclass, ?::float8, ?::int)")) {
            for (int i = 1; i <= 12; i++) {
                double spent = i * 7.25;
                int visits = i % 5;
                Object features = connection.createArrayOf("float8", new Double[] {spent, (double) visits});
                attempt("array " + i, array, model, features, model, features);
                attempt("columns " + i, columns, model, spent, visits);
            }
        }
        call(connection, "row", "SELECT gkmeans_predict('public.segments', r) FROM (SELECT ?::int AS visits, ?::float8 AS spent) r", 2, 14.5);
        call(connection, "NULL", "SELECT gkmeans_predict(?::regclass, ?::float8, 2)", model, null);
        call(connection, "numbers without casts", "SELECT gkmeans_predict(?::regclass, ?, ?)", model, 14.5, 2.0);
        call(connection, "model without cast", "SELECT gkmeans_predict(?, ?::float8, ?::float8)", model, 14.5, 2.0);
        call(connection, "text without cast", "SELECT gkmeans_predict(?::regclass, ?)", model, "{14.5,2}");
        call(connection, "NULL without cast", "SELECT gkmeans_predict(?::regclass, ?, 2)", model, null);
        call(connection, "other model", "SELECT gkmeans_predict(?::regclass, ?::float8[])", "public.secret", "{1,2}");
        call(connection, "no model", "SELECT gkmeans_predict(?::regclass, ?::float8[])", "public.nothing", "{1,2}");
    }

    public static void main(String[] arguments) throws SQLException {
        String url = String.format("jdbc:postgresql://%s:%s/%s?prepareThreshold=3", arguments[0], arguments[1], arguments[2]);
        try (Connection connection = DriverManager.getConnection(url, arguments[3], null)) {
            views(connection);
            scores(connection);
        }
    }
}
