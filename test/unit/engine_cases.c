/*
 * Random data sets, most of them difficult, for tests that compare engines.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_cases.h"
#include "engine_drive.h"
#include "engine_limits.h"
#include "exact.h"

static uint64_t state = 1;

/* Restarts the random numbers. */
void
random_seed(uint64_t seed)
{
	state = seed;
}

/* The next 64 random bits. */
uint64_t
random_bits(void)
{
	state += UINT64_C(0x9e3779b97f4a7c15);
	return gk_mix(state);
}

/* Uniform in (0, 1). */
double
random_unit(void)
{
	return ((double) (random_bits() >> 11) + 0.5) * 0x1p-53;
}

/* A normal deviate. */
static double
random_normal(void)
{
	return sqrt(-2 * log(random_unit())) * cos(6.283185307179586 * random_unit());
}

/* A value of a row. */
static double
make_value(Kind kind, int64_t row, int j, int64_t k)
{
	int64_t		blobs = kind == CROWDS ? k / 15 + 1 : k;
	int64_t		blob = (int64_t) (gk_mix(row) % (uint64_t) blobs);
	double		place = (double) (gk_mix((uint64_t) blob * 70001 + j) % 1000) - 500.0;

	switch (kind)
	{
		case BLOBS:
		case CROWDS:
			return place + random_normal();
		case LATTICE:
			return (double) (random_bits() % 3) - 1.0;
		case EQUAL:
			return 1.25 + j;
		case FAR_AWAY:
			return 1e6 + random_normal();
		case UNEVEN:
			return random_normal() * (j == 0 ? 1e9 : 1.0);
		case LOPSIDED:
			return row % 100 == 0 ? 1e4 * random_normal() : 1.0 + 1e-3 * random_normal();
		case TINY:
			return 1e-41 * random_normal();
		case HUGE_VALUES:
			return 1e30 * random_normal();
		case COPIES:
			return (double) (gk_mix(row % (k / 2 + 1) * 70001 + j) % 1000) / 7.0;
		case HEAVY_TAILED:
			return random_normal() / (double) ((gk_mix(row) >> 44) + 1) * 0x1p20;
		case SKEWED:
			return exp(2.0 * random_normal());
		case INDICATORS:
			return gk_mix(row * 1009 + j / 8) % 8 == (uint64_t) j % 8;
		case COUNTS:
			return (double) (random_bits() % (j % 3 == 0 ? 30 : j % 3 + 1)) + 100 * (j % 5 - 2);
		case OUTLIERS:
			return random_normal() * (row % 200 == 0 ? 1e5 : 1.0);
		case TOPICS:
			return ((double) (gk_mix(__builtin_ctzll(gk_mix(row + 1)) * 70001 + j) % 1000) / 300.0 +
					random_normal()) / sqrt(j + 1.0);
		default:
			return random_normal();
	}
}

/* Centroids: some are rows, some lie near rows, a few equal others. */
static void
choose_centroids(Data *data)
{
	int			d = data->d;

	for (int64_t c = 0; c < data->k; c++)
	{
		int64_t		row = (int64_t) (random_bits() % (uint64_t) data->n);
		double		near = random_bits() % 2 || data->kind == COUNTS ? 0.0 : 1e-7 * random_unit();
		double		aside = data->kind == COUNTS && random_bits() % 8 == 0 ? -3.0 : 0.0;

		for (int j = 0; j < d; j++)
			data->centroids[c * d + j] = data->x[row * d + j] * (1.0 + near) + aside;
		if (c > 0 && random_bits() % 50 == 0)
			memcpy(data->centroids + c * d, data->centroids + (c - 1) * d, d * sizeof(double));
	}
}

/* Centroids of any scale and offset, a few one rounding of a double away from another. */
static void
place_centroids(Data *data)
{
	static const double scales[] = {1e-6, 1e-2, 1.0, 1e3, 1e9};
	static const double offsets[] = {0.0, 0.0, 10.0, 1e4};
	int			d = data->d;
	double		scale = scales[random_bits() % 5];
	double		offset = offsets[random_bits() % 4];

	for (int64_t c = 0; c < data->k; c++)
	{
		double	   *centroid = data->centroids + c * d;

		for (int j = 0; j < d; j++)
			centroid[j] = scale * (offset + random_normal());
		/* midpoints of floats are often floats: ties to the bit */
		for (int j = 0; j < d && c % 2 == 0; j++)
			centroid[j] = (float) centroid[j];
		if (c > 0 && random_bits() % 8 == 0)
		{
			int			j = (int) (random_bits() % (uint64_t) d);

			memcpy(centroid, centroid - d, d * sizeof(double));
			centroid[j] = nextafter(centroid[j], INFINITY);
		}
	}
}

