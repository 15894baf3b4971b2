#!/bin/bash
# The module exports the functions that its SQL scripts name, and what PostgreSQL looks for: nothing
# else.  Prints TAP.
# test/exports.sh LIBRARY: run from the top of the sources.

expected=$(
    printf '%s\n' Pg_magic_func _PG_init
    sed -n "s/.*AS 'MODULE_PATHNAME', '\([a-z_]*\)'.*/\1\npg_finfo_\1/p" sql/*.sql |
        sort -u
)
difference=$(diff <(sort <<< "$expected") <(nm -D --defined-only "$1" | sed 's/.* . //' | sort))
if [ -z "$difference" ]; then
    echo "ok 1 - the module exports $(wc -l <<< "$expected") symbols and no other"
else
    echo 'not ok 1 - the module exports what it has to and no other symbol'
    grep '^[<>]' <<< "$difference" | sed 's/^</# missing:/; s/^>/# too many:/'
fi
echo '1..1'
