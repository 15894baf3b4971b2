#!/bin/bash
# Checks the layers of docs/architecture.md beyond what the compiler sees, by names, and the length
# of lines.  Prints TAP.
# Run from the top of the sources.

shopt -s nullglob
number=0

result() {
    number=$((number + 1))
    echo "$1 $number - $2"
}

# check "what must hold" "pattern of violations" files ...
check() {
    local what=$1 pattern=$2 found
    shift 2
    if found=$(grep -nHE "$pattern" "$@" < /dev/null); then
        result 'not ok' "$what"
        printf '# %s\n' "$found"
    else
        result ok "$what"
    fi
}

server_headers='#include.*(postgres|access/|catalog/|executor/|storage/|utils/|fmgr|miscadmin)'
check 'the engines know nothing of PostgreSQL' "$server_headers|\b(palloc|ereport|elog)\(" \
    src/engine/* src/cpu/* src/cluster/* kernels/*.* kernels/cuda/*
check 'nothing of CUDA outside of kernels' '#include <.*cuda|\bcuda[A-Z]|\bnccl[A-Z]|\bcublas[A-Z]' src/*/*.[ch]
check 'libpq is known to src/links alone' '#include.*(libpq-(fe|int|events)|pqexpbuffer)|\bPQ[a-z]+\(' src/{engine,cpu,cluster,progress,job,rows,fit,nodes,sql,model,runs,pictures}/*.[ch]
check 'links know nothing of the server' "$server_headers|\b(palloc|ereport|elog)\(" src/links/*
check 'the host side of kernels includes no header with device code' '#include.*\.cuh"' kernels/*.cpp kernels/*.h
check 'what is built alike for all GPUs has no code for some of them' \
    '__CUDA_ARCH|"(centroids|epilogue|filter|narrow_(decide|scores|sums)|reaches|ring|rounding|tiles|wgmma)\.cuh"' \
    $(sed -n 's/^CUDA_ALIKE = //p' Makefile | xargs printf 'kernels/cuda/%s.cu ') kernels/cuda/{exact_tile,narrow,narrow_pack,sums,warp}.cuh
check 'the row path knows nothing of k-means' 'centroid|inertia|#include "(fit|seed)\.h"' src/rows/*
check 'the ring and its thread know nothing of PostgreSQL' "$server_headers|\b(palloc|ereport|elog)\(" \
    src/rows/{ring,drain}.[ch]
check 'the algorithm knows neither Datum nor SPI' '\bDatum +[a-z*(]|DatumGet|GetDatum|\bSPI_|#include.*(spi|fmgr)\.h' src/fit/*
check 'sorting can be cancelled: qsort_interruptible' '\bqsort(_arg|_r)?\(' src/{progress,job,rows,fit,nodes,sql,model,runs,pictures}/*.c
check 'pictures are drawn without running a query' '\bSPI_|#include.*spi\.h' src/pictures/*

# Tabs are four columns wide; what counts is characters, not bytes.
long_lines=$(perl -CSD -Mopen=:std,:utf8 -ne '
    chomp(my $line = $_);
    1 while $line =~ s/\t/" " x (4 - length($`) % 4)/e;
    print "$ARGV:$.: $line\n" if length $line > 100;
    close ARGV if eof' src/*/*.[ch] kernels/*.{cpp,h} kernels/cuda/* {bench,test/unit,test/modules}/*.[ch])
if [ $? -eq 0 ] && [ -z "$long_lines" ]; then
    result ok 'lines of C, C++ and CUDA have at most 100 columns'
else
    result 'not ok' 'lines of C, C++ and CUDA have at most 100 columns'
    printf '# %s\n' "$long_lines"
fi

version=$(sed -n 's/^EXTENSION_VERSION = //p' Makefile)
if grep -q "default_version = '$version'" gkmeans.control &&
    [ "$(grep -c "\"version\": \"$version\"" META.json)" -eq 2 ] && grep -q "^## $version" CHANGELOG.md && { ! [ -d debian ] || grep -q "^gkmeans ($version-" debian/changelog; }; then
    result ok "version $version in Makefile, control file, META.json and the changelogs"
else
    result 'not ok' "version $version in Makefile, control file, META.json and the changelogs"
fi
echo "1..$number"
