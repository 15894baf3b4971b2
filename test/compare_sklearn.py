#!/usr/bin/python3
"""From the same initial centroids, gkmeans and scikit-learn give equal labels, iteration
counts and inertia. Prints TAP. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE."""
import os
import sys
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy
import psycopg2
import psycopg2.extras
from sklearn.cluster import KMeans

CASES = 130
warnings.filterwarnings("ignore")


def make_rows(random, rows, dimension, clusters, kind):
    """Blobs, one cloud, or an integer lattice with duplicates; as float32 values."""
    if kind == "blobs":
        centers = random.normal(size=(clusters, dimension)) * 5
        data = centers[random.integers(clusters, size=rows)] + random.normal(size=(rows, dimension))
    elif kind == "cloud":
        data = random.normal(size=(rows, dimension)) * 10.0 ** random.integers(-3, 4)
    else:
        data = random.integers(-50, 51, size=(rows, dimension)) + random.normal(size=(rows, dimension)) * 0.25
    return data.astype(numpy.float32).astype(numpy.float64)


def make_case(number):
    """One random case: rows, weights or None, initial centroids, tol."""
    random = numpy.random.default_rng(number)
    rows = int(random.choice([20, 100, 500, 1500, 5000]))
    dimension = int(random.choice([1, 2, 3, 4, 5, 8, 15, 16, 17, 32, 33, 64]))
    clusters = int(min(rows // 2, random.choice([1, 2, 3, 5, 8, 16, 17, 31, 50])))
    kind = str(random.choice(["blobs", "cloud", "lattice"]))
    data = make_rows(random, rows, dimension, clusters, kind)
    weights = random.uniform(0.1, 10, size=rows) if number % 2 else None
    initial = data[random.choice(rows, clusters, replace=False)].copy()
    far = number % 5 == 0 and clusters > 2
    if far:
        for i in range(int(random.integers(1, 3))):
            initial[i] += data.std() * 1e3 * (i + 1)
    tol = [1e-4, 0.0][number // 2 % 2]
    name = (f"{kind} n {rows} d {dimension} k {clusters}{' weighted' if weights is not None else ''}"
            f" tol {tol}{' empty clusters' if far else ''}")
    return name, data, weights, initial, tol


def fit_in_database(cursor, data, weights, initial, tol):
    """Labels in row order, iterations and inertia of gkmeans."""
    cursor.execute("CREATE TEMP TABLE compared (id int, v float8[], w float8) ON COMMIT DROP")
    psycopg2.extras.execute_values(
        cursor, "INSERT INTO compared VALUES %s",
        [(i, row.tolist(), None if weights is None else float(weights[i])) for i, row in enumerate(data)],
        page_size=1000)
    cursor.execute(
        "SELECT cluster_id, distance FROM gkmeans_fit_predict(NULL::int, 'compared', '{v}', %s, id_column => 'id',"
        " weight_column => %s, initial_centroids => %s::float8[], tol => %s) ORDER BY id",
        (len(initial), None if weights is None else "w", initial.tolist(), tol))
    labels = numpy.array([row[0] for row in cursor.fetchall()])
    cursor.execute("SELECT iterations, inertia, rows_read FROM gkmeans_last_fit()")
    return (labels,) + cursor.fetchone()


def same_partition(one, other):
    """Equal up to the numbering of the clusters."""
    pairs = len(set(zip(one.tolist(), other.tolist())))
    return pairs == len(set(one.tolist())) == len(set(other.tolist()))


def rested_early(known, data, weights, iterations):
    """With tol 0 scikit-learn also ends when labels changed but its rounded sums did not: one iteration earlier."""
    if known.tol != 0 or iterations != known.n_iter_ + 1 or known.n_iter_ < 2:
        return False
    before = KMeans(**{**known.get_params(), "max_iter": known.n_iter_ - 1}).fit(data, sample_weight=weights)
    return numpy.array_equal(before.cluster_centers_, known.cluster_centers_)


def compare(cursor, number):
    """Prints one TAP line, and why if it is not ok."""
    name, data, weights, initial, tol = make_case(number)
    known = KMeans(n_clusters=len(initial), init=initial, n_init=1, tol=tol, max_iter=300, algorithm="lloyd")
    known.fit(data, sample_weight=weights)
    labels, iterations, inertia, rows = fit_in_database(cursor, data, weights, initial, tol)
    wrong = []
    if rows != len(data):
        wrong.append(f"rows {rows}, not {len(data)}")
    if not same_partition(known.labels_, labels):
        wrong.append(f"{len(set(zip(known.labels_.tolist(), labels.tolist())))} pairs of labels for {len(initial)} clusters")
    if iterations != known.n_iter_ and not rested_early(known, data, weights, iterations):
        wrong.append(f"iterations {iterations}, scikit-learn {known.n_iter_}")
    if abs(inertia - known.inertia_) > 1e-6 * known.inertia_ + 1e-12:
        wrong.append(f"inertia {inertia}, scikit-learn {known.inertia_}")
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}, {iterations} iterations")
    for reason in wrong:
        print("# " + reason)
    return not wrong


def main():
    connection = psycopg2.connect(dbname=os.environ.get("PGDATABASE", "postgres"))
    print(f"1..{CASES}")
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans")
    connection.commit()
    good = 0
    for number in range(1, CASES + 1):
        with connection.cursor() as cursor:
            good += compare(cursor, number)
        connection.commit()
    sys.exit(0 if good == CASES else 1)


main()
