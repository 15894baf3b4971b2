#!/bin/bash
# No two files of a folder call each other, not even by way of a third one.  Prints TAP.  kernels/
# is left out: the methods of its class Engine lie in several files.
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

# The object files of a folder; none if the build left it out, and those of an earlier one are old.
objects_of() {
    local object source
    objects=()
    for object in "$1$2"*.o; do
        for source in "$2$(basename "$object" .o)".{c,cpp,cu}; do
            [ -f "$source" ] || continue
            [ "$object" -nt "$source" ] || { objects=(); return; }
            objects+=("$object")
        done
    done
}

number=0
shopt -s nullglob
for folder in src/*/ kernels/cuda/; do
    objects_of "$1/" "$folder"
    [ ${#objects[@]} -gt 1 ] || continue
    number=$((number + 1))
    if loops=$(calls "${objects[@]}" | tsort 2>&1 > /dev/null); then
        echo "ok $number - no circle of calls in $folder"
    else
        echo "not ok $number - no circle of calls in $folder"
        sed -n 's/^tsort: \(.*\.o\)$/# \1/p' <<< "$loops" | sort -u
    fi
done
echo "1..$number"
[ $number -gt 0 ]
