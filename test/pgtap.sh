#!/bin/bash
# Runs the tests of test/sql, or those that are named, in a database of their own on the server that
# the environment says; for `make installcheck`.
# test/pgtap.sh [FILE ...]: run from the top of the sources.

set -eu
export PGDATABASE=gkmeans_pgtap
[ $# -gt 0 ] || set -- test/sql/*.sql

if [ -z "$(psql -X -A -t -d postgres -c "SELECT 1 FROM pg_available_extensions WHERE name = 'pgtap'")" ]; then
    echo 'test/sql is left out: pgTAP is not installed'
    exit
fi
psql -X -q -d postgres -c 'SET client_min_messages = warning' \
    -c "DROP DATABASE IF EXISTS $PGDATABASE" -c "CREATE DATABASE $PGDATABASE"
psql -X -q -c 'CREATE EXTENSION gkmeans' -c 'CREATE EXTENSION pgtap'
if ! psql -X -q -v ON_ERROR_STOP=1 -c "LOAD 'gkmeans'" -c "LOAD 'gkmeans_faults'" 2> /dev/null; then
    echo 'the tests that need test/modules are left out: it is not installed'
    mapfile -t files < <(grep -L "LOAD 'gkmeans_faults'" "$@")
    set -- "${files[@]}"
fi
prove --exec 'psql -X -q -A -t -P pager=off -v ON_ERROR_STOP=1 -f' "$@"
psql -X -q -d postgres -c "DROP DATABASE $PGDATABASE"
