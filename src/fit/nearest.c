/*
 * Distances of one row to all centroids: the choice of the vectors' width, and the filter.
 */
#include <math.h>
#include <string.h>

#include "nearest.h"

/* The best score, the second best, and whose the best is. */
typedef struct Found
{
	float		best;
	float		second;
	int64_t		place;
} Found;

/* The functions for one width of vectors. */
typedef struct Kernels
{
	const char *name;
	int64_t		(*nearest) (const double *packed, const double *row, int dimension,
							int64_t groups, double *distance2);
	void		(*distances2) (const double *packed, const double *row, int dimension,
							   int64_t groups, double *distances2);
	Found		(*scores) (const float *packed, const float *row, int dimension, int64_t groups,
						   float *scores);
} Kernels;

#define VECTOR_BYTES 16
#define TARGET
#define FUSE(a, b, c) ((c) - (a) * (b))
#define NAME(name) name ## _plain
#define NAME_TEXT "plain"
#include "nearest_template.h"

#ifdef __x86_64__
#include <immintrin.h>

#define VECTOR_BYTES 32
#define TARGET __attribute__((target("avx2,fma")))
#define FUSE(a, b, c) ((F_avx2) _mm256_fnmadd_ps((__m256) (a), (__m256) (b), (__m256) (c)))
#define NAME(name) name ## _avx2
#define NAME_TEXT "avx2"
#include "nearest_template.h"

#define VECTOR_BYTES 64
#define TARGET __attribute__((target("avx512f")))
#define FUSE(a, b, c) ((F_avx512) _mm512_fnmadd_ps((__m512) (a), (__m512) (b), (__m512) (c)))
#define NAME(name) name ## _avx512
#define NAME_TEXT "avx512"
#include "nearest_template.h"
#endif

static const Kernels *chosen = NULL;

/* The kernels of a name, or the widest, if this processor has them. */
static const Kernels *
find_kernels(const char *name)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if ((name == NULL || strcmp(name, kernels_avx512.name) == 0) &&
		__builtin_cpu_supports("avx512f"))
		return &kernels_avx512;
	if ((name == NULL || strcmp(name, kernels_avx2.name) == 0) &&
		__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &kernels_avx2;
#endif
	return name == NULL || strcmp(name, kernels_plain.name) == 0 ? &kernels_plain : NULL;
}

/* The kernels in use. */
static inline const Kernels *
kernels(void)
{
	if (chosen == NULL)
		chosen = find_kernels(NULL);
	return chosen;
}

