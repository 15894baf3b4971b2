/*
 * Random data sets for tests that compare engines.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_cases.h"
#include "exact.h"

static uint64_t state = 1;

/* Starts the random numbers anew. */
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
	int64_t		blob = (int64_t) (gk_mix(row) % (uint64_t) k);
	double		place = (double) (gk_mix((uint64_t) blob * 70001 + j) % 1000) - 500.0;

	switch (kind)
	{
		case BLOBS:
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
		default:
			return random_normal();
	}
}

/* Grid, center and centroids as the fit layer would choose them, more or less. */
static void
make_grid(Data *data)
{
	double		greatest_weight = 0.0;
	int			room = data->wide ? 36 : 50 - (int) ceil(log2((double) data->n + 1)) - 1;

	for (int64_t i = 0; i < data->n; i++)
		greatest_weight = fmax(greatest_weight, data->weighted ? data->w[i] : 1.0);
	if (greatest_weight == 0.0)
		greatest_weight = 1.0;
	for (int j = 0; j < data->d; j++)
	{
		double		greatest = 0.0;
		double		sum = 0.0;
		int			exponent;

		for (int64_t i = 0; i < data->n; i++)
		{
			greatest = fmax(greatest, fabs(data->x[i * data->d + j]));
			sum += data->x[i * data->d + j];
		}
		frexp(greatest > 0 ? greatest * greatest_weight : 1.0, &exponent);
		data->exponents[j] = room - exponent;
		data->center[j] = sum / (double) data->n;
	}
	if (data->weighted)
	{
		int			exponent;

		frexp(greatest_weight, &exponent);
		data->exponents[data->d] = room - exponent;
	}
	else
		data->exponents[data->d] = 0;
	data->rest_bits = 30;
}

/* A data set of a kind, with weights and first centroids. */
Data
make_data(Kind kind, int64_t n, int d, int64_t k, bool weighted, bool wide, bool spherical)
{
	Data		data = {
		.n = n,.d = d,.k = k,.weighted = weighted,.wide = wide,.spherical = spherical
	};

	data.x = malloc(n * d * sizeof(float));
	data.w = malloc(n * sizeof(double));
	data.centroids = malloc(k * d * sizeof(double));
	data.exponents = malloc((d + 1) * sizeof(int));
	data.center = malloc(d * sizeof(double));
	for (int64_t i = 0; i < n; i++)
	{
		for (int j = 0; j < d; j++)
			data.x[i * d + j] = (float) make_value(kind, i, j, k) + 0.0f;
		data.w[i] = i % 7 == 0 ? 0.0 : i % 11 == 0 ? 1e8 : i % 13 == 0 ? 1e-8 : random_unit();
	}
	make_grid(&data);
	for (int64_t c = 0; c < k; c++)
	{
		/* some centroids are rows, some near rows, a few the same as others */
		int64_t		row = (int64_t) (random_bits() % (uint64_t) n);
		double		near = random_bits() % 2 ? 0.0 : 1e-7 * random_unit();

		for (int j = 0; j < d; j++)
			data.centroids[c * d + j] = data.x[row * d + j] * (1.0 + near);
		if (c > 0 && random_bits() % 50 == 0)
			memcpy(data.centroids + c * d, data.centroids + (c - 1) * d, d * sizeof(double));
	}
	return data;
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

/* Ends the program unless the status is GK_OK. */
static void
check_status(GkStatus status)
{
	if (status.code == GK_OK)
		return;
	printf("Bail out! %s: %s\n", status.where, status.message);
	exit(1);
}

/* Runs a command to its end; ends the program if it fails. */
void
run(GkEngine *engine, GkCommand *command)
{
	GkStatus	status;

	check_status(engine->class_of->submit(engine, command));
	while ((status = engine->class_of->wait(engine, 1)).code == GK_RUNNING)
		;
	check_status(status);
}

/* An engine with the data in it, sealed. */
GkEngine *
feed(const GkEngineClass *class_of, const Data *data, Feeding feeding)
{
	GkEngineConfig config = {.weighted = data->weighted,.threads = feeding.threads};
	GkCommand	seal = {.operation = GK_SEAL};
	GkEngine   *engine;

	check_status(class_of->open(&config, &engine));
	check_status(class_of->set_dimension(engine, data->d));
	for (int64_t i = 0; i < data->n; i += feeding.batch)
	{
		GkBatch		batch = {
			.rows = data->n - i < feeding.batch ? data->n - i : feeding.batch,
			.features = data->x + i * data->d,.weights = data->weighted ? data->w + i : NULL
		};
		uint64_t	ticket;

		check_status(class_of->append(engine, &batch, &ticket));
	}
	run(engine, &seal);
	if (seal.u.seal.rows != data->n)
	{
		printf("Bail out! rows are missing\n");
		exit(1);
	}
	return engine;
}
