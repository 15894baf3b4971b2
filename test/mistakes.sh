#!/bin/bash
# Makes every mistake of test/mistakes.sql, compares the messages with test/expected/mistakes.out, and prints TAP.
# test/mistakes.sh PSQL OUTPUT: run from the top of the sources, PGDATABASE set and the database empty.

psql=$1
output=$2

# Of two mistakes, the one that is read first is reported, and by the session itself.
PGOPTIONS='-c max_parallel_workers_per_gather=0' "$psql" -X -a -q -v VERBOSITY=default -f test/mistakes.sql 2>&1 |
    sed -E 's/^psql:[^ ]*: //' > "$output"
echo "1..1"
if diff -u test/expected/mistakes.out "$output" >&2; then
    echo "ok 1 - $(grep -cE '^(ERROR|WARNING|NOTICE): ' test/expected/mistakes.out) messages are those of test/expected/mistakes.out"
else
    echo 'not ok 1 - the messages are those of test/expected/mistakes.out'
fi