/* The number of a centroid near another one: the nearest of a few. */
static int64_t
neighbour_of(const Data *data, int64_t c)
{
	double		least = INFINITY;
	int64_t		nearest = c;

	for (int i = 0; i < 16; i++)
	{
		int64_t		other = (int64_t) (random_bits() % (uint64_t) data->k);
		double		sum = 0.0;

		for (int j = 0; j < data->d; j++)
			sum += pow(data->centroids[c * data->d + j] - data->centroids[other * data->d + j], 2);
		if (other != c && sum < least)
		{
			least = sum;
			nearest = other;
		}
	}
	return nearest;
}

/* A row on the bisector of two centroids, but for the rounding to float. */
static void
make_near_tie(const Data *data, float *row)
{
	int			d = data->d;
	int64_t		c = (int64_t) (random_bits() % (uint64_t) data->k);
	const double *a = data->centroids + c * d;
	const double *b = data->centroids + neighbour_of(data, c) * d;
	double	   *aside = malloc(d * sizeof(double));
	double		along = 0.0;
	double		apart = 0.0;

	for (int j = 0; j < d; j++)
		apart += (b[j] - a[j]) * (b[j] - a[j]);
	for (int j = 0; j < d; j++)
	{
		aside[j] = 0.05 * sqrt(apart / d) * random_normal();
		along += aside[j] * (b[j] - a[j]);
	}
	for (int j = 0; j < d; j++)
	{
		if (apart > 0.0)
			aside[j] -= along / apart * (b[j] - a[j]);
		row[j] = (float) (a[j] / 2 + b[j] / 2 + aside[j]) + 0.0f;
	}
	if (random_bits() % 2)
	{
		int			j = (int) (random_bits() % (uint64_t) d);

		row[j] = nextafterf(row[j], random_bits() % 2 ? INFINITY : -INFINITY) + 0.0f;
	}
	free(aside);
}

/* Centroids whose coordinates are all 1 or -1: as far from 0. */
static void
place_around_hub(Data *data)
{
	for (int64_t i = 0; i < data->k * data->d; i++)
		data->centroids[i] = random_bits() % 2 ? 1.0 : -1.0;
}

/* A row at 0, or beside it along one column: by a whole number, or by far less. */
static void
make_hub_row(const Data *data, float *row)
{
	static const float asides[] = {0.0f, 1.0f, -2.0f, 0x1p-12f, -0x1p-22f, 0x1p-30f, 0x1p-50f};

	memset(row, 0, data->d * sizeof(float));
	row[random_bits() % (uint64_t) data->d] = asides[random_bits() % 7];
}

/* The exponent of a grid with so many bits for values up to this. */
static int
grid_exponent(int bits, double greatest)
{
	int			exponent;

	frexp(greatest > 0 ? greatest : 1.0, &exponent);
	return bits - exponent;
}

/* Grid and center as the fit layer would choose them, more or less. */
static void
make_grid(Data *data)
{
	double		greatest_weight = 0.0;
	int			bits = data->wide ? 36 : 50 - (int) ceil(log2((double) data->n + 1)) - 1;

	for (int64_t i = 0; i < data->n; i++)
		greatest_weight = fmax(greatest_weight, data->weighted ? data->w[i] : 1.0);
	if (greatest_weight == 0.0)
		greatest_weight = 1.0;
	for (int j = 0; j < data->d; j++)
	{
		double		greatest = 0.0;
		double		sum = 0.0;

		for (int64_t i = 0; i < data->n; i++)
		{
			greatest = fmax(greatest, fabs(data->x[i * data->d + j]));
			sum += data->x[i * data->d + j];
		}
		data->exponents[j] = grid_exponent(bits, greatest * greatest_weight);
		data->center[j] = sum / (double) data->n;
	}
	data->exponents[data->d] = data->weighted ? grid_exponent(bits, greatest_weight) : 0;
}

/* A data set of a kind, with weights and first centroids. */
Data
make_data(Kind kind, int64_t n, int d, int64_t k, bool weighted, bool wide, bool spherical)
{
	Data		data = {
		.n = n,.d = d,.k = k,.kind = kind,.weighted = weighted,.wide = wide,.spherical = spherical
	};

	data.x = malloc(n * d * sizeof(float));
	data.w = malloc(n * sizeof(double));
	data.centroids = malloc(k * d * sizeof(double));
	data.exponents = malloc((d + 1) * sizeof(int));
	data.center = malloc(d * sizeof(double));
	if (kind == NEAR_TIES)
		place_centroids(&data);
	else if (kind == HUB)
		place_around_hub(&data);
	for (int64_t i = 0; i < n; i++)
	{
		if (kind == NEAR_TIES)
			make_near_tie(&data, data.x + i * d);
		else if (kind == HUB)
			make_hub_row(&data, data.x + i * d);
		else
			for (int j = 0; j < d; j++)
				data.x[i * d + j] = (float) make_value(kind, i, j, k) + 0.0f;
		data.w[i] = i % 7 == 0 ? 0.0 : i % 11 == 0 ? 1e8 : i % 13 == 0 ? 1e-8 : random_unit();
	}
	if (kind == LIMITS)
		fill_at_limits(&data);
	else if (kind != NEAR_TIES && kind != HUB)
		choose_centroids(&data);
	make_grid(&data);
	return data;
}

