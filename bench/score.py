"""Scoring benchmark: gkmeans_predict and its family in SQL, as ratios to a plain scan of the same rows.

Connects to the server that PGHOST and PGPORT name (bench/run score starts one), creates its tables
there, prints Markdown tables, and checks the labels that it timed.  Everything runs on one core; times
are the backend's own on a processor, so other work on the machine counts as little as it can.
With the module of test/modules it times every instruction set that the machine has.
"""

import argparse
import statistics
import sys

import numpy as np

from common import Bench

SEED = 20
STATEMENTS = 1000               # of one round of single statements
LISTED = 1000                   # models, or versions of one


class ScoreBench(Bench):
    """Tables and models, then one table of figures after the other."""

    def __init__(self, options):
        super().__init__(options)
        self.query_none("SET max_parallel_workers_per_gather = 0")
        self.query_none("SET jit = off")
        self.vectors = self.find_vectors()

    def query_none(self, text, *values):
        self.cursor.execute(text, values)

    def find_vectors(self):
        """The instruction sets that can be chosen: the first is what users get."""
        try:
            self.query_none("LOAD 'gkmeans_faults'")
        except Exception:
            return [None]
        found = []
        self.query_none("CREATE TEMP TABLE one AS SELECT ARRAY[1, 2]::real[] AS v")
        self.query("SELECT gkmeans_import_model('probe', '{{1,1},{2,2}}', if_exists => 'replace')")
        for name in ("avx512", "avx2", "plain"):
            self.query_none(f"SET gkmeans.vectors = {name}")
            try:
                self.query("SELECT gkmeans_predict('probe', v) FROM one")
                found.append(name)
            except Exception:
                pass
        self.query_none("RESET gkmeans.vectors")
        self.query_none("DROP TABLE probe")
        return found

    def use(self, vectors):
        if vectors is not None:
            self.query_none(f"SET gkmeans.vectors = {vectors}")

    def timed(self, text, *values):
        started = self.processor_seconds()
        answer = self.query(text, *values)
        return self.processor_seconds() - started, answer

    # what is scored

    def make_tables(self):
        n = self.options.rows
        self.query_none("SELECT setseed(0.5)")
        self.query_none("DROP TABLE IF EXISTS score_arrays, score_columns, score_few")
        self.query_none(f"""CREATE TABLE score_arrays AS SELECT i AS id,
            (SELECT array_agg((random() * 10)::real) FROM generate_series(1, 32 + 0 * i)) AS v
            FROM generate_series(1, {n}) i""")
        columns = ", ".join(f"random() * 10 AS c{j}" for j in range(8))
        self.query_none(f"CREATE TABLE score_columns AS SELECT i AS id, {columns} FROM generate_series(1, {n}) i")
        for table in ("score_arrays", "score_columns"):
            self.query_none(f"VACUUM (ANALYZE, FREEZE) {table}")

    def make_model(self, name, k, d, features=None):
        random = np.random.default_rng(SEED + k)
        centroids = random.random((k, d)) * 10
        self.query_none(f"DROP TABLE IF EXISTS {name}")
        text = "{" + ",".join("{" + ",".join(repr(float(x)) for x in row) + "}" for row in centroids) + "}"
        self.query("SELECT gkmeans_import_model(%s, %s::float8[], features => %s)", name, text, features)
        return centroids

    # figures

    def best(self, text):
        """The least seconds of some runs."""
        return min(self.timed(text)[0] for _ in range(self.options.repeat))

    def check_labels(self, call, table, rows, centroids):
        """Whether the labels of the first rows are those of NumPy in double precision."""
        got = self.query(f"SELECT {rows}, {call} FROM {table} t ORDER BY id LIMIT 2000")
        x = np.array([[float(np.float32(value)) for value in row[0].strip("{}").split(",")] for row in got])
        near = ((x[:, None, :] - centroids[None, :, :]) ** 2).sum(axis=2)
        labels = np.array([row[1] for row in got])
        return bool(np.all(near[np.arange(len(x)), labels] <= near.min(axis=1) * (1 + 1e-12)))

    def scan_row(self, what, vectors, call, table, counted, target, rows, centroids):
        """One line: a call over a whole table, against count() of the same scan."""
        self.use(vectors)
        right = self.check_labels(call, table, rows, centroids)
        plain = self.best(f"SELECT count({counted}) FROM {table} t")
        seconds = self.best(f"SELECT count({call}) FROM {table} t")
        rate = self.options.rows / seconds
        met = self.verdict(right and (target is None or rate >= target * 1e6))
        print(f"| {what} | {vectors or 'best'} | {plain * 1e3:.0f} ms | {seconds * 1e3:.0f} ms | {seconds / plain:.1f} |"
              f" {rate / 1e6:.2f}M | {'' if target is None else f'{target:g}M'} | {met} |", flush=True)

    def scans(self):
        names = ",".join(f"c{j}" for j in range(8))
        arrays = "v::float8[]"
        columns = "ARRAY[" + names + "]::float8[]"
        models = [
            ("score_100", 100, 32, None, "k 100, d 32, `real[]`", "gkmeans_predict('score_100', v)", "score_arrays", "v", arrays, 1),
            ("score_1000", 1000, 32, None, "k 1000, d 32, `real[]`", "gkmeans_predict('score_1000', v)", "score_arrays", "v", arrays, None),
            ("score_4096", 4096, 32, None, "k 4096, d 32, `real[]` (1 MB)", "gkmeans_predict('score_4096', v)", "score_arrays", "v", arrays, None),
            ("score_10", 10, 8, "{" + names + "}", "k 10, eight columns", f"gkmeans_predict('score_10', {names})", "score_columns", "c7", columns, 4),
            ("score_10", 10, 8, "{" + names + "}", "the same as a row", "gkmeans_predict('score_10', t)", "score_columns", "t", columns, 2),
        ]
        print("| scored | vectors | `count` of the scan | with gkmeans_predict | ratio | rows a second | target | met |")
        print("|---|---|---|---|---|---|---|---|")
        for name, k, d, features, what, call, table, counted, rows, target in models:
            centroids = self.make_model(name, k, d, features)
            for vectors in self.vectors:
                aim = target if vectors in (None, self.vectors[0], "avx2") else None
                self.scan_row(what, vectors, call, table, counted, aim, rows, centroids)
        self.use(self.vectors[0])

    def family(self):
        """The other scoring functions, once each."""
        names = ",".join(f"c{j}" for j in range(8))
        plain = self.best("SELECT count(c7) FROM score_columns t")
        print("\n| function, k 10, eight columns | ratio to `count` | rows a second |")
        print("|---|---|---|")
        for call in ("gkmeans_distance", "gkmeans_transform", "gkmeans_name", "gkmeans_anomaly_score"):
            seconds = self.best(f"SELECT count({call}('score_10', {names})) FROM score_columns t")
            print(f"| {call} | {seconds / plain:.1f} | {self.options.rows / seconds / 1e6:.2f}M |", flush=True)
        seconds = self.best("SELECT count(s.cluster_id) FROM score_columns t, LATERAL gkmeans_score('score_10', t) s")
        print(f"| gkmeans_score, LATERAL, a row | {seconds / plain:.1f} | {self.options.rows / seconds / 1e6:.2f}M |")

    def statement(self, text):
        """Microseconds of a statement: the median of rounds of many in one message."""
        message = ";".join([text] * STATEMENTS)
        return statistics.median(self.timed(message)[0] for _ in range(self.options.repeat * 3)) / STATEMENTS * 1e6

    def statements(self):
        ones = "ARRAY[" + ",".join(["1"] * 32) + "]::real[]"
        self.query_none("PREPARE nothing AS SELECT 1")
        self.query_none(f"PREPARE small AS SELECT gkmeans_predict('score_100', {ones})")
        self.query_none(f"PREPARE large AS SELECT gkmeans_predict('score_4096', {ones})")
        self.query_none("DROP TABLE IF EXISTS score_versions")
        self.query("SELECT count(gkmeans_import_model('score_versions', gkmeans_centroids('score_100'), if_exists => 'replace'))"
                   f" FROM generate_series(1, {LISTED})")
        self.query_none(f"PREPARE versions AS SELECT gkmeans_predict('score_versions', {ones})")
        print("\n| one statement for one row | microseconds | above `SELECT 1` | target | met |")
        print("|---|---|---|---|---|")
        for what, text, base, target in (
                ("k 100, d 32, prepared", "EXECUTE small", "EXECUTE nothing", 5),
                (f"the same, the last of {LISTED} versions", "EXECUTE versions", "EXECUTE nothing", 5),
                ("k 4096, d 32 (1 MB), prepared", "EXECUTE large", "EXECUTE nothing", 15),
                ("k 100, d 32, as text", f"SELECT gkmeans_predict('score_100', {ones})", "SELECT 1", None),
                ("k 4096, d 32, as text", f"SELECT gkmeans_predict('score_4096', {ones})", "SELECT 1", None)):
            nothing = self.statement(base)
            microseconds = self.statement(text)
            above = microseconds - nothing
            met = "" if target is None else self.verdict(above <= target)
            print(f"| {what} | {microseconds:.1f} | {above:.1f} | {target or ''} | {met} |", flush=True)

    def list_models(self):
        self.query_none("DROP SCHEMA IF EXISTS score_models CASCADE")
        self.query_none("CREATE SCHEMA score_models")
        for start in range(0, LISTED, 50):
            self.query(f"SELECT gkmeans_import_model('score_models.m' || i, '{{{{1,1}},{{2,2}}}}') FROM generate_series({start + 1}, {start + 50}) i")
        self.query_none("ANALYZE")
        first, _ = self.timed("SELECT count(*) FROM gkmeans.models")
        seconds = self.best("SELECT * FROM gkmeans.models")
        listed = self.query("SELECT count(*) FROM gkmeans.models WHERE schema_name = 'score_models'")[0][0]
        met = self.verdict(listed == LISTED and seconds <= 0.1)
        print(f"\n{listed} models in gkmeans.models: {seconds * 1e3:.0f} ms (the first time {first * 1e3:.0f} ms),"
              f" target 100 ms: {met}")
        for start in range(0, LISTED, 100):
            for i in range(start + 1, start + 101):
                self.query_none(f"DROP TABLE score_models.m{i}")
        self.query_none("DROP SCHEMA score_models")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    bench = ScoreBench(parser.parse_args())
    bench.make_tables()
    bench.scans()
    bench.family()
    bench.statements()
    bench.list_models()
    sys.exit(bench.finish())


main()
