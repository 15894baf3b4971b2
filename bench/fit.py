"""End-to-end benchmark: whole gkmeans calls against scikit-learn, PostGIS and a plain scan.

Connects to the server that PGHOST and PGPORT name (bench/run starts one), creates its tables
there, prints Markdown tables, and checks the results that it timed.
"""

import argparse
import io
import os
import statistics
import sys
import threading
import time

import numpy as np
from sklearn.cluster import KMeans

import real_sets
from common import Bench, Session

ITERATIONS = 12
# sets of real_sets whose seeding is timed, and what share of their rows
SEEDED = {"normal 128": 1, "SIFT": 1, "embeddings 128": 1, "50 blobs": 1, "blobs as many as k": 1, "outliers": 1,
          "customers": 0.5, "sensors": 0.5, "places": 0.5}
PARTS = ["speed", "postgis", "reading", "memory", "columns", "types", "small", "seeding"]
# rows, features, clusters, required ratio on normal data, on blobs
SHAPES = [
    (200_000, 128, 256, 1.0, 2.0),
    (1_000_000, 32, 100, 1.3, 2.0),
    (2_000_000, 8, 16, 2.0, 2.0),
    (500_000, 2, 50, 2.0, 2.0),
]


def normal_rows(n, d, k, random):
    """Standard normal noise: no clusters at all, the hard case."""
    return random.standard_normal((n, d), dtype=np.float32)


def blob_rows(n, d, k, random):
    """As many normal blobs as clusters, the centers at least 20 standard deviations apart."""
    centers = []
    side = 20.0 * 2.5 * k ** (1.0 / min(d, 4))
    while len(centers) < k:
        center = random.uniform(-side / 2, side / 2, d)
        if all(np.sum((center - other) ** 2) >= 400.0 for other in centers):
            centers.append(center)
    rows = np.array(centers, dtype=np.float32)[random.integers(k, size=n)]
    rows += random.standard_normal((n, d), dtype=np.float32)
    return rows


class Chunks:
    """The rows of an array as a stream of COPY BINARY."""

    def __init__(self, rows, as_array):
        self.parts = self.encode(rows, as_array)
        self.part = io.BytesIO()

    @staticmethod
    def encode(rows, as_array):
        d = rows.shape[1]
        element = [("length", ">i4"), ("value", ">f4")]
        head = [("fields", ">i2"), ("id_length", ">i4"), ("id", ">i4")]
        if as_array:
            head += [(name, ">i4") for name in ("bytes", "dimensions", "nulls", "type", "size", "lower")]
        row_type = np.dtype(head + [("features", element, (d,))])
        yield b"PGCOPY\n\xff\r\n\0" + bytes(8)
        for start in range(0, len(rows), 20_000):
            part = rows[start:start + 20_000]
            out = np.zeros(len(part), row_type)
            out["fields"] = 2 if as_array else 1 + d
            out["id_length"] = 4
            out["id"] = np.arange(start, start + len(part))
            if as_array:
                out["bytes"], out["dimensions"], out["type"] = 20 + 8 * d, 1, 700
                out["size"], out["lower"] = d, 1
            out["features"]["length"] = 4
            out["features"]["value"] = part
            yield out.tobytes()
        yield b"\xff\xff"

    def read(self, size=-1):
        piece = self.part.read(size)
        if not piece:
            self.part = io.BytesIO(next(self.parts, b""))
            piece = self.part.read(size)
        return piece


