#!/bin/bash
# The module exports the functions that its SQL scripts name, and what PostgreSQL looks for: nothing
# else.  With each compiler that is installed, the kernels define what they refer to: an undefined
# name is found only when the module is loaded.  Prints TAP.
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

objects=$(mktemp -d)
trap 'rm -r "$objects"' EXIT

# The kernels that a compiler leaves undefined.
undefined_kernels() {
    local name flags
    for name in kernels kernels_{generic,avx2,avx512,amx}; do
        flags=$(make -s -f src/cpu/isa.mk --eval "flags:; @echo \$(ISA_$name)" CC="$1" flags)
        # shellcheck disable=SC2086
        "$1" -w -Wno-psabi $flags -Isrc/cpu -Isrc/engine -c "src/cpu/$name.c" -o "$objects/$name.o" || echo "$name.c"
    done
    comm -13 <(nm --defined-only "$objects"/*.o | sed -n 's/.* //p' | sort -u) \
        <(nm --undefined-only "$objects"/*.o | grep -o 'gk_cpu_kernels_.*' | sort -u)
}

number=1
for compiler in gcc clang; do
    number=$((number + 1))
    if ! command -v $compiler > /dev/null; then
        echo "ok $number # SKIP $compiler is not installed"
        continue
    fi
    undefined=$(undefined_kernels $compiler)
    [ -z "$undefined" ] || echo -n 'not '
    echo "ok $number - $compiler: all kernels are defined"
    [ -z "$undefined" ] || echo "# undefined: ${undefined//$'\n'/, }"
done
echo "1..$number"
