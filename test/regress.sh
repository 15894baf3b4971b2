#!/bin/bash
# Runs pg_regress, or pg_isolation_regress, on the tests of a folder and prints TAP.
# test/regress.sh PROGRAM BINDIR OUTPUT FOLDER: run from the top of the sources, PGDATABASE set.
# FOLDER has specs/*.spec for pg_isolation_regress, sql/*.sql for pg_regress, and expected/*.out.
#
# Before PostgreSQL 16 the program says "test name ... ok" instead of TAP.

program=$1
bindir=$2
output=$3
folder=$4
shopt -s nullglob

files=("$folder"/sql/*.sql)
[ "$(basename "$program")" = pg_regress ] || files=("$folder"/specs/*.spec)
names=()
for file in "${files[@]}"; do
    file=$(basename "$file")
    names+=("${file%.*}")
done
[ ${#names[@]} -gt 0 ] || { echo '1..0 # SKIP no tests'; exit; }

rm -rf "$output"
mkdir -p "$output"
cp -r "$folder/expected" "$output/expected"
directories=(--inputdir="$folder" --outputdir="$output")
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
