#!/usr/bin/python3
"""gkmeans_compare_labels gives scikit-learn's adjusted Rand index and mutual information, and counts as many moved rows
as SciPy's optimal assignment. Prints TAP. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE."""
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy
import psycopg2
import psycopg2.extras
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

CASES = 100


def make_case(number):
    """One random case: two labels for each row."""
    random = numpy.random.default_rng(number)
    rows = int(random.choice([1, 2, 5, 20, 100, 400, 3000]))
    clusters = int(random.choice([1, 2, 3, 8, 50, 300]))
    left = random.integers(clusters, size=rows)
    kind = number % 5
    if kind == 0:
        return left, random.integers(clusters, size=rows), "independent"
    if kind == 1:
        return left, random.permutation(clusters)[left] * 7 - 3, "renamed"
    if kind == 2:
        return left, numpy.where(random.random(rows) < 0.2, random.integers(clusters, size=rows), left), "a fifth moved"
    if kind == 3:
        return left, left // 3, "merged"
    return left, left * 4 + random.integers(4, size=rows), "split"


def known(left, right):
    """What scikit-learn and SciPy say."""
    table = contingency_matrix(left, right)
    pairs = linear_sum_assignment(table, maximize=True)
    return adjusted_rand_score(left, right), normalized_mutual_info_score(left, right), len(left) - int(table[pairs].sum())


def main():
    connection = psycopg2.connect("")
    cursor = connection.cursor()
    cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans")
    connection.commit()
    failures = 0
    for number in range(CASES):
        left, right, kind = make_case(number)
        cursor.execute("CREATE TEMP TABLE judged (a int, b int) ON COMMIT DROP")
        psycopg2.extras.execute_values(cursor, "INSERT INTO judged VALUES %s",
                                       [(int(a), int(b)) for a, b in zip(left, right)])
        cursor.execute("SELECT adjusted_rand, normalized_mutual_info, moved FROM"
                       " gkmeans_compare_labels('judged', 'a', 'b')")
        got = cursor.fetchone()
        connection.commit()
        wanted = known(left, right)
        good = all(abs(g - w) <= 1e-9 for g, w in zip(got, wanted))
        failures += not good
        print(f"{'ok' if good else 'not ok'} {number + 1} - {kind}, n {len(left)}, {len(set(left))} and {len(set(right))} clusters")
        if not good:
            print(f"# got {got}, wanted {wanted}")
    print(f"1..{CASES}")
    sys.exit(1 if failures else 0)


main()
