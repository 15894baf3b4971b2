/*
 * The nearest centroid of one row, as scoring finds it: by every instruction set, with the filter
 * and without, always what the definition says.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_cases.h"
#include "engine_drive.h"
#include "nearest.h"
#include "tap.h"

/* Slow programs take fewer rows. */
#ifdef SLOW
#define FEWER 5
#else
#define FEWER 1
#endif

/* Centroids as scoring has them. */
typedef struct Packed
{
	double	   *packed;
	GkSieve		sieve;
	bool		has_sieve;
	float	   *memory;
	float	   *scratch;
	double	   *distances2;
} Packed;

static int64_t sieved;

/* Packs the centroids of a data set. */
static Packed
pack(const Data *data)
{
	int64_t		places = GK_GROUPS(data->k) * GK_GROUP;
	Packed		packed = {.packed = malloc(places * data->d * sizeof(double))};

	for (int64_t i = 0; i < data->k; i++)
		gk_pack_centroid(packed.packed, data->d, i, data->centroids + i * data->d);
	gk_pack_rest(packed.packed, data->d, data->k);
	packed.distances2 = malloc(places * sizeof(double));
	packed.memory = malloc(gk_sieve_floats(data->d, data->k) * sizeof(float));
	packed.scratch = malloc(gk_sieve_scratch(data->d, data->k) * sizeof(float));
	packed.has_sieve = gk_make_sieve(&packed.sieve, packed.memory, packed.packed, data->d, data->k);
	return packed;
}

/* Frees them. */
static void
free_packed(Packed *packed)
{
	free(packed->packed);
	free(packed->memory);
	free(packed->scratch);
	free(packed->distances2);
}

/* True if all ways to find the nearest centroid of a row agree with the definition. */
static bool
check_row(const Data *data, Packed *packed, const float *features)
{
	double	   *row = malloc(data->d * sizeof(double));
	double		expected;
	double		distance2;
	int64_t		nearest = nearest_centroid(features, data->d, data->centroids, data->k, &expected);
	bool		good;

	for (int j = 0; j < data->d; j++)
		row[j] = features[j];
	good = gk_nearest(packed->packed, row, data->d, data->k, &distance2) == nearest &&
		distance2 == expected;
	gk_distances2(packed->packed, row, data->d, data->k, packed->distances2);
	good &= packed->distances2[nearest] == expected;
	if (packed->has_sieve)
	{
		good &= gk_nearest_sieved(&packed->sieve, packed->scratch, packed->packed, row, data->d,
								  data->k, &distance2) == nearest && distance2 == expected;
		sieved++;
	}
	free(row);
	return good;
}

/* The rows of a data set, some centroids as rows, and some rows that are very far. */
static bool
check_data(const Data *data)
{
	static const float far[] = {1e10f, -1e18f, 1e25f, 3e38f, 1e-30f, 1e-44f};
	Packed		packed = pack(data);
	float	   *row = malloc(data->d * sizeof(float));
	bool		good = true;

	for (int64_t i = 0; i < data->n; i++)
		good &= check_row(data, &packed, data->x + i * data->d);
	for (int64_t i = 0; i < data->k && i < 50; i++)
	{
		for (int j = 0; j < data->d; j++)
			row[j] = (float) data->centroids[i * data->d + j];
		good &= check_row(data, &packed, row);
		row[random_bits() % (uint64_t) data->d] = far[random_bits() % 6];
		good &= check_row(data, &packed, row);
	}
	free(row);
	free_packed(&packed);
	return good;
}

/* One shape with every kind of data. */
static void
test_shape(const char *name, int64_t n, int d, int64_t k)
{
	bool		good = true;

	sieved = 0;
	for (int kind = 0; kind < KINDS; kind++)
	{
		int64_t		rows = n / FEWER < k ? k : n / FEWER;
		Data		data = make_data(kind, rows, d, k, false, false, false);
		bool		same = check_data(&data);

		if (!same)
			printf("# %s: %s, d %d, k %lld\n", name, kind_name(kind), d, (long long) k);
		good &= same;
		free_data(&data);
	}
	ok(good && sieved > 0, "%s: d %d, k %lld", name, d, (long long) k);
}

/* Data whose centroids floats cannot hold have no filter. */
static void
test_too_far(void)
{
	Data		data = make_data(NORMAL, 100, 3, 40, false, false, false);
	Packed		packed;

	for (int64_t i = 0; i < data.k * data.d; i++)
		data.centroids[i] *= i % 2 == 0 ? 1e160 : 1;
	packed = pack(&data);
	ok(!packed.has_sieve, "centroids that are too far apart for floats");
	free_packed(&packed);
	free_data(&data);
}

/* Compares on all shapes, with all kernels that this machine runs. */
int
main(int argc, char **argv)
{
	static const char *const names[] = {"plain", "avx2", "avx512"};

	random_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 20);
	for (int i = 0; i < 3; i++)
	{
		if (!gk_nearest_use(names[i]))
			continue;
		test_shape(names[i], 300, 1, 1);
		test_shape(names[i], 500, 1, 300);
		test_shape(names[i], 500, 2, 33);
		test_shape(names[i], 400, 8, 100);
		test_shape(names[i], 300, 17, 500);
		test_shape(names[i], 200, 128, 65);
		test_shape(names[i], 100, 784, 40);
		test_shape(names[i], 40, 2000, 32);
		for (int j = 0; j < 5; j++)
			test_shape(names[i], 300, 1 + (int) (random_bits() % 60),
					   1 + (int64_t) (random_bits() % 300));
	}
	test_too_far();
	return done_testing();
}
