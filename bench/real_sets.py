"""Data sets that look like users' data, for the benchmarks of all engines and their peers.

Each is float32 rows with k distinct rows of them as the initial centroids, the same whenever it is made.
`real_sets.py FOLDER [NAME ...]` writes sets as files for bench/engine_set.c; with --gpu, those for GPUs.
"""

import argparse
import functools
import itertools
import multiprocessing
import os
import time

import numpy as np

BLOCK_VALUES = 1 << 22


# Each of these draws what is common to all rows, and returns a function that draws some rows.

def normal(random, d, k):
    """Noise without clusters."""
    return lambda random, n: random.standard_normal((n, d), dtype=np.float32)


def embeddings(random, d, k):
    """Topics of Zipf-distributed sizes, a spectrum that decays, unit length."""
    topics = max(k // 2, 20)
    spectrum = (np.arange(1, d + 1) ** -0.5).astype(np.float32)
    centers = random.standard_normal((topics, d), dtype=np.float32) * spectrum
    centers += random.standard_normal(d, dtype=np.float32) * (0.5 * spectrum)
    weights = 1.0 / np.arange(1, topics + 1)

    def rows(random, n):
        topic = random.choice(topics, n, p=weights / weights.sum())
        some = random.standard_normal((n, d), dtype=np.float32)
        some *= 0.7 * spectrum
        some += centers[topic]
        some /= np.linalg.norm(some, axis=1, keepdims=True)
        return some
    return rows


def sift(random, d, k):
    """Integers from 0 to 255, most of them small, some of them related, as in descriptors of images."""
    words = random.gamma(0.6, 30.0, (2 * k, d))

    def rows(random, n):
        some = words[random.integers(2 * k, size=n)] * random.gamma(4.0, 0.25, (n, d))
        return np.clip(np.floor(some), 0, 255)
    return rows


def customers(random, d, k):
    """Log-normal amounts that depend on each other, standardised."""
    spread = np.linspace(0.4, 1.2, d)
    growth = np.exp(0.64 + spread ** 2)
    mean, deviation = np.sqrt(growth), np.sqrt((growth - 1) * growth)

    def rows(random, n):
        size = random.standard_normal((n, 1))
        return (np.exp(0.8 * size + random.standard_normal((n, d)) * spread) - mean) / deviation
    return rows


def sensors(random, d, k):
    """Machines in 20 modes, with noise of their own in each."""
    modes = random.uniform(-10, 10, (20, d)).astype(np.float32)
    noise = random.uniform(0.1, 0.8, (20, d)).astype(np.float32)

    def rows(random, n):
        mode = random.integers(20, size=n)
        return modes[mode] + random.standard_normal((n, d), dtype=np.float32) * noise[mode]
    return rows


def blobs(random, d, k, count=None):
    """This many blobs, or as many as k, that lie 20 standard deviations apart in every feature."""
    centers = 20 * random.standard_normal((count or k, d), dtype=np.float32)

    def rows(random, n):
        some = random.standard_normal((n, d), dtype=np.float32)
        some += centers[random.integers(len(centers), size=n)]
        return some
    return rows


def fifty_blobs(random, d, k):
    """Many centroids in each of few blobs."""
    return blobs(random, d, k, 50)


def places(random, d, k):
    """Positions: hot spots of very different density, and a few rows anywhere."""
    spots = random.uniform(-1, 1, (200, d))
    spread = 10 ** random.uniform(-3, -1, 200)
    weights = random.pareto(1.0, 200) + 0.1

    def rows(random, n):
        spot = random.choice(200, n, p=weights / weights.sum())
        some = spots[spot] + random.standard_normal((n, d)) * spread[spot, None]
        anywhere = random.random(n) < 0.05
        some[anywhere] = random.uniform(-1, 1, (anywhere.sum(), d))
        return some
    return rows


def indicators(random, d, k):
    """Columns of 0 and 1 that say which of eight values each of d / 8 properties has."""
    usual = random.integers(8, size=(d // 8, 12))

    def rows(random, n):
        some = np.zeros((n, d), np.float32)
        kind = random.integers(12, size=n)
        for i in range(d // 8):
            value = np.where(random.random(n) < 0.6, usual[i, kind], random.integers(8, size=n))
            some[np.arange(n), 8 * i + value] = 1
        return some
    return rows


def ties(random, d, k):
    """Small integers: many rows lie at the same distance from several centroids."""
    return lambda random, n: random.integers(0, 5, (n, d))


def outliers(random, d, k):
    """Overlapping clusters, and one row in 1000 very far away."""
    centers = 2 * random.standard_normal((k, d))

    def rows(random, n):
        some = centers[random.integers(k, size=n)] + random.standard_normal((n, d))
        far = random.random(n) < 1e-3
        some[far] *= 10 ** random.uniform(2, 4, (far.sum(), 1))
        return some
    return rows


def heavy_tails(random, d, k):
    """Rows whose lengths differ by orders of magnitude."""
    return lambda random, n: random.standard_normal((n, d)) * random.pareto(1.2, (n, 1))


def duplicates(random, d, k):
    """Few distinct rows, each many times."""
    distinct = random.standard_normal((4 * k, d))
    return lambda random, n: distinct[random.integers(4 * k, size=n)]


# name: how it is made, rows, features, clusters: some seconds of scikit-learn on two cores
SETS = {
    "normal 128": (normal, 100_000, 128, 256),
    "normal 32": (normal, 500_000, 32, 100),
    "normal 8": (normal, 1_000_000, 8, 16),
    "normal 784": (normal, 20_000, 784, 256),
    "embeddings 128": (embeddings, 100_000, 128, 512),
    "embeddings 768": (embeddings, 40_000, 768, 256),
    "embeddings 1536": (embeddings, 20_000, 1536, 256),
    "SIFT": (sift, 60_000, 128, 1024),
    "customers": (customers, 2_000_000, 4, 8),
    "sensors": (sensors, 1_000_000, 8, 32),
    "50 blobs": (fifty_blobs, 100_000, 128, 500),
    "50 blobs, 1000": (fifty_blobs, 100_000, 128, 1000),
    "blobs as many as k": (blobs, 100_000, 128, 500),
    "places": (places, 1_000_000, 2, 50),
    "indicators": (indicators, 200_000, 64, 100),
    "ties": (ties, 500_000, 6, 64),
    "outliers": (outliers, 200_000, 32, 100),
    "heavy tails": (heavy_tails, 200_000, 32, 100),
    "duplicates": (duplicates, 300_000, 16, 200),
}

# the same, for GPUs
GPU_SETS = {
    "normal128": (normal, 1_000_000, 128, 1000),
    "n10m100x32": (normal, 10_000_000, 32, 100),
    "n10m1024x128": (normal, 10_000_000, 128, 1024),
    "n1m16384x128": (normal, 1_000_000, 128, 16384),
    "n5m4096x256": (normal, 5_000_000, 256, 4096),
    "n100m16x8": (normal, 100_000_000, 8, 16),
    "n8m10x128": (normal, 8_000_000, 128, 10),
    "n1m256x784": (normal, 1_000_000, 784, 256),
    "emb768": (embeddings, 1_000_000, 768, 1024),
    "emb1536": (embeddings, 500_000, 1536, 1024),
    "emb128": (embeddings, 4_000_000, 128, 1024),
    "sift": (sift, 2_000_000, 128, 4096),
    "customers": (customers, 10_000_000, 4, 8),
    "sensors": (sensors, 50_000_000, 8, 32),
    "blobs50": (fifty_blobs, 1_000_000, 128, 1000),
    "blobs1000": (blobs, 1_000_000, 128, 1000),
    "places": (places, 5_000_000, 2, 50),
    "indicators": (indicators, 2_000_000, 64, 100),
    "ties": (ties, 5_000_000, 6, 64),
    "outliers": (outliers, 2_000_000, 32, 100),
    "heavy": (heavy_tails, 2_000_000, 32, 100),
    "duplicates": (duplicates, 3_000_000, 16, 200),
}


def shape(sets, name, scale):
    """Rows, features and clusters of a set with so many times its rows."""
    _, n, d, k = sets[name]
    return max(int(n * scale), 2 * k), d, k


def block(sets, name, scale, number):
    """The rows of a block, which depend on nothing but these arguments; blocks are numbered from 0."""
    n, d, k = shape(sets, name, scale)
    index = list(sets).index(name)
    rows = sets[name][0](np.random.default_rng(index), d, k)
    count = BLOCK_VALUES // d
    some = rows(np.random.default_rng([index, number + 1]), min(count, n - number * count))
    return np.ascontiguousarray(some + np.float32(0), dtype=np.float32)


def blocks(sets, name, scale):
    """How many blocks a set has."""
    n, d, _ = shape(sets, name, scale)
    return -(-n // (BLOCK_VALUES // d))


def distinct_rows(rows, k, random):
    """k rows at random, no two of which are equal."""
    found = {}
    for i in itertools.chain(random.permutation(min(len(rows), 50 * k)).tolist(), range(50 * k, len(rows))):
        found.setdefault(rows[i].tobytes(), i)
        if len(found) == k:
            break
    return rows[list(found.values())]


def make(name, scale=1.0):
    """The rows and the initial centroids of a set."""
    rows = np.concatenate([block(SETS, name, scale, number) for number in range(blocks(SETS, name, scale))])
    return rows, distinct_rows(rows, SETS[name][3], np.random.default_rng(0))


def write(file, rows, initial):
    """Writes a set for bench/engine_set.c."""
    with open(file, "wb") as out:
        np.array([*rows.shape, len(initial)], dtype=np.int64).tofile(out)
        rows.tofile(out)
        initial.tofile(out)


def write_block(file, sets, name, scale, number):
    """Writes a block to its place in the file."""
    some = block(sets, name, scale, number)
    at = 24 + number * (BLOCK_VALUES // some.shape[1]) * some.shape[1] * 4
    handle = os.open(file, os.O_WRONLY)
    try:
        left = memoryview(some).cast("B")
        while left:
            written = os.pwrite(handle, left, at)
            left, at = left[written:], at + written
    finally:
        os.close(handle)


def write_beside(pool, file, sets, name, scale):
    """Writes a set for bench/engine_set.c, several blocks at a time."""
    n, d, k = shape(sets, name, scale)
    with open(file, "wb") as out:
        np.array([n, d, k], dtype=np.int64).tofile(out)
        out.truncate(24 + (n + k) * d * 4)
    pool.map(functools.partial(write_block, file, sets, name, scale), range(blocks(sets, name, scale)), chunksize=1)
    rows = np.memmap(file, np.float32, "r+", 24, (n + k, d))
    rows[n:] = distinct_rows(rows[:n], k, np.random.default_rng(0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the files go, each named as its set")
    parser.add_argument("names", nargs="*", help="all sets, if none is named")
    parser.add_argument("--gpu", action="store_true", help="the sets for GPUs")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the rows")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_intermixed_args()
    sets = GPU_SETS if options.gpu else SETS
    os.makedirs(options.folder, exist_ok=True)
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for name in options.names or sets:
            began = time.monotonic()
            file = os.path.join(options.folder, name)
            write_beside(pool, file, sets, name, options.scale)
            print(f"{name}: {os.path.getsize(file) / 1e9:.2f} GB, {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
