/*
 * Distances of one row to all centroids, for one width of vectors.
 *
 * Included by nearest.c once a width, with VECTOR_BYTES, TARGET, NAME(), NAME_TEXT and
 * FUSE(a, b, c), c - a b of floats, defined.
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

/* The same of floats. */
#define F NAME(F)
#define I NAME(Places)
#define SIEVE_LANES (2 * LANES)
#define SIEVE_PARTS (GK_SIEVE_GROUP / SIEVE_LANES)
#define SIEVE_MOST (8 / SIEVE_PARTS)

typedef float F __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t I __attribute__((vector_size(VECTOR_BYTES)));

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

/* As many groups as can go together; how many. */
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

/* The least d² and where: the first of equals, as each lane keeps what is not greater. */
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

/* Scores of `groups` groups of the filter, a constant at every call. */
TARGET static inline __attribute__((always_inline)) void
NAME(score)(const float *packed, const float *row, int dimension, const int groups, F *sums)
{
	int64_t		stride = (dimension + INT64_C(1)) * GK_SIEVE_GROUP;
	F			partial[8];

	_Pragma("GCC unroll 8")
	for (int i = 0; i < groups * SIEVE_PARTS; i++)
		partial[i] = *(const F *) (packed + i / SIEVE_PARTS * stride +
								   i % SIEVE_PARTS * SIEVE_LANES);
	for (int j = 0; j < dimension; j++)
	{
		F			x = (F) {} + row[j];

		_Pragma("GCC unroll 8")
		for (int i = 0; i < groups * SIEVE_PARTS; i++)
		{
			const float *place = packed + i / SIEVE_PARTS * stride +
				(j + INT64_C(1)) * GK_SIEVE_GROUP + i % SIEVE_PARTS * SIEVE_LANES;

			partial[i] = FUSE(x, *(const F *) place, partial[i]);
		}
	}
	_Pragma("GCC unroll 8")
	for (int i = 0; i < groups * SIEVE_PARTS; i++)
		sums[i] = partial[i];
}

/* As many groups as can go together; how many. */
TARGET static inline __attribute__((always_inline)) int
NAME(score_some)(const float *packed, const float *row, int dimension, int64_t left, F *sums)
{
	if (left >= SIEVE_MOST)
	{
		NAME(score)(packed, row, dimension, SIEVE_MOST, sums);
		return SIEVE_MOST;
	}
#if VECTOR_BYTES == 64
	if (left >= 2)
	{
		NAME(score)(packed, row, dimension, 2, sums);
		return 2;
	}
#endif
	NAME(score)(packed, row, dimension, 1, sums);
	return 1;
}

/* One value where a mask is set, another elsewhere. */
TARGET static inline __attribute__((always_inline)) F
NAME(choose)(I mask, F yes, F no)
{
	return (F) (((I) yes & mask) | ((I) no & ~mask));
}

/* What the lanes have found, together. */
TARGET static inline __attribute__((always_inline)) Found
NAME(gather)(F best, F second, I where)
{
	Found		found = {HUGE_VALF, HUGE_VALF, 0};

	for (int lane = 0; lane < SIEVE_LANES; lane++)
	{
		float		rest = best[lane];

		if (best[lane] < found.best)
		{
			rest = found.best;
			found.best = best[lane];
			found.place = where[lane] + lane;
		}
		found.second = rest < found.second ? rest : found.second;
		found.second = second[lane] < found.second ? second[lane] : found.second;
	}
	return found;
}

/* All scores, and the best of them. */
TARGET static Found
NAME(scores)(const float *packed, const float *row, int dimension, int64_t groups, float *scores)
{
	int64_t		stride = (dimension + INT64_C(1)) * GK_SIEVE_GROUP;
	F			sums[8];
	F			best = (F) {} + HUGE_VALF;
	F			second = best;
	I			where = {};

	for (int64_t group = 0; group < groups;)
	{
		int			done = NAME(score_some)(packed + group * stride, row, dimension,
											groups - group, sums);

		for (int i = 0; i < done * SIEVE_PARTS; i++)
		{
			I			less = (I) (sums[i] < best);
			F			other = NAME(choose)(less, best, sums[i]);
			int32_t		place = (int32_t) (group * GK_SIEVE_GROUP + i * SIEVE_LANES);

			second = NAME(choose)((I) (other < second), other, second);
			best = NAME(choose)(less, sums[i], best);
			where = (((I) {} + place) & less) | (where & ~less);
		}
		memcpy(scores + group * GK_SIEVE_GROUP, sums, done * GK_SIEVE_GROUP * sizeof(float));
		group += done;
	}
	return NAME(gather)(best, second, where);
}

static const Kernels NAME(kernels) = {NAME_TEXT, NAME(nearest), NAME(distances2), NAME(scores)};

#undef F
#undef I
#undef SIEVE_LANES
#undef SIEVE_PARTS
#undef SIEVE_MOST
#undef NAME_TEXT
#undef FUSE
#undef V
#undef L
#undef LANES
#undef PARTS
#undef MOST
#undef VECTOR_BYTES
#undef TARGET
#undef NAME
