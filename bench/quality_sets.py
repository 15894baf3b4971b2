"""Data sets with many or few clusters, made as their papers describe them, or from scikit-learn."""

import numpy as np
from sklearn import datasets


def apart(random, count, low, high, least):
    """Centers in a square, at least so far apart."""
    centers = []
    while len(centers) < count:
        center = random.uniform(low, high, 2)
        if all(np.hypot(*(center - other)) > least for other in centers):
            centers.append(center)
    return np.array(centers)


def round_clusters(random, centers, sizes, deviation):
    """Normal clusters around centers."""
    deviations = np.broadcast_to(deviation, len(centers))
    return np.vstack([center + random.normal(size=(size, len(center))) * spread
                      for center, size, spread in zip(centers, np.broadcast_to(sizes, len(centers)), deviations)])


def s_set(overlap):
    """15 clusters that overlap more and more (Fränti and Virmajoki 2006)."""
    random = np.random.default_rng(overlap)
    deviation = {1: 20, 2: 35, 3: 50, 4: 65}[overlap] * random.uniform(0.7, 1.3, 15)
    return round_clusters(random, apart(random, 15, 100, 900, 130), 333, deviation), 15


def a_set(count):
    """20 to 50 clusters of 150 rows in a plane that grows with them (Kärkkäinen and Fränti 2002)."""
    random = np.random.default_rng(count)
    return round_clusters(random, apart(random, count, 0, 100 * np.sqrt(count / 20), 13), 150, 2.9), count


def birch_grid():
    """100 clusters on a grid (Zhang, Ramakrishnan and Livny 1997)."""
    random = np.random.default_rng(3)
    centers = np.array([(x, y) for x in range(10) for y in range(10)], float) * 10
    return round_clusters(random, centers, 200, 2.5), 100


def birch_sine():
    """100 clusters on a sine curve."""
    random = np.random.default_rng(4)
    place = np.arange(100.0)
    return round_clusters(random, np.c_[place * 10, 90 * np.sin(place / 100 * 8 * np.pi)], 200, 2), 100


def unbalance():
    """Three dense clusters of 2000 rows far from five of 100 (Rezaei and Fränti 2016)."""
    random = np.random.default_rng(5)
    dense = [(150, 350), (180, 400), (210, 350)]
    sparse = [(440, 300), (540, 300), (440, 400), (540, 400), (490, 350)]
    return np.vstack([round_clusters(random, np.array(dense, float), 2000, 5),
                      round_clusters(random, np.array(sparse, float), 100, 10)]), 8


def d31():
    """31 clusters of 100 rows (Veenman, Reinders and Backer 2002)."""
    random = np.random.default_rng(6)
    return round_clusters(random, apart(random, 31, 2, 30, 3.2), 100, 0.7), 31


def r15():
    """15 clusters on two rings and in their middle (Veenman, Reinders and Backer 2002)."""
    random = np.random.default_rng(7)
    angles = np.arange(7) * 2 * np.pi / 7
    ring = np.c_[np.cos(angles), np.sin(angles)]
    return round_clusters(random, 10 + np.vstack([[(0, 0)], 2.5 * ring, 6 * ring]), 40, 0.35), 15


def cube():
    """64 clusters on a grid of three dimensions."""
    random = np.random.default_rng(8)
    centers = np.array([(x, y, z) for x in range(4) for y in range(4) for z in range(4)], float) * 10
    return round_clusters(random, centers, 125, 1), 64


def wide():
    """40 clusters in 32 dimensions."""
    random = np.random.default_rng(9)
    return round_clusters(random, random.normal(size=(40, 32)) * 4, 150, 1), 40


def topics():
    """60 overlapping clusters in 16 dimensions, the largest 60 times the least."""
    random = np.random.default_rng(10)
    sizes = np.maximum(8000 / np.arange(1, 61) / 4.68, 1).astype(int)
    return round_clusters(random, random.normal(size=(60, 16)) * 2, sizes, 1), 60


def small_clusters(count, least, most, features, spread):
    """Clusters of very unequal sizes whose centers are hardly farther apart than their rows, but in many features."""
    random = np.random.default_rng(count + features)
    sizes = random.integers(least, most, count)
    return round_clusters(random, random.normal(size=(count, features)) * spread, sizes, 1), count


def groups():
    """100 clusters of 10 to 80 rows in 10 groups, far from each other, in 4 dimensions."""
    random = np.random.default_rng(12)
    centers = random.normal(size=(10, 1, 4)) * 100 + random.normal(size=(10, 10, 4)) * 15
    return round_clusters(random, centers.reshape(-1, 4), random.integers(10, 80, 100), 1.5), 100


def lonely():
    """30 clusters in 5 dimensions, and 8 single rows far from them, each a cluster."""
    random = np.random.default_rng(13)
    away = random.normal(size=(8, 5))
    away *= random.uniform(50, 150, (8, 1)) / np.linalg.norm(away, axis=1)[:, None]
    return np.vstack([round_clusters(random, random.normal(size=(30, 5)) * 8, random.integers(50, 200, 30), 1), away]), 38


def tails():
    """40 clusters in 6 dimensions, and a tenth as many rows with heavy tails."""
    random = np.random.default_rng(14)
    clusters = round_clusters(random, random.normal(size=(40, 6)) * 10, 100, 1)
    return np.vstack([clusters, random.standard_t(2, size=(400, 6)) * 5]), 40


def halving():
    """60 clusters in 16 dimensions, the largest 200 times the least."""
    random = np.random.default_rng(15)
    sizes = np.maximum(700 * np.exp(-np.arange(60) * 8 / 60), 3).astype(int)
    return round_clusters(random, random.normal(size=(60, 16)) * 4, sizes, 1), 60


def uniform(rows, k):
    """No clusters at all."""
    return np.random.default_rng(k).uniform(size=(rows, 2)), k


def standardised(rows):
    deviation = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1)


# name, rows and k, whether the clusters are clear
SETS = [
    *((f"S{overlap}", lambda overlap=overlap: s_set(overlap), True) for overlap in (1, 2, 3, 4)),
    *((f"A, {count} clusters", lambda count=count: a_set(count), True) for count in (20, 35, 50)),
    ("birch, grid", birch_grid, True),
    ("birch, sine", birch_sine, True),
    ("unbalance", unbalance, True),
    ("D31", d31, True),
    ("R15", r15, True),
    ("cube", cube, True),
    ("wide", wide, True),
    ("small clusters", lambda: small_clusters(50, 10, 120, 64, 0.8), True),
    ("small clusters", lambda: small_clusters(20, 8, 250, 256, 0.5), True),
    ("small clusters", lambda: small_clusters(150, 6, 7, 64, 1), True),
    ("small clusters", lambda: small_clusters(300, 5, 6, 16, 3), True),
    ("groups", groups, True),
    ("lonely rows", lonely, True),
    ("tails beside", tails, True),
    ("halving", halving, True),
    ("topics", topics, False),
    *((f"iris", lambda k=k: (datasets.load_iris().data, k), k == 3) for k in (3, 4, 6)),
    *((f"wine, standardised", lambda k=k: (standardised(datasets.load_wine().data), k), k == 3) for k in (3, 5)),
    *((f"digits", lambda k=k: (datasets.load_digits().data, k), k == 10) for k in (10, 30)),
    *((f"breast cancer, standardised", lambda k=k: (standardised(datasets.load_breast_cancer().data), k), k == 2)
      for k in (2, 8)),
    ("uniform", lambda: uniform(300, 5), False),
    ("uniform", lambda: uniform(5000, 50), False),
]
