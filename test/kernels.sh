#!/bin/bash
# The GPU library exports the engine, and what tests need: nothing else.  Prints TAP.
# test/kernels.sh LIBRARY

expected='gk_cuda_engine gk_cuda_fault gk_cuda_multiply gk_cuda_pretend_capability gk_cuda_pretend_error gk_cuda_regions gk_cuda_stop'
names=$(nm -D --defined-only "$1" | sed -n 's/.* T //p' | sort | xargs)
echo 1..1
if [ "$names" = "$expected" ]; then
    echo 'ok 1 - the GPU library is built and exports the engine and what tests need alone'
else
    echo 'not ok 1 - the GPU library is built and exports the engine and what tests need alone'
    echo "$names" >&2
fi