/* Multiplies rows and centroids by 2^exponent; what is too great becomes the greatest float. */
void
scale_data(Data *data, int exponent)
{
	for (int64_t i = 0; i < data->n * data->d; i++)
	{
		double		value = ldexp(data->x[i], exponent);

		data->x[i] = (float) fmax(-FLT_MAX, fmin(FLT_MAX, value)) + 0.0f;
	}
	for (int64_t i = 0; i < data->k * data->d; i++)
	{
		double		value = ldexp(data->centroids[i], exponent);

		data->centroids[i] = fmax(-FLT_MAX, fmin(FLT_MAX, value));
	}
	make_grid(data);
}

/* The name of a kind. */
const char *
kind_name(Kind kind)
{
	static const char *const names[] = {
		"normal", "blobs", "lattice", "equal", "far away", "uneven", "lopsided", "tiny", "huge",
		"copies", "heavy-tailed", "crowds", "near-ties", "skewed", "indicators", "outliers",
		"topics", "hub", "counts", "limits"
	};

	return names[kind];
}

/* Frees a data set. */
void
free_data(Data *data)
{
	free(data->x);
	free(data->w);
	free(data->centroids);
	free(data->exponents);
	free(data->center);
}

/* Puts the rows, with their weights, in another order. */
void
shuffle_rows(Data *data)
{
	float	   *row = malloc(data->d * sizeof(float));

	for (int64_t i = data->n - 1; i > 0; i--)
	{
		int64_t		other = (int64_t) (random_bits() % (uint64_t) (i + 1));
		float	   *a = data->x + i * data->d;
		float	   *b = data->x + other * data->d;
		double		w = data->w[i];

		memcpy(row, a, data->d * sizeof(float));
		memcpy(a, b, data->d * sizeof(float));
		memcpy(b, row, data->d * sizeof(float));
		data->w[i] = data->w[other];
		data->w[other] = w;
	}
	free(row);
}

/* The account of host memory that all engines of a test share. */
static atomic_ullong drawn;
static atomic_ullong allowed = ULLONG_MAX;

/* Draws from the account. */
bool
account_draw(uint64_t bytes)
{
	if (atomic_fetch_add(&drawn, bytes) + bytes <= atomic_load(&allowed))
		return true;
	atomic_fetch_sub(&drawn, bytes);
	return false;
}

/* Returns to the account. */
void
account_return(uint64_t bytes)
{
	atomic_fetch_sub(&drawn, bytes);
}

/* Sets the limit of the account. */
void
account_allow(uint64_t bytes)
{
	atomic_store(&allowed, bytes);
}

/* The bytes drawn. */
uint64_t
account_drawn(void)
{
	return atomic_load(&drawn);
}

/* An empty engine; ends the program on an error. */
GkEngine *
open_engine(const GkEngineClass *class_of, bool weighted, Feeding feeding)
{
	GkEngineConfig config = {
		.weighted = weighted,.threads = feeding.threads,.device_count = feeding.devices,
		.device_memory_limit = feeding.device_memory_limit,
		.draw_host_memory = account_draw,.return_host_memory = account_return
	};
	GkEngine   *engine;

	for (int i = 0; i < feeding.devices; i++)
		config.devices[i] = i;
	check_status(class_of->open(&config, &engine));
	return engine;
}

/* Appends batches of the data until there are this many rows, or an error. */
GkStatus
append_until(GkEngine *engine, const GkBatch *batch, int64_t rows)
{
	GkStatus	status = {.code = GK_OK};
	uint64_t	ticket;

	for (int64_t i = 0; i < rows && status.code == GK_OK; i += batch->rows)
		status = engine->class_of->append(engine, batch, &ticket);
	return status;
}

/* An engine with the data in it, sealed. */
GkEngine *
feed(const GkEngineClass *class_of, const Data *data, Feeding feeding)
{
	GkEngine   *engine = open_engine(class_of, data->weighted, feeding);
	Rows		rows = {data->n, data->d, data->x, data->weighted ? data->w : NULL};

	append_rows(engine, &rows, feeding.batch, feeding.slots);
	return engine;
}

/* Sets the grid of the data, and its first centroids. */
void
begin_fit(GkEngine *engine, const Data *data)
{
	set_grid(engine, data->wide, data->exponents, data->center);
	set_centroids(engine, data->centroids, data->k, data->spherical);
}
