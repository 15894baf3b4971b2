#!/bin/bash
# Runs every block of SQL in README.md, one after the other in one session, and prints TAP.
# test/readme.sh PSQL: run from the top of the sources, PGDATABASE set and the database empty.

echo "1..$(grep -c '^```sql$' README.md)"
awk '
    /^```sql$/       { block++; line = NR; inside = 1; next }
    /^```$/ && inside { inside = 0; print "\\echo ok " block " - README.md, line " line; next }
    inside' README.md |
    "$1" -X -q -v ON_ERROR_STOP=1 -o /dev/null