class FitBench(Bench):
    def load(self, rows, as_array):
        """Makes the table `rows` with these rows, all of it in the cache."""
        columns = "features real[]" if as_array else ", ".join(f"f{j} real" for j in range(rows.shape[1]))
        self.cursor.execute("DROP TABLE IF EXISTS rows")
        self.cursor.execute(f"CREATE UNLOGGED TABLE rows (id int, {columns})")
        if as_array:
            self.cursor.execute("ALTER TABLE rows ALTER features SET STORAGE PLAIN")
        self.cursor.copy_expert("COPY rows FROM STDIN (FORMAT binary)", Chunks(rows, as_array), 1 << 20)
        self.cursor.execute("VACUUM ANALYZE rows")
        self.query("SELECT count(*) FROM rows")
        return "{features}" if as_array else "{" + ",".join(f"f{j}" for j in range(rows.shape[1])) + "}"

    def compare(self, name, shape, make_rows, required):
        """One line: the same iterations by scikit-learn and by gkmeans."""
        n, d, k = shape
        random = np.random.default_rng(20_000 + d)
        rows = make_rows(n, d, k, random)
        initial = rows[random.choice(n, k, replace=False)]
        features = self.load(rows, as_array=d >= 16)
        given = "{" + ",".join("{" + ",".join(repr(float(x)) for x in row) + "}" for row in initial) + "}"
        call = (f"SELECT * FROM gkmeans_fit('rows', '{features}', {k}, initial_centroids => %s::float8[],"
                f" max_iter => {ITERATIONS}, tol => 0)")

        theirs, ours = [], []
        for _ in range(self.options.repeats):
            model = KMeans(k, init=initial, n_init=1, max_iter=ITERATIONS, tol=0, algorithm="lloyd")
            started = time.perf_counter()
            model.fit(rows)
            theirs.append(time.perf_counter() - started)
            seconds, clusters = self.timed(call, given)
            ours.append(seconds)
        inertia = sum(cluster[4] for cluster in clusters)
        iterations = self.last_fit("iterations")
        phases = self.query("SELECT read_seconds, prepare_seconds + seed_seconds, iterate_seconds, label_seconds FROM gkmeans_last_fit()")[0]
        their, our = statistics.median(theirs), statistics.median(ours)

        # the reference is scikit-learn in double: in float32, which is faster, rounding changes some labels
        truth = model.fit(rows.astype(np.float64))
        agreement = self.agreement(features, k, given, truth.labels_)
        exact = truth.inertia_
        good = iterations == truth.n_iter_ and agreement >= 0.9999 and abs(inertia - exact) <= 1e-6 * exact
        print(f"| {n:,} × {d}, k {k} | {name} | {iterations} | {their:.2f} | {our:.2f} |"
              f" {' + '.join(f'{seconds:.2f}' for seconds in phases)} | {their / our:.2f} | {required} |"
              f" {self.verdict(their / our >= required)} | {agreement:.6f} | {inertia / exact - 1:+.1e} |"
              f" {self.verdict(good)} |", flush=True)

    def agreement(self, features, k, given, labels):
        """The share of rows on whose cluster both agree, however the clusters are numbered."""
        answer = self.query(
            "SELECT array_agg(cluster_id ORDER BY id)::text FROM gkmeans_fit_predict(NULL::int, 'rows',"
            f" '{features}', {k}, id_column => 'id', initial_centroids => %s::float8[],"
            f" max_iter => {ITERATIONS}, tol => 0)", given)[0][0]
        ours = np.fromstring(answer[1:-1], dtype=np.int64, sep=",")
        together = np.bincount(ours * k + labels, minlength=k * k).reshape(k, k)
        return together.max(axis=1).sum() / len(labels)

    def speed(self):
        print("| rows, k | data | iterations | scikit-learn s | gkmeans s | read + prepare + iterate + label | ratio |"
              " required | met | labels agree | inertia | right |")
        print("|---|---|--:|--:|--:|--:|--:|--:|---|--:|--:|---|")
        for n, d, k, on_normal, on_blobs in SHAPES:
            shape = (n // self.options.shrink, d, k)
            self.compare("normal", shape, normal_rows, on_normal)
            self.compare("blobs", shape, blob_rows, on_blobs)
        print()

    def postgis(self):
        """PostGIS until no label changes, against gkmeans with tol => 0, labels of all rows included."""
        if not self.query("SELECT 1 FROM pg_available_extensions WHERE name = 'postgis'"):
            print("PostGIS is not installed: left out.\n")
            return
        self.cursor.execute("CREATE EXTENSION IF NOT EXISTS postgis")
        n, k = 500_000 // self.options.shrink, 50
        rows = normal_rows(n, 2, k, np.random.default_rng(7))
        features = self.load(rows, as_array=False)
        self.cursor.execute("DROP TABLE IF EXISTS points, of_postgis, of_gkmeans")
        self.cursor.execute("CREATE UNLOGGED TABLE points AS"
                            " SELECT id, ST_MakePoint(f0, f1) AS point, f0, f1 FROM rows ORDER BY id")
        self.cursor.execute("VACUUM ANALYZE points")
        their, _ = self.timed("CREATE UNLOGGED TABLE of_postgis AS SELECT id, ST_ClusterKMeans(point, 50)"
                              " OVER () AS cluster_id FROM points; SELECT 1")
        our, _ = self.timed("CREATE UNLOGGED TABLE of_gkmeans AS SELECT * FROM gkmeans_fit_predict("
                            f"NULL::int, 'points', '{features}', {k}, id_column => 'id', tol => 0,"
                            " max_iter => 10000, quality => 'fast'); SELECT 1")
        iterations = self.last_fit("iterations")
        inertia = {}
        for who in ("postgis", "gkmeans"):
            inertia[who] = self.query(
                "SELECT sum(s) FROM (SELECT regr_syy(f0, 0) + regr_syy(f1, 0) AS s FROM points"
                f" JOIN of_{who} USING (id) GROUP BY cluster_id) c")[0][0]
        ratio, worse = their / our, inertia["gkmeans"] / inertia["postgis"] - 1
        print("| points, k | PostGIS s | gkmeans s | iterations | ratio | required | met | inertia against PostGIS | not worse |")
        print("|---|--:|--:|--:|--:|--:|---|--:|---|")
        print(f"| {n:,} × 2, k {k} | {their:.2f} | {our:.2f} | {iterations} | {ratio:.1f} | 5 |"
              f" {self.verdict(ratio >= 5)} | {worse:+.2%} | {self.verdict(worse <= 0.005)} |\n", flush=True)

    def reading(self):
        """Rows into the engine against a scan that looks at the same column, with the same workers."""
        n, d = 1_000_000 // self.options.shrink, 128
        rows = normal_rows(n, d, 1, np.random.default_rng(8))
        features = self.load(rows, as_array=True)
        print("| rows | workers | count(features) s | read s | GB/s | ratio | allowed | met |")
        print("|---|--:|--:|--:|--:|--:|--:|---|")
        for workers in (0, 1, 2):
            self.cursor.execute(f"SET max_parallel_workers_per_gather = {workers}")
            scans, reads = [], []
            # many, and two to warm up: a hypervisor is slow to return memory that it has reclaimed
            for _ in range(2 + max(9, self.options.repeats)):
                scans.append(self.timed("SELECT count(features) FROM rows")[0])
                self.query(f"SELECT size FROM gkmeans_fit('rows', '{features}', 1, max_iter => 1)")
                reads.append(self.last_fit("read_seconds"))
            scan, read = statistics.median(scans[2:]), statistics.median(reads[2:])
            print(f"| {n:,} × {d} real[], PLAIN, cached | {workers} | {scan:.3f} | {read:.3f} |"
                  f" {n * d * 4 / read / 1e9:.2f} | {read / scan:.2f} | 2.5 | {self.verdict(read / scan <= 2.5)} |",
                  flush=True)
        self.cursor.execute("RESET max_parallel_workers_per_gather")
        print()

    def compare_reading(self, name, source, features, beside, workers):
        """One line: rows into the engine against another look at the same columns, in turns."""
        self.cursor.execute(f"SET max_parallel_workers_per_gather = {workers}")
        others, reads, on_processor = [], [], []
        for _ in range(2 + max(9, self.options.repeats)):
            began = self.processor_seconds()
            others.append(self.timed(f"SELECT {beside} FROM {source}")[0])
            between = self.processor_seconds()
            self.query(f"SELECT size FROM gkmeans_fit('{source}', '{features}', 1, max_iter => 1, quality => 'fast')")
            on_processor.append((between - began, self.processor_seconds() - between))
            reads.append(self.last_fit("read_seconds"))
        self.cursor.execute("RESET max_parallel_workers_per_gather")
        other, read = statistics.median(others[2:]), statistics.median(reads[2:])
        alone, own = (min(part) for part in zip(*on_processor[2:]))
        # the threads of the engine are not counted, and the fit of one cluster takes the backend itself no time
        ratio = own / alone if workers == 0 else read / other
        print(f"| {name} | {workers} | {other:.3f} | {read:.3f} | {read / other:.2f} |"
              + (f" {alone:.3f} | {own:.3f} | {ratio:.2f} |" if workers == 0 else " | | |")
              + f" 1.5 | {self.verdict(ratio <= 1.5)} |", flush=True)

    def columns(self):
        """Columns into the engine against their sums, and arrays of the same numbers beside them."""
        n = self.options.column_rows // self.options.shrink
        # of very many, some are equal: making random ones takes longer than all the rest
        distinct = min(n, 2_000_000)
        workers_tried = [int(workers) for workers in self.options.workers.split(",")]
        six = [f"f{j}" for j in range(6)]
        floats = ", ".join(f"random() * {10 ** (j % 3)} AS {name}" for j, name in enumerate(six))
        self.cursor.execute("DROP TABLE IF EXISTS columns; CREATE UNLOGGED TABLE columns AS"
                            f" SELECT {floats}, (random() * 1000)::int AS i, (random() * 10000)::numeric(8,2) AS n"
                            f" FROM generate_series(1, {distinct})")
        self.cursor.execute(f"INSERT INTO columns SELECT c.* FROM columns c, generate_series(2, {n // distinct})")
        arrays = f"ARRAY[{', '.join(six)}]"
        self.cursor.execute("DROP TABLE IF EXISTS others; CREATE UNLOGGED TABLE others AS SELECT"
                            f" {', '.join(f'{name}::real' for name in six)}, {arrays}::real[] AS r, {arrays} AS d FROM columns")
        for table in ("columns", "others"):
            self.cursor.execute(f"ALTER TABLE {table} SET (parallel_workers = {max(1, *workers_tried)})")
            self.cursor.execute(f"VACUUM ANALYZE {table}")
        print("| columns | workers | beside s | read s | ratio | on a processor: beside s | whole fit s | ratio | allowed | met |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")
        for name, source, columns in (("six float8", "columns", six), ("six float8, int, numeric(8,2)", "columns", six + ["i", "n"]),
                                      ("six real", "others", six)):
            sums = ", ".join(f"sum({column})" for column in columns)
            for workers in workers_tried:
                self.compare_reading(f"{name}, beside their sums", source, "{" + ",".join(columns) + "}", sums, workers)
        for name, column in (("real[] of six", "r"), ("float8[] of six", "d")):
            self.compare_reading(f"{name}, beside count({column})", "others", "{" + column + "}", f"count({column})", workers_tried[0])
        print()

    def types(self):
        """Columns of other types, and tables as users have them, beside their sums, without workers."""
        n = 1_000_000 // self.options.shrink
        four = ["a", "b", "c", "d"]
        wide = [f"w{j}" for j in range(100)]
        numbers = {"int2": "(random() * 1000)::int2", "int8": "(random() * 1e9)::int8", "bool": "random() < 0.5",
                   "numeric": "(random()::numeric * 1000)", "timestamp": "timestamp '2023-01-01' + random() * interval '1100 days'"}
        tables = {name: ", ".join(f"{number} AS {column}" for column in four) for name, number in numbers.items()}
        tables["nulls"] = ", ".join(f"nullif(random(), 0.5) AS {column}, md5(i::text) AS t_{column}" for column in four)
        tables["hundred"] = ", ".join(f"random() AS {column}" for column in wide)
        tables["long"] = "ARRAY(SELECT random()::real FROM generate_series(1, 768) WHERE i > 0) AS v"
        few = {"hundred": 10, "long": 100}
        for name, columns in tables.items():
            self.cursor.execute(f"DROP TABLE IF EXISTS of_{name} CASCADE; CREATE UNLOGGED TABLE of_{name} AS"
                                f" SELECT i AS id, {columns} FROM generate_series(1, {n // few.get(name, 1)}) i")
            self.cursor.execute(f"VACUUM ANALYZE of_{name}")
        self.cursor.execute("CREATE VIEW of_join AS SELECT x.*, y.a AS e FROM of_int8 x JOIN of_nulls y USING (id)")
        self.cursor.execute("CREATE VIEW of_epoch AS SELECT "
                            + ", ".join(f"extract(epoch FROM {column})::float8 AS {column}" for column in four) + " FROM of_timestamp")
        print("| columns | workers | beside s | read s | ratio | on a processor: beside s | whole fit s | ratio | allowed | met |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")
        for name, table, columns in (("four int2", "int2", four), ("four int8", "int8", four), ("four numeric of many digits", "numeric", four),
                                     ("epochs of four timestamps", "epoch", four), ("four float8 among texts", "nulls", four),
                                     ("a hundred float8", "hundred", wide), ("the last three of a hundred", "hundred", wide[-3:]),
                                     ("a view that joins", "join", four + ["e"])):
            sums = ", ".join(f"sum({column})" for column in columns)
            self.compare_reading(f"{name}, beside their sums", f"of_{table}", "{" + ",".join(columns) + "}", sums, 0)
        self.compare_reading("four bool, beside their sums as int", "of_bool", "{" + ",".join(four) + "}",
                             ", ".join(f"sum({column}::int)" for column in four), 0)
        self.compare_reading("real[] of 768, TOASTed, beside sum(v[1])", "of_long", "{v}", "sum(v[1])", 0)
        print()

    def small(self):
        """A small fit in a warm session, and where its time goes."""
        n, d, k = 10_000, 16, 8
        rows = normal_rows(n, d, k, np.random.default_rng(9))
        phases = ("open", "read", "prepare", "seed", "iterate", "label", "total")
        print(f"| {n:,} × {d}, k {k}, 20 iterations | quality | the client's ms, least | median | " + " | ".join(phases) + " |")
        print("|---|---|--:|--:|" + "--:|" * len(phases))
        for as_array in (False, True):
            features = self.load(rows, as_array)
            for quality in ("fast", "auto"):
                runs = []
                for _ in range(60 if quality == "fast" else 10):
                    seconds, _ = self.timed(f"SELECT size FROM gkmeans_fit('rows', '{features}', {k}, max_iter => 20,"
                                            f" tol => 0, quality => '{quality}')")
                    runs.append((seconds, self.last_fit(", ".join(f"{phase}_seconds" for phase in phases))))
                runs.sort()
                print(f"| {'real[]' if as_array else 'columns'} | {quality} | {runs[0][0] * 1e3:.2f} | {runs[len(runs) // 2][0] * 1e3:.2f} | "
                      + " | ".join(f"{part * 1e3:.2f}" for part in runs[0][1]) + " |", flush=True)
        print()

    def seeding(self):
        """k-means|| in iterations: the mean of the 20 that follow."""
        print("| data | seed s | of an iteration, s | iterations | allowed | met | inertia at the end |")
        print("|---|--:|--:|--:|--:|---|--:|")
        for name, scale in SEEDED.items():
            rows, centroids = real_sets.make(name, scale / self.options.shrink)
            n, d, k = *rows.shape, len(centroids)
            features = self.load(rows, True)
            runs = []
            for seed in range(max(self.options.repeats, 3)):
                self.query(f"SELECT size FROM gkmeans_fit('rows', '{features}', {k}, max_iter => 20, tol => 0,"
                           f" quality => 'fast', seed => {seed})")
                seconds, whole, iterations, inertia = self.last_fit("seed_seconds, iterate_seconds, iterations, inertia")
                runs.append((seconds / whole * iterations, seconds, whole / iterations, inertia))
            ratio, seconds, iteration, inertia = statistics.median_low(runs)
            print(f"| {name}: {n:,} × {d}, k {k} | {seconds:.4f} | {iteration:.5f} | {ratio:.1f} | 8 |"
                  f" {self.verdict(ratio <= 8)} | {inertia:.6g} |", flush=True)
        print()

    def memory(self):
        """Peak of the backend's own memory during a fit, and the ring, over the data in float32."""
        n, d, k = 1_000_000 // self.options.shrink, 128, 16
        session = Session()
        before, peak, stop = session.own_memory(), [0], threading.Event()

        def watch():
            while not stop.is_set():
                peak[0] = max(peak[0], session.own_memory())
                time.sleep(0.001)

        watcher = threading.Thread(target=watch)
        watcher.start()
        session.query(f"SELECT size FROM gkmeans_fit('rows', '{{features}}', {k}, max_iter => 5)")
        stop.set()
        watcher.join()
        ring = session.query("SELECT pg_size_bytes(current_setting('gkmeans.ring_size'))")[0][0]
        after = session.own_memory()
        session.connection.close()
        data = n * d * 4
        total = (peak[0] - before + ring) / data
        print("| rows, k | data MB | backend's peak MB | ring at most MB | over the data | allowed | met | left after MB |")
        print("|---|--:|--:|--:|--:|--:|---|--:|")
        print(f"| {n:,} × {d}, k {k} | {data / 1e6:.0f} | {(peak[0] - before) / 1e6:.0f} | {ring / 1e6:.0f} |"
              f" {total:.3f} | 1.25 | {self.verdict(total <= 1.25)} | {(after - before) / 1e6:.1f} |\n")


def processor():
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="the median of so many runs")
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of rows, to try it out")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--column-rows", type=int, default=2_000_000, help="rows of the part columns")
    parser.add_argument("--workers", default="0,1", help="numbers of workers of the part columns")
    options = parser.parse_args()
    bench = FitBench(options)

    import sklearn
    from threadpoolctl import threadpool_info
    blas = next((library for library in threadpool_info() if library["user_api"] == "blas"), None)
    print(f"{processor()}, {len(os.sched_getaffinity(0))} cores; PostgreSQL {bench.query('SHOW server_version')[0][0]};"
          f" scikit-learn {sklearn.__version__},"
          f" BLAS: {blas['internal_api'] + ' ' + blas['threading_layer'] if blas else 'the slow reference one'};"
          f" median of {options.repeats}\n")
    parts = options.only or PARTS.copy()
    if "memory" in parts and "reading" not in parts:
        parts.insert(parts.index("memory"), "reading")
    for part in parts:
        getattr(bench, part)()
    sys.exit(bench.finish())


if __name__ == "__main__":
    main()
