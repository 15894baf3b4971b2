"""How far from the best known inertia each quality of gkmeans, scikit-learn and bkmeans ends, and how long it takes.

Connects to the server that PGHOST and PGPORT name (`bench/run --program quality.py` starts one).  All work on the same
float32 rows; inertia is computed anew from the centroids, in float64.  bkmeans (PyPI) is left out where it is missing.
"""

import argparse
import io
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


def inertia(rows, centroids):
    """Σ of d² to the nearest centroid."""
    total = 0.0
    for part in np.array_split(rows.astype(np.float64), len(rows) * len(centroids) // 10_000_000 + 1):
        total += ((part ** 2).sum(1)[:, None] - 2 * part @ centroids.T + (centroids ** 2).sum(1)).min(1).clip(0).sum()
    return total


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
        return np.array([np.fromstring(row[0][1:-1], sep=",") for row in answer]), seconds

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

    def small_sets(self):
        """Each set with each way from several seeds: mean and worst excess over the best inertia, mean seconds."""
        seeds = self.options.seeds
        print(f"Mean (worst) of {seeds} seeds above the best inertia known, in percent; mean seconds\n")
        heading = None
        for name, make, clear in SETS:
            rows, k = make()
            rows = np.ascontiguousarray(rows - rows.mean(0), dtype=np.float32)
            self.load(rows)
            ways = self.ways(rows, k)
            if heading is None:
                heading = ["set", "rows, k", *ways, "auto is", "auto near the best", "auto ≤ scikit-learn 10"]
                print("| " + " | ".join(heading) + " |\n|---|---|" + "--:|" * len(ways) + "---|---|---|")
            ends, seconds = {}, {}
            for way, run in ways.items():
                runs = [run(seed) for seed in range(seeds)]
                ends[way] = np.array([inertia(rows, centroids) for centroids, _ in runs])
                seconds[way] = np.mean([taken for _, taken in runs])
            quality = self.last_fit("quality")
            best = min(end.min() for end in ends.values())
            above = {way: 100 * (end / best - 1) for way, end in ends.items()}
            cells = [f"{above[way].mean():.3f} ({above[way].max():.3f}) {seconds[way]:.3f}" for way in ways]
            near = self.verdict(above["auto"].max() <= 0.1) if clear else "–"
            level = self.verdict(above["auto"].mean() <= above["scikit-learn 10"].mean() + 1e-4)
            print(f"| {name} | {rows.shape[0]:,} × {rows.shape[1]}, k {k} | " + " | ".join(cells)
                  + f" | {quality} | {near} | {level} |", flush=True)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=["small", "large"], action="append")
    parser.add_argument("--rows", type=int, default=200_000, help="of the large sets")
    parser.add_argument("--clusters", type=int, default=200, help="of the large sets")
    parser.add_argument("--features", type=int, default=32, help="of the large sets")
    warnings.filterwarnings("ignore")
    options = parser.parse_args()
    bench = QualityBench(options)
    print(f"{len(os.sched_getaffinity(0))} cores; engine {bench.query('SELECT count(*) FROM gkmeans_memory(); SHOW gkmeans.engine')[0][0]}; scikit-learn"
          f" {sys.modules['sklearn'].__version__}; bkmeans {'installed' if BKMeans else 'missing'}\n")
    for part in options.only or ["small", "large"]:
        getattr(bench, part + "_sets")()
    sys.exit(bench.finish())


if __name__ == "__main__":
    main()
