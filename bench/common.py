"""Shared by the SQL benchmarks: a session on the server that PGHOST and PGPORT name, and a count of the targets missed."""

import time

import psycopg2
import psycopg2.extensions

# float8[] as text, so that the time of a call does not include a client's parser
RAW_ARRAY = psycopg2.extensions.new_type((1022,), "RAW_ARRAY", lambda value, cursor: value)


class Session:
    """A connection with the extension in it."""

    def __init__(self):
        self.connection = psycopg2.connect("")
        self.connection.autocommit = True
        psycopg2.extensions.register_type(RAW_ARRAY, self.connection)
        self.cursor = self.connection.cursor()
        self.cursor.execute("SET client_min_messages = error")
        self.cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans")

    def query(self, text, *values):
        self.cursor.execute(text, values)
        return self.cursor.fetchall()

    def timed(self, text, *values):
        started = time.perf_counter()
        answer = self.query(text, *values)
        return time.perf_counter() - started, answer

    def last_fit(self, columns):
        """One value for one column, else a tuple."""
        row = self.query(f"SELECT {columns} FROM gkmeans_last_fit()")[0]
        return row[0] if len(row) == 1 else row

    def processor_seconds(self):
        """How long the backend has run on a processor."""
        with open(f"/proc/{self.connection.get_backend_pid()}/schedstat") as line:
            return int(line.read().split()[0]) / 1e9

    def own_memory(self):
        """Anonymous memory of the backend in bytes: without the shared buffers that it has touched."""
        with open(f"/proc/{self.connection.get_backend_pid()}/status") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


class Bench(Session):
    """A session that counts what was not met."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.failures = 0

    def verdict(self, good):
        self.failures += not good
        return "yes" if good else "**no**"

    def finish(self):
        """The last line, and the exit status."""
        print("everything met" if self.failures == 0 else f"{self.failures} not met")
        return self.failures > 0
