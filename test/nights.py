#!/usr/bin/python3
"""Nightly refreshes of a model over data that drifts and breaks, and of many models by several sessions at once.

Numbers and names stay, the break is seen, nothing fails, and memory is bounded. Prints TAP, and what it saw as comments.
Connects by PGHOST, PGPORT, PGUSER and PGDATABASE to a server of this machine. --nights 365 --models 200 is a year of it.
"""
import argparse
import os
import random
import statistics
import threading
import time

import psycopg2

SESSIONS = 4
PASSES = 3
GROUPS = ["champions", "regulars", "newcomers", "dormant", "browsers"]
# recency, frequency and monetary of the groups, far enough apart for k-means to tell them
CENTERS = [(5, 60, 900), (20, 30, 400), (10, 5, 100), (200, 3, 60), (60, 45, 30)]
ROWS = 1500


class Test:
    """TAP."""

    def __init__(self):
        self.count = 0

    def ok(self, is_ok, name):
        """One test."""
        self.count += 1
        print(f"{'ok' if is_ok else 'not ok'} {self.count} - {name}", flush=True)


def connect():
    """A session in which each statement is a transaction."""
    connection = psycopg2.connect("")
    connection.autocommit = True
    return connection.cursor()


def ask(cursor, query, *values):
    """The rows of a query."""
    cursor.execute(query, values or None)
    return cursor.fetchall()


def resident_kb(cursor):
    """Memory of a backend of its own."""
    pid = ask(cursor, "SELECT pg_backend_pid()")[0][0]
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))


