#!/usr/bin/python3
"""Labels tables that others drop, rename and change while fits write them: no crash, no internal error, no half
written table, nothing left. Prints TAP. Connects by PGHOST, PGPORT, PGUSER and PGDATABASE.

labels_ddl.py [--seconds S] [--seed S]"""
import argparse
import collections
import random
import threading
import time

import psycopg2

ROWS = 500
CHANGES = ["ALTER TABLE labels RENAME id TO other", "ALTER TABLE labels RENAME other TO id",
           "ALTER TABLE labels ALTER id TYPE bigint", "ALTER TABLE labels RENAME TO aside",
           "ALTER TABLE aside RENAME TO labels", "DROP TABLE IF EXISTS aside, labels",
           "CREATE VIEW labels AS SELECT 1 AS id", "DROP VIEW labels", "ALTER TABLE labels SET SCHEMA elsewhere",
           "DROP TABLE IF EXISTS elsewhere.labels", "DROP SCHEMA elsewhere CASCADE", "CREATE SCHEMA elsewhere"]
FIT = """SELECT count(*) FROM gkmeans_fit('rows', '{x,y}', 3, id_column => 'id', labels_table => %s,
         if_exists => %s)"""


def act(cursor, dice):
    """Does one thing of what sessions do to a labels table."""
    what = dice.randrange(4)
    if what == 0:
        cursor.execute(dice.choice(CHANGES))
    elif what == 1:
        cursor.execute("SELECT count(*) FROM labels")
        count = cursor.fetchone()[0]
        if count % ROWS != 0 and count != 1:
            return f"{count} labels"
    else:
        cursor.execute(FIT, (dice.choice(["labels", "labels", "elsewhere.labels"]),
                             dice.choice(["error", "replace", "append", "merge", "delete"])))
    return None


def session(number, options, faults, codes):
    dice = random.Random(options.seed + number)
    connection = psycopg2.connect("")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SET client_min_messages = error; SET lock_timeout = '2s'")
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        try:
            fault = act(cursor, dice)
            codes["ok"] += 1
        except psycopg2.Error as error:
            codes[error.pgcode] += 1
            fault = str(error) if connection.closed or (error.pgcode or "XX").startswith("XX") else None
        if fault:
            faults.append(fault)
        if connection.closed:
            return
    cursor.execute("SELECT count(*) FROM gkmeans_memory() WHERE bytes > 0")
    if cursor.fetchone()[0] > 0:
        faults.append("memory is left")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"# labels_ddl.py --seed {options.seed}")
    connection = psycopg2.connect("")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("CREATE EXTENSION IF NOT EXISTS gkmeans; CREATE SCHEMA elsewhere; "
                   f"CREATE TABLE rows AS SELECT i AS id, i % 10 AS x, i / 100 AS y FROM generate_series(1, {ROWS}) i")
    faults, codes = [], collections.Counter()
    threads = [threading.Thread(target=session, args=(i, options, faults, codes)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("#", dict(codes))
    for fault in sorted(set(faults)):
        print("#", fault.replace("\n", " "))
    print("ok 1" if not faults else "not ok 1", "- labels tables that others change")
    cursor.execute("SELECT count(*) FROM gkmeans_sessions()")
    print("ok 2" if cursor.fetchone()[0] == 0 and codes["ok"] > 0 else "not ok 2", "- nothing is left")
    print("1..2")


main()
