# Flags of the files that are compiled for one instruction set.

ifneq (,$(filter x86_64%,$(shell $(CC) -dumpmachine)))
ISA_kernels_avx2 = -mavx2 -mfma
ISA_kernels_avx512 = -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mprefer-vector-width=512
endif
