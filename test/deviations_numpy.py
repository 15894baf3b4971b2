#!/usr/bin/python3
"""The deviations within the clusters of a model are numpy's, of the rows as they are compared, to
1e-9. Prints TAP. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE."""
import itertools
import sys

import numpy
import psycopg2
import psycopg2.extras

SOURCES = [(40, 1, 3), (300, 4, 5), (2000, 17, 8), (1500, 3, 60)]
KINDS = list(itertools.product(["none", "standard", "minmax"], ["euclidean", "cosine"], [None, "w"]))


def make_rows(number, rows, dimension):
    """Clusters of very different width, and weights of which some are 0."""
    random = numpy.random.default_rng(number)
    centers = random.normal(size=(4, dimension)) * 1000
    group = random.integers(4, size=rows)
    data = centers[group] + random.normal(size=(rows, dimension)) * (10.0 ** -group)[:, None]
    return data, random.integers(0, 4, size=rows).astype(float)


def compared(data, shift, offset, factor, metric):
    """The rows as gkmeans compares them, and what a difference of 1 is in the units of the source."""
    x = (data - (shift or 0.0)).astype(numpy.float32).astype(float)
    unit = numpy.ones(data.shape[1])
    if factor is not None:
        x = ((x - offset) * factor).astype(numpy.float32).astype(float)
        unit = 1.0 / numpy.array(factor)
    if metric == "cosine":
        norm = numpy.zeros(len(x))
        for column in x.T:
            norm += column * column
        x = (x / numpy.where(norm > 0, numpy.sqrt(norm), 1.0)[:, None]).astype(numpy.float32).astype(float)
        unit = numpy.ones(data.shape[1])
    return x, unit


def known(x, unit, labels, weights, k):
    """What numpy says; NaN where a cluster has no weight."""
    found = numpy.full((k, x.shape[1]), numpy.nan)
    for cluster in range(k):
        mine = labels == cluster
        if weights[mine].sum() > 0:
            mean = numpy.average(x[mine], axis=0, weights=weights[mine])
            found[cluster] = numpy.sqrt(numpy.average((x[mine] - mean) ** 2, axis=0, weights=weights[mine])) * unit
    return found


def judge(cursor, data, weights, k, kind):
    """How far a model's deviations are from numpy's, at most, as a share."""
    scale, metric, weight_column = kind
    cursor.execute("SELECT gkmeans_create_model('spread', 'judged', '{v}', %s, weight_column => %s, scale => %s,"
                   " metric => %s, quality => 'fast', max_iter => 5)", (k, weight_column, scale, metric))
    cursor.execute("SELECT shift, scale_offset, scale_factor, deviations FROM spread")
    shift, offset, factor, deviations = cursor.fetchone()
    cursor.execute("SELECT gkmeans_predict('spread', v) FROM judged ORDER BY id")
    labels = numpy.array([label for label, in cursor.fetchall()])
    cursor.execute("DROP TABLE spread")
    x, unit = compared(data, shift, offset, factor, metric)
    wanted = known(x, unit, labels, weights if weight_column else numpy.ones(len(data)), len(deviations))
    got = numpy.array(deviations, dtype=float)
    if (numpy.isnan(got) != numpy.isnan(wanted)).any():
        return numpy.inf
    return numpy.nanmax(abs(got - wanted) / numpy.maximum(wanted, 1e-30))


def main():
    connection = psycopg2.connect("")
    cursor = connection.cursor()
    cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans; SET client_min_messages = error")
    connection.commit()
    failures = 0
    number = 0
    for rows, dimension, k in SOURCES:
        data, weights = make_rows(rows, rows, dimension)
        cursor.execute("CREATE TEMP TABLE judged (id int, v float8[], w float8) ON COMMIT DROP")
        psycopg2.extras.execute_values(cursor, "INSERT INTO judged VALUES %s",
                                       [(i, row.tolist(), float(weights[i])) for i, row in enumerate(data)])
        for kind in KINDS:
            number += 1
            worst = judge(cursor, data, weights, k, kind)
            failures += not worst <= 1e-9
            print(f"{'ok' if worst <= 1e-9 else 'not ok'} {number} - n {rows}, d {dimension}, k {k}, {kind}: {worst:.1e}")
        connection.commit()
    print(f"1..{number}")
    sys.exit(1 if failures else 0)


main()