class Shop:
    """A table of customers that changes from night to night."""

    def __init__(self, cursor, nights):
        self.cursor = cursor
        self.random = random.Random(7)
        self.weights = [30.0, 25.0, 20.0, 15.0, 10.0]
        self.centers = [list(center) for center in CENTERS]
        self.break_night = nights * 3 // 5
        self.unit = 1.0
        self.unknown = 0.0
        cursor.execute("CREATE TABLE customers (id int PRIMARY KEY, kind int, recency float8, frequency float8, monetary float8)")
        self.fill()

    def row(self, number):
        """A customer."""
        kind = self.random.choices(range(len(GROUPS)), self.weights)[0]
        recency, frequency, monetary = (self.random.gauss(mean, 0.04 * scale) for mean, scale in zip(self.centers[kind], (200, 60, 900)))
        if self.random.random() < self.unknown:
            frequency = None
        return number, kind, recency, frequency, monetary * self.unit

    def fill(self):
        """Makes all rows anew."""
        self.cursor.execute("TRUNCATE customers")
        self.put([self.row(number) for number in range(ROWS)])

    def put(self, rows):
        """Writes rows."""
        values = ",".join(self.cursor.mogrify("(%s,%s,%s,%s,%s)", row).decode() for row in rows)
        self.cursor.execute(f"INSERT INTO customers VALUES {values} ON CONFLICT (id) DO UPDATE SET kind = excluded.kind,"
                            " recency = excluded.recency, frequency = excluded.frequency, monetary = excluded.monetary")

    def night(self, number):
        """A tenth of the rows changes; the groups grow, shrink and move a little, until one night they change at once."""
        for i, weight in enumerate(self.weights):
            self.weights[i] = min(40.0, max(8.0, weight * self.random.uniform(0.88, 1.135)))
            for j, scale in enumerate((200, 60, 900)):
                self.centers[i][j] += self.random.uniform(-0.0008, 0.0008) * scale
        if number == self.break_night:
            self.weights = list(reversed(self.weights))
            self.weights[0] = 5.0
            self.unit = 1.6
            self.unknown = 0.1
            self.fill()
            return
        rows = [self.row(self.random.randrange(ROWS)) for _ in range(ROWS // 10)]
        self.put({row[0]: row for row in rows}.values())


def live(test, nights):
    """A model that is refreshed every night."""
    cursor = connect()
    cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans")
    shop = Shop(cursor, nights)
    ask(cursor, "SELECT count(*) FROM gkmeans_create_model('segments', 'customers', '{recency,frequency,monetary}', 5, scale => 'standard',"
                " id_column => 'id', labels_table => 'segment_labels', n_init => 5)")
    kinds = "SELECT c.kind, gkmeans_predict('segments', c), gkmeans_name('segments', c), count(*) FROM customers c WHERE frequency IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 4 DESC"
    numbers = {}
    for kind, cluster, _, _ in ask(cursor, kinds):
        numbers.setdefault(cluster, GROUPS[kind])
    ask(cursor, "SELECT gkmeans_name_clusters('segments', %s)", [numbers[c] for c in range(len(GROUPS))])
    strays = 0
    orders = set()
    began = time.time()
    for night in range(nights):
        shop.night(night)
        cursor.execute("CALL gkmeans_refresh('segments')")
        for kind, cluster, name, rows in ask(cursor, kinds):
            if (GROUPS[kind], GROUPS[kind]) != (numbers[cluster], name):
                strays += rows
        orders.add(tuple(row[0] for row in ask(cursor, "SELECT cluster_id FROM gkmeans_clusters('segments') ORDER BY size DESC, 1")))
    seconds = time.time() - began
    report(test, cursor, shop, nights, strays, orders)
    size, indexes, versions = ask(cursor, "SELECT pg_table_size('segments'), pg_indexes_size('segments'), count(*) FROM segments")[0]
    print(f"# {nights} nights in {seconds:.0f} s; {versions} versions: table {size >> 10} kB, indexes {indexes >> 10} kB,"
          f" a version {size // versions} bytes; the backend has {resident_kb(cursor)} kB")
    test.ok(size / versions < 40000, "a version takes at most 40 kB")


def report(test, cursor, shop, nights, strays, orders):
    """What is known after the last night."""
    statuses = dict(ask(cursor, "SELECT status, count(*)::int FROM gkmeans.versions WHERE model = 'public.segments' GROUP BY 1"))
    print(f"# {statuses}, {len(orders)} orders of the sizes, {strays} rows of {nights * ROWS} in the cluster of another kind")
    test.ok(sum(statuses.values()) == nights + 1 and set(statuses) <= {"fitted", "rejected"}, f"{nights} nights, none failed")
    test.ok(strays <= nights * ROWS * 0.002, "numbers and names stay with the kinds of customers")
    test.ok(len(orders) > 2, "while the sizes change their order")
    psis = ask(cursor, "SELECT version - 2, psi FROM gkmeans.versions WHERE model = 'public.segments' AND version > 1 ORDER BY psi DESC")
    print(f"# psi: {psis[0][1]:.3f} in night {psis[0][0]}, then {', '.join(f'{psi:.4f}' for _, psi in psis[1:4])}")
    test.ok(psis[0][0] == shop.break_night and psis[0][1] > 0.25, "the break has the greatest psi, above 0.25")
    test.ok(psis[1][1] < 0.1, "every other night is below 0.1")
    shifts = ask(cursor, "SELECT version - 2, f ->> 'feature', (f ->> 'shift')::float8, (f ->> 'deviation_ratio')::float8 FROM segments,"
                         " jsonb_array_elements(drift -> 'features') f ORDER BY abs((f ->> 'shift')::float8) DESC")
    unusable = ask(cursor, "SELECT version - 2, f ->> 'feature', (f ->> 'unusable_now')::float8 FROM segments,"
                           " jsonb_array_elements(drift -> 'features') f WHERE f ->> 'unusable_now' <> '0' ORDER BY version")
    print(f"# feature drift: {shifts[0]}, {unusable[0]}")
    test.ok(shifts[0][0] == shop.break_night, "the greatest shift of a feature is that of the break")
    test.ok(unusable[0][:2] == (shop.break_night, "frequency") and 0.05 < unusable[0][2] < 0.2, "so are values that are missing from then on")
    same, rows = ask(cursor, "SELECT count(*) FILTER (WHERE l.cluster_id IS NOT DISTINCT FROM gkmeans_predict('segments', c)), count(*)"
                             " FROM customers c JOIN segment_labels l USING (id)")[0]
    test.ok(same == rows == ROWS, "the labels are those of the deployed version")
    points = ask(cursor, "SELECT count(DISTINCT version), sum(share_now) FROM gkmeans.drift WHERE model = 'public.segments'")[0]
    test.ok(points[0] == nights and abs(points[1] - nights) < 1e-6, "gkmeans.drift has every night")


def refresh_all(models, seed, errors, memory):
    """One of the sessions that refresh all models, each in an order of its own, again and again."""
    cursor = connect()
    order = random.Random(seed)
    numbers = list(range(models))
    memory[seed] = []
    for _ in range(PASSES):
        order.shuffle(numbers)
        for number in numbers:
            try:
                cursor.execute(f"CALL gkmeans_refresh('many.m{number}', deploy => 'always')")
            except psycopg2.Error as error:
                errors.append(str(error))
        memory[seed].append(resident_kb(cursor))


def crowd(test, models):
    """Many models, and sessions that refresh all of them at once."""
    cursor = connect()
    cursor.execute("CREATE SCHEMA many; CREATE TABLE many.rows AS SELECT i AS id, i % 4 * 10 + random() AS x, random() AS y FROM generate_series(1, 1000) i")
    for number in range(models):
        ask(cursor, f"SELECT count(*) FROM gkmeans_create_model('many.m{number}', 'many.rows', '{{x,y}}', 4, id_column => 'id', labels_table => 'many.l{number}')")
    errors = []
    memory = {}
    began = time.time()
    threads = [threading.Thread(target=refresh_all, args=(models, seed, errors, memory)) for seed in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refreshes = models * SESSIONS * PASSES
    print(f"# {models} models by {SESSIONS} sessions: {refreshes} refreshes in {time.time() - began:.0f} s;"
          f" memory of the sessions after each pass over the models, in kB: {list(memory.values())}")
    test.ok(not errors, f"{refreshes} refreshes of {models} models by {SESSIONS} sessions: none failed{''.join(errors[:1])}")
    statuses = ask(cursor, "SELECT DISTINCT status FROM gkmeans.versions WHERE model LIKE 'many.%'")
    counts = ask(cursor, "SELECT min(versions), max(versions), count(*) FROM gkmeans.models WHERE schema_name = 'many'")
    versions = 1 + SESSIONS * PASSES
    test.ok(statuses == [("fitted",)] and counts == [(versions, versions, models)], "each model has a version of each refresh")
    # what PostgreSQL knows of the tables comes with the first pass; versions that were read stay in the cache of models
    # a leak shows in each pass of each session; the C library keeps what was freed once, 11 MB in some pass
    growth = statistics.median(min(after - before for before, after in zip(kb, kb[1:])) for kb in memory.values())
    test.ok(growth < 1000 + 10 * models, "the memory of the sessions does not grow with further passes")
    test.ok(max(max(kb) for kb in memory.values()) < 100000 + 20 * models, "none of them takes much")
    test.ok(ask(cursor, "SELECT count(*) FROM gkmeans_sessions()") == [(0,)], "none holds memory of a fit")


def main():
    """Runs both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--models", type=int, default=8)
    options = parser.parse_args()
    os.environ.setdefault("PGOPTIONS", "-c client_min_messages=error")
    test = Test()
    live(test, options.nights)
    crowd(test, options.models)
    print(f"1..{test.count}")


if __name__ == "__main__":
    main()
