"""How far from the best known inertia each quality of gkmeans, scikit-learn and bkmeans ends, and how long it takes.

Connects to the server that PGHOST and PGPORT name (`bench/run quality` starts one).  All work on the same float32 rows;
inertia is computed anew from the centroids, in float64.  bkmeans (PyPI) is left out where it is missing.

Several processes can share the small sets: each measures a part (`--part 3/8 --save FILE`), and `--join FILE ...` makes
one table of what they saved.
"""

import argparse
import io
import json
import os
import sys
import time
import warnings

import numpy as np
from sklearn.cluster import KMeans

from common import Bench
from quality_sets import SETS

try:
    from bkmeans import BKMeans
except ImportError:
    BKMeans = None


# Percent above the best inertia known that is near, and above that of scikit-learn that is level with it.
NEAR, LEVEL = 0.1, 1e-4


def inertia(rows, centroids):
    """Σ of d² to the nearest centroid."""
    total = 0.0
    for part in np.array_split(rows.astype(np.float64), len(rows) * len(centroids) // 10_000_000 + 1):
        total += ((part ** 2).sum(1)[:, None] - 2 * part @ centroids.T + (centroids ** 2).sum(1)).min(1).clip(0).sum()
    return total


def excess(result):
    """Percent above the best inertia that any way found, for each way and seed."""
    best = min(min(ends) for ends in result["ends"].values())
    return {way: 100 * (np.array(ends) / best - 1) for way, ends in result["ends"].items()}


def verdicts(result):
    """Is `auto` near the best with every seed (None where clusters are not clear), and level with ten starts?"""
    above = excess(result)
    near = bool(above["auto"].max() <= NEAR) if result["clear"] else None
    return near, bool(above["auto"].mean() <= above["scikit-learn 10"].mean() + LEVEL)


def print_table(results):
    """Mean and worst excess and mean seconds of each set and way; the verdicts; how many are against `auto`."""
    words = {True: "yes", False: "**no**", None: "–"}
    ways = list(results[0]["ends"])
    print(f"Mean (worst) of {len(results[0]['ends']['auto'])} seeds above the best inertia known, in percent; mean seconds\n")
    print("| " + " | ".join(["set", "rows, k", *ways, "auto is", "auto near the best", "auto ≤ scikit-learn 10"]) + " |")
    print("|---|---|" + "--:|" * len(ways) + "---|---|---|")
    failures = 0
    for result in results:
        above, judged = excess(result), verdicts(result)
        failures += sum(verdict is False for verdict in judged)
        print(f"| {result['name']} | {result['rows']:,} × {result['features']}, k {result['k']} | "
              + " | ".join(f"{above[way].mean():.3f} ({above[way].max():.3f}) {np.mean(result['seconds'][way]):.3f}" for way in ways)
              + f" | {result['quality']} | " + " | ".join(words[verdict] for verdict in judged) + " |")
    print()
    return failures


class QualityBench(Bench):
    """The sets, and the ways to cluster them."""

    def load(self, rows):
        self.cursor.execute("DROP TABLE IF EXISTS rows; CREATE UNLOGGED TABLE rows (v real[])")
        lines = "\n".join("{" + ",".join(map(repr, map(float, row))) + "}" for row in rows)
        self.cursor.copy_expert("COPY rows FROM STDIN", io.StringIO(lines))
        self.cursor.execute("VACUUM ANALYZE rows")

    def by_gkmeans(self, k, seed, quality, more=""):
        started = time.perf_counter()
        answer = self.query("SELECT centroid::text FROM gkmeans_fit('rows', '{v}', %s, seed => %s, quality => %s" + more
                            + ")", k, seed, quality)
        seconds = time.perf_counter() - started
        return np.array([row[0][1:-1].split(",") for row in answer], dtype=np.float64), seconds

    @staticmethod
    def by_estimator(estimator, rows):
        started = time.perf_counter()
        estimator.fit(rows)
        return np.asarray(estimator.cluster_centers_, dtype=np.float64), time.perf_counter() - started

    def ways(self, rows, k):
        """Names of the ways, each a function of the seed."""
        ways = {
            "scikit-learn 1": lambda seed: self.by_estimator(KMeans(k, n_init=1, random_state=seed), rows),
            "scikit-learn 10": lambda seed: self.by_estimator(KMeans(k, n_init=10, random_state=seed), rows),
        }
        if BKMeans is not None:
            ways["bkmeans"] = lambda seed: self.by_estimator(BKMeans(n_clusters=k, random_state=seed), rows)
        for quality in ("fast", "good", "best", "auto"):
            ways[quality] = lambda seed, quality=quality: self.by_gkmeans(k, seed, quality)
        return ways

    def measure(self, number):
        """A set with each way from several seeds: where they end, how long they take."""
        name, make, clear = SETS[number]
        rows, k = make()
        rows = np.ascontiguousarray(rows - rows.mean(0), dtype=np.float32)
        self.load(rows)
        result = {"number": number, "name": name, "rows": rows.shape[0], "features": rows.shape[1], "k": k, "clear": clear,
                  "ends": {}, "seconds": {}}
        for way, run in self.ways(rows, k).items():
            runs = [run(seed) for seed in range(self.options.seeds)]
            result["ends"][way] = [inertia(rows, centroids) for centroids, _ in runs]
            result["seconds"][way] = [seconds for _, seconds in runs]
        result["quality"] = self.last_fit("quality")
        return result

    def small_sets(self):
        """The sets of this part, as a table or for others to join."""
        part, parts = map(int, self.options.part.split("/"))
        results = [self.measure(number) for number in range(part - 1, len(SETS), parts)]
        if self.options.save is None:
            self.failures += print_table(results)
            return
        with open(self.options.save, "a") as file:
            file.writelines(json.dumps(result) + "\n" for result in results)

    def engines(self):
        """Do all engines give each set the same centroids, labels and distances?"""
        self.cursor.execute("""
            CREATE OR REPLACE FUNCTION pg_temp.answer(k int, s bigint, OUT digest text, OUT seconds float8) LANGUAGE plpgsql AS $$
            DECLARE started timestamptz := clock_timestamp();
            BEGIN
                SELECT md5(string_agg(f::text, ' ' ORDER BY cluster_id)) INTO digest FROM gkmeans_fit('rows', '{v}', k, seed => s) f;
                seconds := extract(epoch FROM clock_timestamp() - started);
                SELECT md5(digest || string_agg(p::text, ' ' ORDER BY id)) INTO digest
                FROM gkmeans_fit_predict(NULL::bigint, 'rows', '{v}', k, id_column => 'id', seed => s) p;
            END $$""")
        print("| set | rows, k | the same bits with CUDA | CPU s | CUDA s |\n|---|---|---|--:|--:|")
        part, parts = map(int, self.options.part.split("/"))
        for name, make, _ in SETS[part - 1::parts]:
            rows, k = make()
            self.load(np.ascontiguousarray(rows - rows.mean(0), dtype=np.float32))
            self.cursor.execute("ALTER TABLE rows ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY")
            answers = {}
            for engine in ("cpu", "cuda"):
                self.cursor.execute(f"SET gkmeans.engine = {engine}")
                answers[engine] = [self.query("SELECT * FROM pg_temp.answer(%s, %s)", k, seed)[0] for seed in range(self.options.seeds)]
            same = [a[0] == b[0] for a, b in zip(*answers.values())]
            print(f"| {name} | {rows.shape[0]:,} × {rows.shape[1]}, k {k} | {self.verdict(all(same))}, {len(same)} seeds | "
                  + " | ".join(f"{np.median([seconds for _, seconds in answer]):.3f}" for answer in answers.values()) + " |", flush=True)
        print()

    def make_large(self, kind, n, k, d):
        """Rows of k clusters, made on the server: 'blobs' far apart, or 'topics' that overlap, the first ones largest."""
        self.cursor.execute("DROP TABLE IF EXISTS rows; CREATE UNLOGGED TABLE rows (v real[])")
        random = np.random.default_rng(11)
        spread = 8.0 if kind == "blobs" else 1.5
        share = np.ones(k) if kind == "blobs" else 1 / np.arange(1, k + 1)
        centers = random.normal(size=(k, d)) * spread
        head = np.dtype([("fields", ">i2"), ("length", ">i4"), ("dimensions", ">i4"), ("nulls", ">i4"), ("type", ">i4"),
                         ("count", ">i4"), ("first", ">i4"), ("values", [("length", ">i4"), ("value", ">f4")], d)])
        for start in range(0, n, 100_000):
            count = min(100_000, n - start)
            values = centers[random.choice(k, size=count, p=share / share.sum())] + random.normal(size=(count, d))
            record = np.zeros(count, head)
            record["fields"], record["length"], record["dimensions"], record["type"] = 1, 20 + 8 * d, 1, 700
            record["count"], record["first"] = d, 1
            record["values"]["length"], record["values"]["value"] = 4, values
            stream = io.BytesIO(b"PGCOPY\n\xff\r\n\0" + bytes(8) + record.tobytes() + b"\xff\xff")
            self.cursor.copy_expert("COPY rows FROM STDIN (FORMAT binary)", stream)
        self.cursor.execute("VACUUM ANALYZE rows")

    def large_sets(self):
        """Many rows: one start, ten starts, and the search."""
        n, k, d = self.options.rows, self.options.clusters, self.options.features
        print("| data | quality | inertia above the least % | rounds | seed + iterate s | of `fast` |")
        print("|---|---|--:|--:|--:|--:|")
        for kind in ("blobs", "topics"):
            self.make_large(kind, n, k, d)
            results = []
            for name, quality, more in (("fast", "fast", ""), ("fast, n_init 10", "fast", ", n_init => 10"), ("good", "good", "")):
                self.query("SELECT size FROM gkmeans_fit('rows', '{v}', %s, quality => %s" + more + ")", k, quality)
                results.append((name, *self.last_fit("inertia, search_rounds, prepare_seconds + seed_seconds + iterate_seconds, iterate_seconds")))
            least, base = min(result[1] for result in results), results[0][4]
            for name, value, rounds, seconds, iterating in results:
                print(f"| {kind}, {n:,} × {d}, k {k} | {name} | {100 * (value / least - 1):.3f} | {rounds} | {seconds:.2f} |"
                      f" {iterating / base:.1f} |", flush=True)
        print()


def join(files):
    """One table of the parts that others have measured."""
    results = [json.loads(line) for file in files for line in open(file)]
    return print_table(sorted(results, key=lambda result: result["number"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=["small", "large", "engines"], action="append",
                        help="engines: compare those of CPUs and GPUs on the small sets")
    parser.add_argument("--part", default="1/1", help="of the small sets: 3/8 is every eighth from the third on")
    parser.add_argument("--save", metavar="FILE", help="add what was measured of the small sets to a file, for --join")
    parser.add_argument("--join", metavar="FILE", nargs="+", help="only print one table of these files")
    parser.add_argument("--rows", type=int, default=200_000, help="of the large sets")
    parser.add_argument("--clusters", type=int, default=200, help="of the large sets")
    parser.add_argument("--features", type=int, default=32, help="of the large sets")
    warnings.filterwarnings("ignore")
    options = parser.parse_args()
    if options.join:
        sys.exit(join(options.join) > 0)
    bench = QualityBench(options)
    print(f"{len(os.sched_getaffinity(0))} cores; engine {bench.query('SELECT count(*) FROM gkmeans_memory(); SHOW gkmeans.engine')[0][0]}; scikit-learn"
          f" {sys.modules['sklearn'].__version__}; bkmeans {'installed' if BKMeans else 'missing'}\n")
    for part in options.only or ["small", "large"]:
        {"small": bench.small_sets, "large": bench.large_sets, "engines": bench.engines}[part]()
    sys.exit(bench.finish())


if __name__ == "__main__":
    main()