/* Chooses the kernels by name. */
bool
gk_nearest_use(const char *name)
{
	const Kernels *found = find_kernels(name);

	if (found != NULL)
		chosen = found;
	return found != NULL;
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

/*
 * Below this many numbers, or this few centroids, the definition takes no longer: from 64 kB of
 * centroids on the filter is worth its copy of them.
 */
#define SIEVE_NUMBERS 8192
#define SIEVE_CENTROIDS 32

/* True if a filter makes the search faster. */
bool
gk_sieve_pays(int dimension, int64_t count)
{
	return count >= SIEVE_CENTROIDS && count * dimension >= SIEVE_NUMBERS;
}

/* Centroids in whole groups of the filter. */
static int64_t
sieve_places(int64_t count)
{
	return (count + GK_SIEVE_GROUP - 1) / GK_SIEVE_GROUP * GK_SIEVE_GROUP;
}

/* Floats of a filter. */
int64_t
gk_sieve_floats(int dimension, int64_t count)
{
	return sieve_places(count) * (dimension + INT64_C(1)) + count + dimension;
}

/* Floats of what it needs for a row. */
int64_t
gk_sieve_scratch(int dimension, int64_t count)
{
	return sieve_places(count) + dimension;
}

/* Centroids whose mean is the origin of the filter's space, at most. */
#define SIEVE_SAMPLE 64

/* Sets the space: its scale, and its origin, which is near the centroids. */
static void
set_space(GkSieve *sieve, const double *packed, int dimension, int64_t count, double scale)
{
	int64_t		sample = count < SIEVE_SAMPLE ? count : SIEVE_SAMPLE;

	sieve->scale = scale;
	for (int j = 0; j < dimension; j++)
	{
		double		sum = 0.0;

		for (int64_t i = 0; i < sample; i++)
			sum += packed[i / GK_GROUP * GK_GROUP * dimension + (int64_t) j * GK_GROUP +
						  i % GK_GROUP] / (double) sample;
		sieve->center[j] = (float) (sum * scale);
	}
}

/* Brings a group of centroids into the space; half their squared norms. */
static void
pack_floats(const GkSieve *sieve, const double *packed, int dimension, int64_t group,
			double *halves)
{
	int64_t		first = group * GK_GROUP;
	float	   *place = sieve->packed + first / GK_SIEVE_GROUP * GK_SIEVE_GROUP *
		(dimension + INT64_C(1)) + first % GK_SIEVE_GROUP;

	packed += first * dimension;
	for (int i = 0; i < GK_GROUP; i++)
		halves[i] = 0.0;
	for (int j = 0; j < dimension; j++)
		for (int i = 0; i < GK_GROUP; i++)
		{
			double		moved = packed[(int64_t) j * GK_GROUP + i] * sieve->scale -
				sieve->center[j];

			place[(j + INT64_C(1)) * GK_SIEVE_GROUP + i] = (float) moved;
			halves[i] += moved * moved / 2;
		}
	for (int i = 0; i < GK_GROUP; i++)
		place[i] = (float) halves[i];
}

/* Puts what is infinitely far into a place behind the last centroid. */
static void
leave_out(const GkSieve *sieve, int dimension, int64_t position)
{
	float	   *place = sieve->packed + position / GK_SIEVE_GROUP * GK_SIEVE_GROUP *
		(dimension + INT64_C(1)) + position % GK_SIEVE_GROUP;

	place[0] = HUGE_VALF;
	for (int j = 0; j < dimension; j++)
		place[(j + INT64_C(1)) * GK_SIEVE_GROUP] = 0.0f;
}

/* Packs the centroids for the filter, and finds their norms. */
static void
pack_sieve(GkSieve *sieve, const double *packed, int dimension, int64_t count)
{
	sieve->greatest_norm = 0.0;
	for (int64_t group = 0; group < GK_GROUPS(count); group++)
	{
		double		halves[GK_GROUP];

		pack_floats(sieve, packed, dimension, group, halves);
		for (int i = 0; i < GK_GROUP && group * GK_GROUP + i < count; i++)
		{
			double		norm = sqrt(2 * halves[i]) * (1.0 + 0x1p-20) + 0x1p-120;

			sieve->norms[group * GK_GROUP + i] = (float) norm;
			if (!(norm <= sieve->greatest_norm))
				sieve->greatest_norm = norm;
		}
	}
	for (int64_t i = count; i < sieve_places(count); i++)
		leave_out(sieve, dimension, i);
}

/* Makes the filter in a space where the greatest norm is about 1. */
bool
gk_make_sieve(GkSieve *sieve, float *memory, const double *packed, int dimension, int64_t count)
{
	int			exponent;

	sieve->packed = memory;
	sieve->norms = memory + sieve_places(count) * (dimension + INT64_C(1));
	sieve->center = sieve->norms + count;
	set_space(sieve, packed, dimension, count, 1.0);
	pack_sieve(sieve, packed, dimension, count);
	if (!isfinite(sieve->greatest_norm))
		return false;
	(void) frexp(sieve->greatest_norm, &exponent);
	exponent = exponent > 100 ? 100 : exponent < -100 ? -100 : exponent;
	if (exponent != 0)
	{
		set_space(sieve, packed, dimension, count, ldexp(1.0, -exponent));
		pack_sieve(sieve, packed, dimension, count);
	}
	return sieve->greatest_norm < 0x1p40;
}

/* Brings a row into the filter's space; its norm there at most. */
static double
move_row(const GkSieve *sieve, const double *row, int dimension, float *moved)
{
	double		norm2 = 0.0;

	for (int j = 0; j < dimension; j++)
	{
		moved[j] = (float) (row[j] * sieve->scale - sieve->center[j]);
		norm2 += (double) moved[j] * moved[j];
	}
	return sqrt(norm2) * (1.0 + 0x1p-20) + 0x1p-100;
}

/* By how much a score can exceed the best and still be the nearest centroid's: W of kernels.h. */
static double
sieve_window(const GkSieve *sieve, double x, double norm, int dimension)
{
	double		near = (2.0 * x + norm) * (1.0 + 0x1p-10);
	double		c = near < sieve->greatest_norm ? near : sieve->greatest_norm;
	double		gamma = (dimension + 16) * 0x1p-24 * 1.01;

	return (gamma * (c * c + 2.0 * x * c) + (dimension + 16) * 0x1p-49 * (x + c) * (x + c) +
			0x1p-90) * 1.001;
}

/* The nearest of the centroids whose score is not above a limit, by the definition. */
static int64_t
nearest_within(double limit, const float *scores, const double *packed, const double *row,
			   int dimension, int64_t count, double *distance2)
{
	int64_t		nearest = 0;

	*distance2 = HUGE_VAL;
	for (int64_t group = 0; group < GK_GROUPS(count); group++)
	{
		double		distances2[GK_GROUP];
		bool		within = false;

		for (int64_t i = group * GK_GROUP; i < (group + 1) * GK_GROUP && i < count; i++)
			within |= !(scores[i] > limit);
		if (!within)
			continue;
		kernels()->distances2(packed + group * GK_GROUP * dimension, row, dimension, 1, distances2);
		for (int i = 0; i < GK_GROUP; i++)
			if (distances2[i] < *distance2)
			{
				*distance2 = distances2[i];
				nearest = group * GK_GROUP + i;
			}
	}
	return nearest;
}

/* The least d² and where, with a filter. */
int64_t
gk_nearest_sieved(const GkSieve *sieve, float *scratch, const double *packed, const double *row,
				  int dimension, int64_t count, double *distance2)
{
	float	   *scores = scratch + dimension;
	double		x = move_row(sieve, row, dimension, scratch);
	Found		found = kernels()->scores(sieve->packed, scratch, dimension,
										  sieve_places(count) / GK_SIEVE_GROUP, scores);
	double		limit;
	double		distances2[GK_GROUP];

	/* a row that is too far for floats */
	if (!(x < 0x1p60) || !isfinite(found.best))
		return gk_nearest(packed, row, dimension, count, distance2);
	limit = found.best + sieve_window(sieve, x, sieve->norms[found.place], dimension);
	if (!(found.second > limit))
		return nearest_within(limit, scores, packed, row, dimension, count, distance2);
	kernels()->distances2(packed + found.place / GK_GROUP * GK_GROUP * dimension, row, dimension,
						  1, distances2);
	*distance2 = distances2[found.place % GK_GROUP];
	return found.place;
}
