/*
 * Tests of what the CUDA engine's filter assumes of tensor cores.
 */
#ifndef CUDA_ACCUMULATION_H
#define CUDA_ACCUMULATION_H

#include <stdint.h>

/* What gkmeans_cuda exports for tests of it. */
typedef struct Probe
{
	/*
	 * products of pairs of 16-bit factors on an open GPU, by warps (0), or by warpgroups with rows
	 * in shared memory (1) or in registers (2); 0 if it does not work that way
	 */
	int			(*multiply) (int device, const uint16_t *a, const uint16_t *b, int depth,
							 int64_t pairs, int by, float *products);

	/* later checks multiply the error; returns the factor of GPU 0's bound, 0 if it is not open */
	double		(*pretend_error) (double times);
} Probe;

/* Searches for the products with the greatest error; GPU 0 must be open. */
void		search_worst_products(const Probe *probe, int rounds);

/* The same in models of tensor cores. */
void		search_models(int rounds);

#endif							/* CUDA_ACCUMULATION_H */
