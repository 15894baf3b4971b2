#!/bin/bash
# Runs every block of SQL in README.md, docs/recipes.md and docs/models.md, one after the other in one session for
# each page, and prints TAP.
# test/readme.sh PSQL: run from the top of the sources, PGDATABASE set and the database empty.

pages=(README.md docs/recipes.md docs/models.md)
echo "1..$(cat "${pages[@]}" | grep -c '^```sql$')"
number=0
status=0
for page in "${pages[@]}"; do
    awk -v block="$number" -v page="$page" '
        /^```sql$/       { block++; line = NR; inside = 1; next }
        /^```$/ && inside { inside = 0; print "\\echo ok " block " - " page ", line " line; next }
        inside' "$page" |
        "$1" -X -q -v ON_ERROR_STOP=1 -o /dev/null || status=$?
    number=$((number + $(grep -c '^```sql$' "$page")))
done
exit $status
