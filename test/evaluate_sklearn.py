#!/usr/bin/python3
"""gkmeans_evaluate_labels and scikit-learn give equal silhouettes, Davies-Bouldin and
Calinski-Harabasz indices. Prints TAP. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE."""
import os
import sys
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy
import psycopg2
import psycopg2.extras
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_score
from sklearn.preprocessing import MinMaxScaler, StandardScaler

CASES = 100
warnings.filterwarnings("ignore")


def make_case(number):
    """One random case: rows as float32 values, and labels."""
    random = numpy.random.default_rng(number)
    rows = int(random.choice([5, 20, 100, 400]))
    dimension = int(random.choice([1, 2, 3, 8, 17]))
    clusters = int(min(rows - 1, random.choice([2, 3, 5, 11])))
    data = random.normal(size=(rows, dimension)) * 10.0 ** random.integers(-2, 3)
    if number % 4 == 1:
        data = random.integers(0, 3, size=(rows, dimension)).astype(float)
    labels = random.integers(clusters, size=rows)
    labels[:clusters] = numpy.arange(clusters)
    kind = "random labels"
    if number % 5 == 0:
        labels[labels == 0] = 1
        labels[0] = 0
        kind = "a cluster of one row"
    if number % 10 == 3:
        labels = numpy.minimum(numpy.arange(rows), rows - 2)
        kind = "k = n - 1"
    # scaled, equal means of a lattice differ by the rounding alone, and with them the index
    scale = "none" if number % 4 == 1 else ["none", "standard", "minmax"][number % 3]
    return data.astype(numpy.float32).astype(float), labels, scale, kind


def known(data, labels, scale):
    """What scikit-learn says of the rows as they are compared."""
    if scale == "standard":
        data = StandardScaler().fit_transform(data)
    elif scale == "minmax":
        data = MinMaxScaler().fit_transform(data)
    data = data.astype(numpy.float32).astype(float)
    return (silhouette_score(data, labels), davies_bouldin_score(data, labels), calinski_harabasz_score(data, labels))


def main():
    connection = psycopg2.connect("")
    cursor = connection.cursor()
    cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans; SET client_min_messages = error")
    connection.commit()
    failures = 0
    for number in range(CASES):
        data, labels, scale, kind = make_case(number)
        cursor.execute("CREATE TEMP TABLE judged (v float8[], label int) ON COMMIT DROP")
        psycopg2.extras.execute_values(cursor, "INSERT INTO judged VALUES %s",
                                       [(row.tolist(), int(label)) for row, label in zip(data, labels)])
        cursor.execute("SELECT silhouette, davies_bouldin, calinski_harabasz FROM"
                       " gkmeans_evaluate_labels('judged', '{v}', 'label', scale => %s)", (scale,))
        got = cursor.fetchone()
        connection.commit()
        wanted = known(data, labels, scale)
        good = all(abs(g - w) <= 1e-6 * max(abs(w), 1e-3) for g, w in zip(got, wanted))
        failures += not good
        print(f"{'ok' if good else 'not ok'} {number + 1} - {kind}, n {len(data)} d {data.shape[1]}, scale {scale}")
        if not good:
            print(f"# got {got}, scikit-learn {wanted}")
    print(f"1..{CASES}")
    sys.exit(1 if failures else 0)


main()
