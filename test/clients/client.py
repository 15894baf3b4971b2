#!/usr/bin/env python3
"""What a driver of Python sees of the views in schema gkmeans, and how it scores.

client.py DRIVER HOST PORT DATABASE USER: DRIVER is psycopg2, psycopg or pyodbc.  With DRIVER alone,
it fails unless the driver is installed.  Client.java prints the same through JDBC; t/clients.pl
compares.
"""
import datetime
import importlib
import re
import struct
import sys

ODBC_NAME = "PostgreSQL Unicode"
TYPES = {16: "bool", 20: "int8", 23: "int4", 25: "text", 701: "float8", 1184: "timestamptz"}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

# Without a cast, a parameter has the type that the driver gives it, or none.
MODEL = "public.segments"
CALLS = [
    ("row", "SELECT gkmeans_predict('public.segments', r) FROM (SELECT ?::int AS visits, ?::float8 AS spent) r", (2, 14.5)),
    ("NULL", "SELECT gkmeans_predict(?::regclass, ?::float8, 2)", (MODEL, None)),
    ("numbers without casts", "SELECT gkmeans_predict(?::regclass, ?, ?)", (MODEL, 14.5, 2.0)),
    ("model without cast", "SELECT gkmeans_predict(?, ?::float8, ?::float8)", (MODEL, 14.5, 2.0)),
    ("text without cast", "SELECT gkmeans_predict(?::regclass, ?)", (MODEL, "{14.5,2}")),
    ("NULL without cast", "SELECT gkmeans_predict(?::regclass, ?, 2)", (MODEL, None)),
    ("other model", "SELECT gkmeans_predict(?::regclass, ?::float8[])", ("public.secret", "{1,2}")),
    ("no model", "SELECT gkmeans_predict(?::regclass, ?::float8[])", ("public.nothing", "{1,2}")),
]


def require(driver):
    """Fails unless a driver is installed."""
    module = importlib.import_module(driver)
    if driver == "pyodbc" and ODBC_NAME not in module.drivers():
        sys.exit(f'there is no ODBC driver "{ODBC_NAME}"')
    return module


def connect(driver, host, port, database, user):
    """A connection; with the settings of ODBC that BI tools need."""
    module = require(driver)
    if driver != "pyodbc":
        return module.connect(host=host, port=port, dbname=database, user=user, client_encoding='utf8')
    return module.connect(f"Driver={{{ODBC_NAME}}};Servername={host};Port={port};Database={database};"
                          f"Uid={user};BoolsAsChar=0;MaxLongVarcharSize=1000000")


def shown(value):
    """A value as text that keeps all of its bits; each type of the client has a form of its own."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "float " + struct.pack(">d", value).hex()
    if isinstance(value, datetime.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return f"at {(value - EPOCH) // datetime.timedelta(microseconds=1)}"
    if isinstance(value, int):
        return str(value)
    return value.replace("\n", "\\n").replace("\t", "\\t")


def tell(*values):
    print("\t".join(values))


def columns_of(driver, cursor, view):
    """Names and types of the columns of a view, as a catalog function or a result of the driver has them."""
    if driver == "pyodbc":
        return [(column.column_name, column.type_name) for column in cursor.columns(schema="gkmeans", table=view)]
    cursor.execute(f"SELECT * FROM gkmeans.{view} LIMIT 0")
    return [(column[0], TYPES.get(column[1], str(column[1]))) for column in cursor.description]


def views(driver, cursor):
    """Types and values of all columns of all views."""
    cursor.execute("SELECT table_name FROM information_schema.views WHERE table_schema = 'gkmeans'")
    for (view,) in cursor.fetchall():
        columns = columns_of(driver, cursor, view)
        for name, kind in columns:
            tell("column", view, name, kind)
        cursor.execute(f"SELECT * FROM gkmeans.{view}")
        for row in cursor.fetchall():
            for (name, _), value in zip(columns, row):
                tell("value", view, shown(row[0]), name, shown(value))


def call(driver, connection, name, query, parameters):
    """One call with parameters; an error is told with its SQLSTATE."""
    cursor = connection.cursor()
    try:
        cursor.execute(query if driver == "pyodbc" else query.replace("?", "%s"), parameters)
        tell(name, "|".join(shown(value) for value in cursor.fetchone()))
    except importlib.import_module(driver).Error as error:
        state, message = error.args if driver == "pyodbc" else (error.diag.sqlstate, error.diag.message_primary)
        tell(name, state, re.sub(r".*ERROR: |;\n.*", "", message, flags=re.DOTALL))
    connection.rollback()


def scores(driver, connection):
    """Scores with parameters, so often that the server prepares the statements."""
    for i in range(1, 13):
        spent, visits = i * 7.25, i % 5
        features = f"{{{spent},{visits}}}" if driver == "pyodbc" else [spent, float(visits)]
        call(driver, connection, f"array {i}",
             "SELECT gkmeans_predict(?::regclass, ?::float8[]), gkmeans_distance(?::regclass, ?::float8[])",
             (MODEL, features) * 2)
        call(driver, connection, f"columns {i}", "SELECT gkmeans_name(?::regclass, ?::float8, ?::int)",
             (MODEL, spent, visits))
    for name, query, parameters in CALLS:
        call(driver, connection, name, query, parameters)


def main():
    driver = sys.argv[1]
    if len(sys.argv) == 2:
        require(driver)
        return
    connection = connect(driver, *sys.argv[2:])
    cursor = connection.cursor()
    cursor.execute("SET timezone = 'UTC'")
    connection.commit()
    views(driver, cursor)
    scores(driver, connection)


main()
