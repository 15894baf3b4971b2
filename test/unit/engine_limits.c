/*
 * Data sets at the limits of the arithmetic: values near the least and the greatest that floats
 * have, rows that differ in last bits, centroids that mirror or nearly equal each other.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_limits.h"

/* Kinds of values; a data set has one, or one for each feature. */
typedef enum Value
{
	SPECIAL,					/* powers of two, and limits of number formats */
	ANY_EXPONENT,
	SMALL_INTEGER,
	NEAR_ONE,					/* within two roundings */
	UNIFORM,
	SUBNORMAL,
	NEAR_GREATEST,				/* within three roundings of the greatest float */
	NEAR_LAST_INTEGER,			/* about 2^24, from where on floats are even */
	MODERATE,					/* within 2^±10 */
	VALUES
} Value;

/* How rows come from a pool of a few. */
typedef enum Layout
{
	FREE,						/* not from the pool */
	EQUAL_ROWS,
	ONE_ROUNDED,				/* one feature is off by roundings */
	ALL_ROUNDED,				/* every feature may be */
	MIXED,						/* each feature from one of two rows */
	SPARSE,						/* zeros but for some features */
	LAYOUTS
} Layout;

/* How centroids come from rows. */
typedef enum Placement
{
	ROWS_IN_ORDER,
	ROWS_AT_RANDOM,
	MIDPOINTS,
	BESIDE_ROWS,				/* by a rounding of a double */
	MIRRORED,					/* about the first row, along one feature */
	ANYWHERE,
	HALF_THE_FIRST,				/* every other one is the first row */
	PLACEMENTS
} Placement;

/* A random number from 0 to count - 1. */
static int
below(int count)
{
	return (int) (random_bits() % (uint64_t) count);
}

/* The float that lies so many roundings above a value, or below it. */
static float
rounded_aside(float value, int steps)
{
	for (; steps > 0; steps--)
		value = nextafterf(value, INFINITY);
	for (; steps < 0; steps++)
		value = nextafterf(value, -INFINITY);
	return fmaxf(-FLT_MAX, fminf(FLT_MAX, value)) + 0.0f;
}

/* A random value. */
static float
make_value(Value kind)
{
	static const float special[] = {
		0.0f, 1.0f, FLT_MAX, FLT_MIN, 0x1p-149f, 0x1p-148f, 0x1.fffffep-127f, 0x1p-126f, 0x1p-100f,
		0x1p-75f, 0x1p-74f, 0x1p-63f, 0x1p-60f, 0x1p60f, 0x1p61f, 0x1p63f, 0x1p64f, 0x1p100f,
		0x1p127f, 1e-30f, 1e30f, 2048.0f, 2049.0f, 60000.0f, 65504.0f, 65520.0f, 16777215.0f,
		16777216.0f, 16777218.0f
	};
	float		sign = random_bits() % 2 ? 1.0f : -1.0f;
	double		uniform = 2.0 * random_unit() - 1.0;

	switch (kind)
	{
		case SPECIAL:
			return sign * special[below(sizeof(special) / sizeof(*special))] + 0.0f;
		case ANY_EXPONENT:
			return (float) ldexp(uniform, below(276) - 148) + 0.0f;
		case SMALL_INTEGER:
			return (float) (below(5) - 2);
		case NEAR_ONE:
			return rounded_aside(1.0f, below(5) - 2);
		case UNIFORM:
			return (float) uniform;
		case SUBNORMAL:
			return (float) ldexp(below(64) - 32, -149);
		case NEAR_GREATEST:
			return sign * rounded_aside(FLT_MAX, -below(4));
		case NEAR_LAST_INTEGER:
			return sign * (float) (16777216 + below(8) - 4);
		default:
			return (float) ldexp(uniform, below(20) - 10) + 0.0f;
	}
}

/* Fills a row, from a pool of rows. */
static void
make_row(float *row, int d, Layout layout, const Value *kinds, const float *pool, int pooled)
{
	const float *one = pool + below(pooled) * d;
	const float *other = pool + below(pooled) * d;
	int			touched = below(d);

	for (int j = 0; j < d; j++)
		row[j] = layout == SPARSE ? 0.0f : one[j];
	if (layout == ONE_ROUNDED)
		row[touched] = rounded_aside(row[touched], below(5) - 2);
	for (int i = below(4); i >= 0 && layout == SPARSE; i--)
	{
		int			j = below(d);

		row[j] = make_value(kinds[j]);
	}
	for (int j = 0; j < d; j++)
		if (layout == FREE)
			row[j] = make_value(kinds[j]);
		else if (layout == ALL_ROUNDED)
			row[j] = rounded_aside(pool[j], below(3) - 1);
		else if (layout == MIXED && random_bits() % 2)
			row[j] = other[j];
}

/* Multiplies a row by a power of two; what is too great becomes the greatest float. */
static void
scale_row(float *row, int d, int exponent)
{
	for (int j = 0; j < d; j++)
		row[j] = (float) fmax(-FLT_MAX, fmin(FLT_MAX, ldexp(row[j], exponent))) + 0.0f;
}

