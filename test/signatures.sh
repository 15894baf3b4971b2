#!/bin/bash
# docs/sql-reference.md lists the signature of each function as the catalog has it.  Prints TAP.
# test/signatures.sh PSQL: run from the top of the sources; PGDATABASE need not have the extension.

name='docs/sql-reference.md lists all functions with their arguments, defaults and columns'
one_line() { tr -s ' \n' '\n' | sed '/^$/d'; }
documented=$(sed -n '/^## Signatures$/,/^## /{/^    /p}' docs/sql-reference.md | one_line)
actual=$("$1" -XqAt -v ON_ERROR_STOP=1 -c BEGIN -c 'SET client_min_messages = error' \
    -c 'CREATE EXTENSION IF NOT EXISTS gkmeans' -f test/signatures.sql | one_line)
if [ -n "$actual" ] && difference=$(diff <(echo "$documented") <(echo "$actual")); then
    echo "ok 1 - $name"
else
    echo "not ok 1 - $name"
    sed 's/^/# /' <<< "$difference"
fi
echo '1..1'
