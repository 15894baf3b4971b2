#!/usr/bin/python3
"""Cancels fits of tied rows at random times, in several sessions at once.

No session may end, nothing may fail in another way, nothing may be left, and the answers afterwards are those of the CPU
engine. Prints TAP, and how late the cancels were as a comment. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE.
--cancels 500 --engine cuda is how it runs on a host with a GPU.
"""
import argparse
import random
import threading
import time

import psycopg2
from psycopg2.errors import QueryCanceled

# small integers in many features: whole clusters of rows lie equally far from several centroids
TIED = """
CREATE TABLE tied AS SELECT i AS id, (SELECT array_agg((abs(hashint8(i * 64 + j)) % 4)::real) FROM generate_series(1, {features}) j) AS v
FROM generate_series(1, {rows}) i;
CREATE TABLE columns AS SELECT i AS id, i % 5 AS x, i / 5 % 7 AS y, i / 35 % 3 AS z FROM generate_series(1, {rows} * 10) i;
"""

FITS = [
    "SELECT count(*) FROM gkmeans_fit('tied', '{v}', %(many)s, quality => 'fast')",
    "SELECT count(*) FROM gkmeans_fit('tied', '{v}', %(many)s, init => 'random', tol => 0, max_iter => 1000, n_init => 3)",
    "SELECT count(*) FROM gkmeans_fit('tied', '{v}', %(few)s, quality => 'best')",
    "SELECT count(*) FROM gkmeans_fit_predict(NULL::bigint, 'columns', '{x,y,z}', %(few)s, id_column => 'id', n_init => 20)",
]

ANSWERS = """
SELECT md5(string_agg(f::text, ';' ORDER BY f::text)) FROM gkmeans_fit('tied', '{v}', 50, max_iter => 5) f
UNION ALL
SELECT md5(string_agg(f::text, ';' ORDER BY f::text)) FROM gkmeans_fit_predict(NULL::bigint, 'columns', '{x,y,z}', 9, id_column => 'id') f
"""


class Session:
    """A session whose fits are cancelled, and what was seen of it."""

    def __init__(self, options, seed):
        self.options = options
        self.random = random.Random(seed)
        self.connection = psycopg2.connect("")
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute("SET client_min_messages = error")
        if options.engine:
            self.cursor.execute("SET gkmeans.engine = %s", [options.engine])
        self.values = {"many": options.rows // 7, "few": 20}
        self.cancelled = self.ended = 0
        self.late = 0.0
        self.problem = self.answers = self.left = None

    def fit(self, query, milliseconds):
        """Runs a fit with this timeout, and counts how it ended; its seconds."""
        self.cursor.execute("SET statement_timeout = %s", [milliseconds])
        began = time.monotonic()
        try:
            self.cursor.execute(query, self.values)
            self.ended += 1
        except QueryCanceled:
            self.cancelled += 1
            self.late = max(self.late, time.monotonic() - began - milliseconds / 1000)
        seconds = time.monotonic() - began
        self.end_timeout()
        return seconds

    def end_timeout(self):
        """Ends the timeout of the session; a timeout of 1 ms can cancel this statement too."""
        while True:
            try:
                return self.cursor.execute("SET statement_timeout = 0")
            except QueryCanceled:
                pass

    def cancel(self, count):
        """Cancels random fits within the time that they take, until there were so many cancels."""
        lasts = [self.fit(query, self.options.longest) for query in FITS]
        tries = 0
        while self.cancelled < count and tries < 20 * count + 20:
            number = self.random.randrange(len(FITS))
            seconds = self.fit(FITS[number], self.random.randint(1, max(1, int(lasts[number] * 1000))))
            lasts[number] = max(seconds, lasts[number])
            tries += 1

    def run(self, count):
        """The whole of it; what goes wrong is kept."""
        try:
            self.cancel(count)
            self.cursor.execute(ANSWERS)
            self.answers = self.cursor.fetchall()
            self.left = left(self.cursor)
        except psycopg2.Error as error:
            self.problem = f"{error.pgcode} {error}".strip().replace("\n", " ")


def left(cursor):
    """What the fits of a session still hold."""
    cursor.execute("SELECT kind, device, bytes FROM gkmeans_memory() WHERE bytes > 0")
    return cursor.fetchall()


def ok(number, is_ok, name):
    """A line of TAP."""
    print(f"{'ok' if is_ok else 'not ok'} {number} - {name}", flush=True)


def main():
    """Makes the rows, runs the sessions, and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cancels", type=int, default=40)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--longest", type=int, default=1500, help="no timeout is longer than so many milliseconds")
    parser.add_argument("--engine", help="gkmeans.engine of the sessions")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"# seed {options.seed}", flush=True)
    calm = Session(options, 0)
    calm.cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans; DROP TABLE IF EXISTS tied, columns")
    calm.cursor.execute(TIED.format(rows=options.rows, features=options.features))
    calm.cursor.execute("VACUUM ANALYZE tied; ")
    sessions = [Session(options, options.seed + 1 + i) for i in range(options.sessions)]
    threads = [threading.Thread(target=session.run, args=(-(-options.cancels // options.sessions),)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cancelled = sum(session.cancelled for session in sessions)
    problems = [session.problem for session in sessions if session.problem]
    print(f"# {sum(session.ended for session in sessions)} fits ended before their timeout; the latest cancel ended"
          f" {max(session.late for session in sessions) * 1000:.0f} ms after it", flush=True)
    ok(1, not problems and cancelled >= options.cancels, f"{cancelled} cancels, no session ended, nothing failed {problems or ''}")
    calm.cursor.execute("SET gkmeans.engine = cpu")
    calm.cursor.execute(ANSWERS)
    answers = calm.cursor.fetchall()
    ok(2, all(session.answers == answers for session in sessions), "answers afterwards are those of the CPU engine")
    remains = [session.left for session in sessions if session.left != []]
    calm.cursor.execute("SELECT * FROM gkmeans_sessions()")
    remains += calm.cursor.fetchall()
    ok(3, not remains, f"nothing is left in any session {remains or ''}")
    print("1..3")


main()