/* The kind of value of each feature. */
static Value *
choose_values(int d)
{
	Value	   *kinds = malloc(d * sizeof(Value));
	bool		mixed = below(3) == 0;

	kinds[0] = (Value) below(VALUES);
	for (int j = 1; j < d; j++)
		kinds[j] = mixed ? (Value) below(VALUES) : kinds[0];
	return kinds;
}

/* Replaces the rows. */
static void
fill_rows(Data *data, const Value *kinds)
{
	int			d = data->d;
	Layout		layout = (Layout) below(LAYOUTS);
	bool		scaled = below(3) == 0;
	int			pooled = 1 + below(data->n < 30 ? (int) data->n : 30);
	float	   *pool = malloc((size_t) pooled * d * sizeof(float));

	for (int i = 0; i < pooled * d; i++)
		pool[i] = make_value(kinds[i % d]);
	for (int64_t i = 0; i < data->n; i++)
	{
		make_row(data->x + i * d, d, layout, kinds, pool, pooled);
		if (scaled)
			scale_row(data->x + i * d, d, below(60) - 30);
		/* a square of a direction's length must be a number */
		if (data->spherical)
			scale_row(data->x + i * d, d, -3);
	}
	free(pool);
}

/* Replaces the weights, of which the greatest lies between 1 and 2^20. */
static void
fill_weights(Data *data)
{
	int			kind = below(5);
	double		greatest = ldexp(1.0, below(20));

	for (int64_t i = 0; i < data->n; i++)
	{
		double		spread = ldexp(random_unit(), -below(120));
		double		weights[] = {1.0, below(3) > 0, random_unit(), spread, below(4) / 4.0};

		data->w[i] = greatest * weights[kind];
	}
	data->w[below((int) data->n)] = greatest;
}

/* One coordinate of a centroid that comes from a row, or two. */
static double
place_coordinate(Placement placement, Value kind, double first, double one, double other)
{
	switch (placement)
	{
		case MIDPOINTS:
			return (one + other) / 2.0;
		case BESIDE_ROWS:
			return nextafter(one, random_bits() % 2 ? INFINITY : -INFINITY);
		case MIRRORED:
			return 2.0 * first - one;
		case ANYWHERE:
			return make_value(kind);
		case HALF_THE_FIRST:
			return first;
		default:
			return one;
	}
}

/* Replaces the centroids; some equal others. */
static void
fill_centroids(Data *data, const Value *kinds)
{
	int			d = data->d;
	Placement	placement = (Placement) below(PLACEMENTS);

	for (int64_t c = 0; c < data->k; c++)
	{
		double	   *at = data->centroids + c * d;
		int			row = placement == ROWS_IN_ORDER ? (int) (c % data->n) : below((int) data->n);
		const float *one = data->x + (int64_t) row * d;
		const float *other = data->x + (int64_t) below((int) data->n) * d;

		for (int j = 0; j < d; j++)
		{
			bool		kept = (placement == MIRRORED && j != c % d) ||
				(placement == HALF_THE_FIRST && c % 2 == 0);
			double		value = kept ? one[j] :
				place_coordinate(placement, kinds[j], data->x[j], one[j], other[j]);

			at[j] = fmax(-FLT_MAX, fmin(FLT_MAX, value)) + 0.0;
		}
		if (c > 0 && below(5) == 0)
			memcpy(at, data->centroids + below((int) c) * d, d * sizeof(double));
	}
}

/* Replaces rows, weights and centroids. */
void
fill_at_limits(Data *data)
{
	Value	   *kinds = choose_values(data->d);

	fill_rows(data, kinds);
	fill_weights(data);
	fill_centroids(data, kinds);
	free(kinds);
}

/* Sizes at random, most of them at and beside those where kernels change. */
Shape
random_shape(void)
{
	static const int features[] = {
		1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18, 20, 23, 24, 25, 31, 32, 33, 40, 47, 48,
		49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191, 255, 256, 257, 384, 511, 512, 513, 575, 576,
		577, 640, 767, 768, 769, 1024, 1025
	};
	static const int clusters[] = {
		1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 103, 104, 105, 127, 128, 129, 191,
		192, 193, 255, 256, 257, 385, 512, 700, 1025, 4096, 4097
	};
	Shape		shape = {.d = features[below(sizeof(features) / sizeof(*features))]};
	int			most = shape.d > 128 ? 360 : shape.d > 32 ? 1200 : 2700;

	shape.n = 1 + below(below(4) == 0 ? 40 : most);
	switch (below(8))
	{
		case 0:
			shape.k = shape.n;
			break;
		case 1:
			shape.k = 1 + below((int) shape.n);
			break;
		default:
			shape.k = clusters[below(sizeof(clusters) / sizeof(*clusters))];
	}
	while (shape.n * shape.k * shape.d > 4000000)
	{
		if (shape.n > shape.k / 8)
			shape.n = shape.n / 2 + 1;
		else
			shape.k = shape.k / 2 + 1;
	}
	return shape;
}
