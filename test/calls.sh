#!/bin/bash
# No two files of a room call each other, not even by way of a third one.  Prints TAP.
# test/calls.sh FOLDER: where `make` has put the object files.

# "from to" for each pair of object files of which the first needs a symbol of the second.
calls() {
    nm -A "$@" | awk '
        { file = $1; sub(/:.*/, "", file); symbol = $NF; kind = $(NF - 1) }
        kind == "U" { needs[file, symbol] = 1; next }
        kind ~ /[BDRT]/ { home[symbol] = file }
        END {
            for (need in needs) {
                split(need, part, SUBSEP)
                if (part[2] in home && home[part[2]] != part[1]) print part[1], home[part[2]]
            }
        }' | sort
}

number=0
shopt -s nullglob
for room in "$1"/src/*/ "$1"/kernels/ "$1"/kernels/cuda/; do
    objects=("$room"*.o)
    [ ${#objects[@]} -gt 1 ] || continue
    number=$((number + 1))
    if loops=$(calls "${objects[@]}" | tsort 2>&1 > /dev/null); then
        echo "ok $number - no circle of calls in ${room#"$1"/}"
    else
        echo "not ok $number - no circle of calls in ${room#"$1"/}"
        sed -n 's/^tsort: \(.*\.o\)$/# \1/p' <<< "$loops" | sort -u
    fi
done
echo "1..$number"
[ $number -gt 0 ]
