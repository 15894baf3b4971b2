#!/bin/bash
# Runs every block of SQL and Python in README.md and pages of docs/, one after the other in one session for
# each page, compares what they print with what the page shows, and prints TAP.
# test/readme.sh PSQL PYTHON: run from the top of the sources, PGDATABASE set and the database empty.

pages=(README.md docs/recipes.md docs/models.md)
# its blocks of Python need scikit-learn and psycopg2
! "$2" -c 'import psycopg2, sklearn' 2> /dev/null || pages+=(docs/coming_from.md)
PSQL=$1 exec "$2" test/readme/pages.py "${pages[@]}"
