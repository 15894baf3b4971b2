#!/usr/bin/python3
"""gkmeans_evaluate_labels, gkmeans_evaluate and scikit-learn give equal silhouettes, Davies-Bouldin
and Calinski-Harabasz indices. Prints TAP. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE."""
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

CASES = 140
LABELLED = 120                  # cases of labels from anywhere; the others are of weighted models
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
    if number % 10 == 7:
        data = numpy.repeat(data[:1], rows, axis=0)
        kind = "equal rows"
    # scaled, equal means of a lattice differ by the rounding alone, and with them the index
    lattice = number % 4 == 1 or kind == "equal rows"
    scale = "none" if lattice else ["none", "standard", "minmax"][number % 3]
    metric = "cosine" if number % 6 == 2 and kind != "equal rows" else "euclidean"
    return data.astype(numpy.float32).astype(float), labels, scale, metric, kind


def known(data, labels, scale, metric):
    """What scikit-learn says of the rows as they are compared."""
    if scale == "standard":
        data = StandardScaler().fit_transform(data)
    elif scale == "minmax":
        data = MinMaxScaler().fit_transform(data)
    data = data.astype(numpy.float32).astype(float)
    if metric == "cosine":
        norms = numpy.linalg.norm(data, axis=1, keepdims=True)
        data = (data / numpy.where(norms > 0, norms, 1)).astype(numpy.float32).astype(float)
    return (silhouette_score(data, labels, metric=metric), davies_bouldin_score(data, labels), calinski_harabasz_score(data, labels))


def judge_labels(cursor, data, labels, scale, metric):
    """What gkmeans_evaluate_labels says of labels from a column; the labels."""
    cursor.execute("CREATE TEMP TABLE judged (v float8[], label int) ON COMMIT DROP")
    psycopg2.extras.execute_values(cursor, "INSERT INTO judged VALUES %s",
                                   [(row.tolist(), int(label)) for row, label in zip(data, labels)])
    cursor.execute("SELECT silhouette, davies_bouldin, calinski_harabasz FROM"
                   " gkmeans_evaluate_labels('judged', '{v}', 'label', scale => %s, metric => %s)", (scale, metric))
    return cursor.fetchone(), labels


def judge_model(cursor, data, labels, scale, metric):
    """What gkmeans_evaluate says of a model of weighted rows; the labels that the model gives."""
    cursor.execute("CREATE TEMP TABLE judged (id int, v float8[], weight float8) ON COMMIT DROP")
    psycopg2.extras.execute_values(cursor, "INSERT INTO judged VALUES %s",
                                   [(i, row.tolist(), float(1 + label)) for i, (row, label) in enumerate(zip(data, labels))])
    cursor.execute("SELECT gkmeans_create_model('weighted', 'judged', '{v}', %s, weight_column => 'weight',"
                   " scale => 'none', metric => %s)", (len(set(labels)), metric))
    cursor.execute("SELECT silhouette, davies_bouldin, calinski_harabasz FROM gkmeans_evaluate('weighted', 'judged')")
    got = cursor.fetchone()
    cursor.execute("SELECT gkmeans_predict('weighted', v) FROM judged ORDER BY id")
    labels = [label for label, in cursor.fetchall()]
    cursor.execute("DROP TABLE weighted")
    return got, labels


def main():
    connection = psycopg2.connect("")
    cursor = connection.cursor()
    cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans; SET client_min_messages = error")
    connection.commit()
    failures = 0
    for number in range(CASES):
        data, labels, scale, metric, kind = make_case(number)
        if number >= LABELLED:
            data = data + numpy.random.default_rng(number).normal(size=data.shape).astype(numpy.float32)
            data = data.astype(numpy.float32).astype(float)
            scale = "none"
            kind = "a model of weighted rows"
        judge = judge_labels if number < LABELLED else judge_model
        got, labels = judge(cursor, data, labels, scale, metric)
        connection.commit()
        wanted = known(data, labels, scale, metric)
        good = all(g is not None and abs(g - w) <= 1e-6 * max(abs(w), 1e-3) for g, w in zip(got, wanted))
        failures += not good
        print(f"{'ok' if good else 'not ok'} {number + 1} - {kind}, n {len(data)} d {data.shape[1]}, scale {scale}, {metric}")
        if not good:
            print(f"# got {got}, scikit-learn {wanted}")
    print(f"1..{CASES}")
    sys.exit(1 if failures else 0)


main()
