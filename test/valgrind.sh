#!/bin/bash
# Runs test/valgrind.sql in PostgreSQL's single-user mode under valgrind and prints TAP.
# test/valgrind.sh BINDIR OUTPUT: run from the top of the sources.

bindir=$1
output=$2

single() {
    "$@" "$bindir/postgres" --single -j -D "$output/data" -c shared_buffers=16MB postgres
}

rm -rf "$output"
mkdir -p "$output"
"$bindir/initdb" -D "$output/data" -U postgres -A trust --no-locale -E UTF8 --no-sync > "$output/initdb.log"
printf 'CREATE EXTENSION gkmeans;\n\n' | single env > "$output/prepare.log" 2>&1
single valgrind --leak-check=no --num-callers=25 --fullpath-after="$PWD/" --log-file="$output/valgrind.log" \
    < test/valgrind.sql > "$output/statements.log" 2>&1
status=$?

echo 1..2
if [ $status -eq 0 ] && ! grep -E 'ERROR|FATAL|PANIC|WARNING' "$output/prepare.log" "$output/statements.log" >&2; then
    echo 'ok 1 - the statements run'
else
    echo 'not ok 1 - the statements run'
    tail -n 20 "$output/statements.log" >&2
fi
# A report of valgrind is a paragraph; ours are those with a frame in our sources.
perl -ne 'BEGIN { $/ = "" } print if m{\((src|kernels)/}' <(sed -E 's/^==[0-9]+== ?//' "$output/valgrind.log") \
    > "$output/ours.log"
if [ -s "$output/valgrind.log" ] && [ ! -s "$output/ours.log" ]; then
    echo 'ok 2 - no error in gkmeans'
else
    echo 'not ok 2 - no error in gkmeans'
    head -n 60 "$output/ours.log" >&2
fi
