/*
 * Distances of one row to all centroids: the choice of the vectors' width.
 */
#include <math.h>
#include <string.h>

#include "nearest.h"

/* What one width of vectors offers. */
typedef struct Kernels
{
	int64_t		(*nearest) (const double *packed, const double *row, int dimension,
							int64_t groups, double *distance2);
	void		(*distances2) (const double *packed, const double *row, int dimension,
							   int64_t groups, double *distances2);
} Kernels;

#define VECTOR_BYTES 16
#define TARGET
#define NAME(name) name ## _plain
#include "nearest_template.h"

#ifdef __x86_64__
#define VECTOR_BYTES 32
#define TARGET __attribute__((target("avx2")))
#define NAME(name) name ## _avx2
#include "nearest_template.h"

#define VECTOR_BYTES 64
#define TARGET __attribute__((target("avx512f")))
#define NAME(name) name ## _avx512
#include "nearest_template.h"
#endif

/* The widest that this processor has. */
static const Kernels *
kernels(void)
{
	static const Kernels *chosen = NULL;

	if (chosen != NULL)
		return chosen;
	chosen = &kernels_plain;
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		chosen = &kernels_avx512;
	else if (__builtin_cpu_supports("avx2"))
		chosen = &kernels_avx2;
#endif
	return chosen;
}

/* Puts a centroid into its place among the packed ones. */
void
gk_pack_centroid(double *packed, int dimension, int64_t position, const double *centroid)
{
	double	   *place = packed + position / GK_GROUP * GK_GROUP * dimension + position % GK_GROUP;

	for (int j = 0; j < dimension; j++)
		place[(int64_t) j * GK_GROUP] = centroid[j];
}

/* Takes a centroid from its place. */
void
gk_unpack_centroid(const double *packed, int dimension, int64_t position, double *centroid)
{
	const double *place = packed + position / GK_GROUP * GK_GROUP * dimension +
		position % GK_GROUP;

	for (int j = 0; j < dimension; j++)
		centroid[j] = place[(int64_t) j * GK_GROUP];
}

/* Fills the places after the last centroid. */
void
gk_pack_rest(double *packed, int dimension, int64_t count)
{
	for (int64_t position = count; position < GK_GROUPS(count) * GK_GROUP; position++)
		for (int j = 0; j < dimension; j++)
			packed[position / GK_GROUP * GK_GROUP * dimension + (int64_t) j * GK_GROUP +
				   position % GK_GROUP] = HUGE_VAL;
}

/* The least d² and where. */
int64_t
gk_nearest(const double *packed, const double *row, int dimension, int64_t count,
		   double *distance2)
{
	return kernels()->nearest(packed, row, dimension, GK_GROUPS(count), distance2);
}

/* All d². */
void
gk_distances2(const double *packed, const double *row, int dimension, int64_t count,
			  double *distances2)
{
	kernels()->distances2(packed, row, dimension, GK_GROUPS(count), distances2);
}
