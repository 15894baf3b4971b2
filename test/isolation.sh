#!/bin/bash
# Runs the isolation specs by pg_isolation_regress and prints TAP.
# test/isolation.sh PROGRAM BINDIR OUTPUT: run from the top of the sources, PGDATABASE set.
#
# Before PostgreSQL 16 the program says "test name ... ok" instead of TAP.

program=$1
bindir=$2
output=$3
shopt -s nullglob

names=()
for file in test/specs/*.spec; do
    names+=("$(basename "$file" .spec)")
done
[ ${#names[@]} -gt 0 ] || { echo '1..0 # SKIP no specs'; exit; }

rm -rf "$output"
mkdir -p "$output"
cp -r expected "$output/expected"
directories=(--inputdir=test --outputdir="$output")
"$program" --help | grep -q expecteddir && directories+=(--expecteddir="$output")
"$program" "${directories[@]}" --bindir="$bindir" --dbname="$PGDATABASE" --use-existing "${names[@]}" \
    > "$output/said" 2>&1
status=$?

if grep -q '^1\.\.' "$output/said"; then
    grep -E '^(ok|not ok|1\.\.|#)' "$output/said"
else
    echo "1..${#names[@]}"
    sed -nE 's/^test (\S+) +\.\.\. ok.*/ok - \1/p; s/^test (\S+) +\.\.\. FAILED.*/not ok - \1/p' "$output/said"
fi
if [ $status -ne 0 ]; then
    cat "$output/said" >&2
    [ ! -f "$output/regression.diffs" ] || cat "$output/regression.diffs" >&2
fi
exit $status
