/*
 * Distances of one row to all centroids, for one width of vectors.
 *
 * nearest.c includes it once for each width, with VECTOR_BYTES, TARGET and NAME() defined.
 */
#define V NAME(Doubles)
#define L NAME(Integers)
#define LANES (VECTOR_BYTES / (int) sizeof(double))
/* vectors of a group */
#define PARTS (GK_GROUP / LANES)
/* groups at a time: eight sums in flight hide the latency of an addition */
#define MOST (8 / PARTS)

typedef double V __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
typedef int64_t L __attribute__((vector_size(VECTOR_BYTES)));

/* d² of `groups` groups, a constant at every call. */
TARGET static inline __attribute__((always_inline)) void
NAME(sum)(const double *packed, const double *row, int dimension, const int groups, V *sums)
{
	V			partial[8];

	for (int i = 0; i < groups * PARTS; i++)
		partial[i] = (V) {0};
	for (int j = 0; j < dimension; j++)
		_Pragma("GCC unroll 8")
		for (int i = 0; i < groups * PARTS; i++)
		{
			const double *place = packed + (int64_t) (i / PARTS) * GK_GROUP * dimension +
				(int64_t) j * GK_GROUP + i % PARTS * LANES;
			V			difference = row[j] - *(const V *) place;

			partial[i] += difference * difference;
		}
	for (int i = 0; i < groups * PARTS; i++)
		sums[i] = partial[i];
}

/* Sums as many groups as fit together; returns how many. */
TARGET static inline __attribute__((always_inline)) int
NAME(sum_some)(const double *packed, const double *row, int dimension, int64_t left, V *sums)
{
	if (left >= MOST)
	{
		NAME(sum)(packed, row, dimension, MOST, sums);
		return MOST;
	}
#if VECTOR_BYTES == 64
	if (left >= 4)
	{
		NAME(sum)(packed, row, dimension, 4, sums);
		return 4;
	}
#endif
#if VECTOR_BYTES >= 32
	if (left >= 2)
	{
		NAME(sum)(packed, row, dimension, 2, sums);
		return 2;
	}
#endif
	NAME(sum)(packed, row, dimension, 1, sums);
	return 1;
}

/* The least d² and its position, the first of equals: a lane only replaces a greater value. */
TARGET static int64_t
NAME(nearest)(const double *packed, const double *row, int dimension, int64_t groups,
			  double *distance2)
{
	V			sums[8];
	V			least = (V) {0} + HUGE_VAL;
	L			where = {0};
	int64_t		nearest = 0;

	for (int64_t group = 0; group < groups;)
	{
		int			done = NAME(sum_some)(packed + group * GK_GROUP * dimension, row, dimension,
										  groups - group, sums);

		for (int i = 0; i < done * PARTS; i++)
		{
			L			less = (L) (sums[i] < least);

			least = (V) (((L) sums[i] & less) | ((L) least & ~less));
			where = (((L) {0} + (group * GK_GROUP + i * LANES)) & less) | (where & ~less);
		}
		group += done;
	}
	*distance2 = HUGE_VAL;
	for (int lane = 0; lane < LANES; lane++)
	{
		int64_t		position = where[lane] + lane;

		if (least[lane] < *distance2 || (least[lane] == *distance2 && position < nearest))
		{
			*distance2 = least[lane];
			nearest = position;
		}
	}
	return nearest;
}

/* All d². */
TARGET static void
NAME(distances2)(const double *packed, const double *row, int dimension, int64_t groups,
				 double *distances2)
{
	V			sums[8];

	for (int64_t group = 0; group < groups;)
	{
		int			done = NAME(sum_some)(packed + group * GK_GROUP * dimension, row, dimension,
										  groups - group, sums);

		memcpy(distances2 + group * GK_GROUP, sums, done * GK_GROUP * sizeof(double));
		group += done;
	}
}

static const Kernels NAME(kernels) = {NAME(nearest), NAME(distances2)};

#undef V
#undef L
#undef LANES
#undef PARTS
#undef MOST
#undef VECTOR_BYTES
#undef TARGET
#undef NAME
