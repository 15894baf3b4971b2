"""Data sets that look like users' data, for the benchmarks of all engines and their peers.

Each is float32 rows with k distinct rows of them as the initial centroids, the same whenever it is made.
`real_sets.py NAME FILE [SCALE]` writes one for bench/engine_set.c, with SCALE times as many rows.
"""

import sys

import numpy as np


def normal(random, n, d, k):
    """Noise without clusters."""
    return random.standard_normal((n, d), dtype=np.float32)


def embeddings(random, n, d, k):
    """Topics of Zipf-distributed sizes, a spectrum that decays, unit length."""
    topics = max(k // 2, 20)
    spectrum = (np.arange(1, d + 1) ** -0.5).astype(np.float32)
    centers = random.standard_normal((topics, d), dtype=np.float32) * spectrum
    weights = 1.0 / np.arange(1, topics + 1)
    topic = random.choice(topics, n, p=weights / weights.sum())
    rows = centers[topic] + random.standard_normal((n, d), dtype=np.float32) * (0.7 * spectrum)
    rows += random.standard_normal(d, dtype=np.float32) * (0.5 * spectrum)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sift(random, n, d, k):
    """Integers from 0 to 255, most of them small, some of them related, as in descriptors of images."""
    words = random.gamma(0.6, 30.0, (2 * k, d))
    rows = words[random.integers(2 * k, size=n)] * random.gamma(4.0, 0.25, (n, d))
    return np.clip(np.floor(rows), 0, 255)


def customers(random, n, d, k):
    """Log-normal amounts that depend on each other, standardised."""
    size = random.standard_normal((n, 1))
    rows = np.exp(0.8 * size + random.standard_normal((n, d)) * np.linspace(0.4, 1.2, d))
    return (rows - rows.mean(axis=0)) / rows.std(axis=0)


def sensors(random, n, d, k):
    """Machines in 20 modes, with noise of their own in each."""
    modes = random.uniform(-10, 10, (20, d))
    noise = random.uniform(0.1, 0.8, (20, d))
    mode = random.choice(20, n, p=np.full(20, 0.05))
    return modes[mode] + random.standard_normal((n, d)) * noise[mode]


def blobs(count):
    """This many blobs that lie 20 standard deviations apart in every feature; None: as many as k."""
    def make(random, n, d, k):
        centers = 20 * random.standard_normal((count or k, d), dtype=np.float32)
        return centers[random.integers(count or k, size=n)] + random.standard_normal((n, d), dtype=np.float32)
    return make


def places(random, n, d, k):
    """Positions: hot spots of very different density, and a few rows anywhere."""
    spots = random.uniform(-1, 1, (200, d))
    spread = 10 ** random.uniform(-3, -1, 200)
    weights = random.pareto(1.0, 200) + 0.1
    spot = random.choice(200, n, p=weights / weights.sum())
    rows = spots[spot] + random.standard_normal((n, d)) * spread[spot, None]
    anywhere = random.random(n) < 0.05
    rows[anywhere] = random.uniform(-1, 1, (anywhere.sum(), d))
    return rows


def indicators(random, n, d, k):
    """Columns of 0 and 1 that say which of eight values each of d / 8 properties has."""
    rows = np.zeros((n, d), np.float32)
    kind = random.integers(12, size=n)
    for first in range(0, d, 8):
        usual = random.integers(8, size=12)[kind]
        value = np.where(random.random(n) < 0.6, usual, random.integers(8, size=n))
        rows[np.arange(n), first + value] = 1
    return rows


def ties(random, n, d, k):
    """Small integers: many rows lie at the same distance from several centroids."""
    return random.integers(0, 5, (n, d))


def outliers(random, n, d, k):
    """Overlapping clusters, and one row in 1000 very far away."""
    centers = 2 * random.standard_normal((k, d))
    rows = centers[random.integers(k, size=n)] + random.standard_normal((n, d))
    far = random.random(n) < 1e-3
    rows[far] *= 10 ** random.uniform(2, 4, (far.sum(), 1))
    return rows


def heavy_tails(random, n, d, k):
    """Rows whose lengths differ by orders of magnitude."""
    return random.standard_normal((n, d)) * random.pareto(1.2, (n, 1))


def duplicates(random, n, d, k):
    """Few distinct rows, each many times."""
    distinct = random.standard_normal((4 * k, d))
    return distinct[random.integers(4 * k, size=n)]


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
    "50 blobs": (blobs(50), 100_000, 128, 500),
    "50 blobs, 1000": (blobs(50), 100_000, 128, 1000),
    "blobs as many as k": (blobs(None), 100_000, 128, 500),
    "places": (places, 1_000_000, 2, 50),
    "indicators": (indicators, 200_000, 64, 100),
    "ties": (ties, 500_000, 6, 64),
    "outliers": (outliers, 200_000, 32, 100),
    "heavy tails": (heavy_tails, 200_000, 32, 100),
    "duplicates": (duplicates, 300_000, 16, 200),
}


def make(name, scale=1.0):
    """The rows and the initial centroids of a set."""
    maker, n, d, k = SETS[name]
    n = max(int(n * scale), 2 * k)
    random = np.random.default_rng(list(SETS).index(name))
    rows = np.ascontiguousarray(maker(random, n, d, k) + 0.0, dtype=np.float32)
    distinct = np.unique(rows[:20 * k], axis=0)
    if len(distinct) < k:
        distinct = np.unique(rows, axis=0)
    return rows, distinct[random.choice(len(distinct), k, replace=False)]


def write(file, rows, initial):
    """Writes a set for bench/engine_set.c."""
    with open(file, "wb") as out:
        np.array([*rows.shape, len(initial)], dtype=np.int64).tofile(out)
        rows.tofile(out)
        initial.tofile(out)


if __name__ == "__main__":
    write(sys.argv[2], *make(sys.argv[1], float(sys.argv[3]) if len(sys.argv) > 3 else 1.0))
