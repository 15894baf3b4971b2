# Flags of the files that are compiled for one instruction set.

ifneq (,$(filter x86_64%,$(shell $(CC) -dumpmachine)))
ISA_kernels_avx2 = -mavx2 -mfma
ISA_kernels_avx512 = -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mprefer-vector-width=512
# compilers before GCC 11 and clang 12 know no AMX
ifeq (ok,$(shell echo | $(CC) -mamx-tile -mamx-bf16 -E - >/dev/null 2>&1 && echo ok))
ISA_kernels_amx = $(ISA_kernels_avx512) -mamx-tile -mamx-bf16 -DGK_HAVE_AMX
ISA_kernels = -DGK_HAVE_AMX
endif
endif
