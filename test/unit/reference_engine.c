/*
 * The reference engine: engine.h written down as plainly as possible.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_state.h"
#include "exact.h"
#include "merges.h"
#include "plain_draw.h"
#include "reference_engine.h"

typedef struct ReferenceEngine
{
	GkEngine	base;
	bool		weighted;
	int			d;
	int64_t		n;
	int64_t		capacity;
	uint64_t	tickets;
	float	   *x;				/* n × d */
	double	   *w;				/* n */
	int32_t    *labels;			/* n, -1 = none */
	double	   *distance2;		/* n */
	bool		wide;
	int			rest_bits;
	int		   *exponents;		/* d + 1 */
	double	   *origin;			/* d: of the grid */
	int64_t		k;
	bool		spherical;
	double	   *centroids;		/* k × d */
	GkSum	   *sums;			/* k × (d + 1) */
	GkSum	   *given;			/* k × (d + 1): the sums that the caller has */
	GkState		state;
	GkStatus	last;
	int64_t		looks;			/* before a stop, 0 = none is planned */
	bool		stopped;
} ReferenceEngine;

static const GkStatus ok = {.code = GK_OK,.device = -1};

/* Allocates memory, or ends the test. */
static void *
allocate(void *old, size_t count, size_t size)
{
	void	   *memory = realloc(old, count * size + 1);

	if (memory == NULL)
		abort();
	return memory;
}

/* True if there is another row, and no stop is planned for this check. */
static bool
more_rows(ReferenceEngine *e, int64_t row)
{
	if (e->looks > 0 && --e->looks == 0)
		e->stopped = true;
	return row < e->n && !e->stopped;
}

/* For tests: plans which check finds the engine closing; 0 cancels the plan. */
int64_t
plan_reference_stop(GkEngine *engine, int64_t look)
{
	ReferenceEngine *e = (ReferenceEngine *) engine;
	int64_t		left = e->looks;

	e->looks = look;
	e->stopped = false;
	return left;
}

/* The weight of a row. */
static double
weight_of(const ReferenceEngine *e, int64_t row)
{
	return e->weighted ? e->w[row] : 1.0;
}

/* d² between a row and a centroid, by the definition. */
static double
square(const ReferenceEngine *e, int64_t row, const double *point)
{
	double		sum = 0.0;

	for (int j = 0; j < e->d; j++)
		sum = gk_add_square(sum, e->x[row * e->d + j], point[j]);
	return sum;
}

/* The hash of a row. */
static uint64_t
hash_of(const ReferenceEngine *e, int64_t row)
{
	uint64_t	terms = 0;
	uint64_t	weight_bits = 0;

	for (int j = 0; j < e->d; j += 2)
	{
		uint32_t	pair[2] = {0, 0};

		memcpy(pair, e->x + row * e->d + j, sizeof(float) * (j + 1 < e->d ? 2 : 1));
		terms += gk_hash_term(pair[0], pair[1], j / 2);
	}
	if (e->weighted)
		memcpy(&weight_bits, e->w + row, sizeof(double));
	return gk_hash_finish(terms, weight_bits);
}

/* How many sums the processor adds to at once: each of them waits for its own last addition. */
#define TOGETHER 8

/* The same for TOGETHER centroids. */
static void
squares(const ReferenceEngine *e, int64_t row, const double *points, double *sums)
{
	const float *x = e->x + row * e->d;

	for (int i = 0; i < TOGETHER; i++)
		sums[i] = 0.0;
	for (int j = 0; j < e->d; j++)
		for (int i = 0; i < TOGETHER; i++)
			sums[i] = gk_add_square(sums[i], x[j], points[(int64_t) i * e->d + j]);
}

/* The label of a row among `count` centroids, by the definition. */
static int32_t
nearest(const ReferenceEngine *e, int64_t row, const double *points, int64_t count,
		double *distance2)
{
	double		sums[TOGETHER];
	int32_t		best = 0;

	for (int64_t i = 0; i < count; i++)
	{
		double		candidate;

		if (i % TOGETHER == 0 && count - i >= TOGETHER)
			squares(e, row, points + i * e->d, sums);
		candidate = i - i % TOGETHER + TOGETHER <= count ? sums[i % TOGETHER]
			: square(e, row, points + i * e->d);
		if (i == 0 || candidate < *distance2)
		{
			*distance2 = candidate;
			best = (int32_t) i;
		}
	}
	return best;
}

/* sum += sign × value on a grid. */
static void
add_value(GkSum *sum, double value, int exponent, bool wide, int rest_bits, int sign)
{
	double		scale = gk_power_of_two(exponent);

	sum->high += sign * gk_quantize(value, scale);
	if (wide)
		sum->low += sign * gk_quantize_rest(value, scale, gk_power_of_two(rest_bits));
}

/* Adds a row to (or takes it from) the sums of a cluster. */
static void
add_row(ReferenceEngine *e, int64_t row, int64_t cluster, int sign)
{
	GkSum	   *sums = e->sums + cluster * (e->d + 1);
	double		weight = weight_of(e, row);

	for (int j = 0; j < e->d; j++)
		add_value(&sums[j], e->weighted ? weight * e->x[row * e->d + j] : e->x[row * e->d + j],
				  e->exponents[j], e->wide, e->rest_bits, sign);
	add_value(&sums[e->d], weight, e->exponents[e->d], e->wide, e->rest_bits, sign);
}

/* The value of a sum of the centroid grid. */
static double
sum_value(const ReferenceEngine *e, const GkSum *sum)
{
	return gk_sum_value(sum->high, sum->low, e->wide ? e->rest_bits : 0);
}

/* New centroids from the sums; a cluster without weight keeps its own. */
static void
update(ReferenceEngine *e, double *shift2, double *between)
{
	double	   *shifts = allocate(NULL, e->k, sizeof(double));
	double	   *gains = allocate(NULL, e->k, sizeof(double));
	double	   *fresh = allocate(NULL, e->d, sizeof(double));

	for (int64_t c = 0; c < e->k; c++)
	{
		const GkSum *sums = e->sums + c * (e->d + 1);
		double	   *old = e->centroids + c * e->d;
		double		weight = sum_value(e, &sums[e->d]);
		double		norm2 = 0.0;
		double		divisor;

		shifts[c] = gains[c] = 0.0;
		if (!(weight > 0.0))
			continue;
		divisor = e->spherical ? gk_direction_weight(weight) : weight;
		for (int j = 0; j < e->d; j++)
		{
			fresh[j] = gk_centroid(sum_value(e, &sums[j]), divisor, e->exponents[j],
								   e->exponents[e->d]);
			norm2 += fresh[j] * fresh[j];
		}
		for (int j = 0; j < e->d; j++)
		{
			double		norm = sqrt(norm2);
			double		mean = fresh[j] * (divisor / weight);
			double		direction = fresh[j];
			double		step;

			if (e->spherical)
				fresh[j] = norm > 0.0 ? direction / norm : old[j];
			step = fresh[j] - old[j];
			shifts[c] += step * step;
			gains[c] += gk_gain(mean, e->origin[j], fresh[j]);
			old[j] = fresh[j];
		}
		gains[c] *= ldexp(weight, -e->exponents[e->d] - (e->wide ? e->rest_bits : 0));
	}
	*shift2 = gk_ordered_sum(shifts, e->k);
	*between = gk_ordered_sum(gains, e->k);
	free(shifts);
	free(gains);
	free(fresh);
}

/* Least and greatest values and weights. */
static void
run_range(ReferenceEngine *e, GkCommand *c)
{
	for (int j = 0; j < e->d; j++)
		for (int64_t i = 0; more_rows(e, i); i++)
		{
			float		v = e->x[i * e->d + j];

			if (i == 0 || v < c->range.least[j])
				c->range.least[j] = v;
			if (i == 0 || v > c->range.greatest[j])
				c->range.greatest[j] = v;
		}
	c->range.least_weight = c->range.greatest_weight = e->n > 0 ? weight_of(e, 0) : 1.0;
	for (int64_t i = 1; more_rows(e, i); i++)
	{
		c->range.least_weight = fmin(c->range.least_weight, weight_of(e, i));
		c->range.greatest_weight = fmax(c->range.greatest_weight, weight_of(e, i));
	}
}

/* Moments of features and weights, row by row. */
static void
run_moments(ReferenceEngine *e, GkCommand *c)
{
	int			d = e->d;

	memset(c->moments.first, 0, d * sizeof(GkSum));
	memset(c->moments.second, 0, d * sizeof(GkSum));
	memset(c->moments.exponent_sum, 0, (d + 1) * sizeof(int64_t));
	memset(c->moments.nonzero, 0, (d + 1) * sizeof(int64_t));
	memset(&c->moments.weight, 0, sizeof(GkSum));
	for (int64_t i = 0; more_rows(e, i); i++)
	{
		double		weight = weight_of(e, i);

		for (int j = 0; j < d; j++)
		{
			float		x = e->x[i * d + j];
			double		z = (double) x - c->moments.pivot[j];

			add_value(&c->moments.first[j], z, c->moments.first_exponents[j], true,
					  c->moments.rest_bits, 1);
			add_value(&c->moments.second[j], z * z, c->moments.second_exponents[j], true,
					  c->moments.rest_bits, 1);
			if (x != 0)
			{
				c->moments.exponent_sum[j] += gk_exponent(x);
				c->moments.nonzero[j]++;
			}
		}
		add_value(&c->moments.weight, weight, c->moments.weight_exponent, true,
				  c->moments.rest_bits, 1);
		if (weight != 0)
		{
			c->moments.exponent_sum[d] += gk_exponent_double(weight);
			c->moments.nonzero[d]++;
		}
	}
}

/* Moves and scales every row, then divides it by its norm if asked to. */
static void
run_transform(ReferenceEngine *e, GkCommand *c)
{
	for (int64_t i = 0; more_rows(e, i); i++)
	{
		float	   *x = e->x + i * e->d;
		double		norm2 = 0.0;

		for (int j = 0; j < e->d; j++)
		{
			x[j] = (float) (((double) x[j] - c->transform.offset[j]) *
							c->transform.factor[j]) + 0.0f;
			norm2 += (double) x[j] * (double) x[j];
		}
		if (c->transform.normalize && norm2 > 0.0)
			for (int j = 0; j < e->d; j++)
				x[j] = (float) ((double) x[j] / sqrt(norm2)) + 0.0f;
	}
}

/* Label and d² to the nearest candidate, where it is nearer than those before. */
static void
run_candidates(ReferenceEngine *e, GkCommand *c)
{
	c->candidates.greatest = 0.0;
	for (int64_t i = 0; more_rows(e, i); i++)
	{
		double		d2;
		int32_t		label = nearest(e, i, c->candidates.candidates, c->candidates.count, &d2);
		double		mass;

		if (c->candidates.first_label == 0 || d2 < e->distance2[i])
		{
			e->distance2[i] = d2;
			e->labels[i] = (int32_t) (c->candidates.first_label + label);
		}
		mass = weight_of(e, i) * e->distance2[i];
		if (mass > c->candidates.greatest)
			c->candidates.greatest = mass;
	}
}

/* The sum of weight × d² that each trial would leave. */
static void
run_potentials(ReferenceEngine *e, GkCommand *c)
{
	double		scale = gk_power_of_two(c->potentials.exponent);

	for (int t = 0; t < c->potentials.count; t++)
	{
		c->potentials.potentials[t] = 0;
		for (int64_t i = 0; more_rows(e, i); i++)
		{
			double		d2 = square(e, i, c->potentials.trials + (int64_t) t * e->d);

			if (!(d2 < e->distance2[i]))
				d2 = e->distance2[i];
			c->potentials.potentials[t] += gk_quantize(weight_of(e, i) * d2, scale);
		}
	}
}

/* The quantised mass of a row. */
static int64_t
mass_of(const ReferenceEngine *e, int64_t row, GkMass mass, int exponent)
{
	double		value = weight_of(e, row);

	if (mass == GK_MASS_DISTANCE)
		value = value * e->distance2[row];
	return gk_quantize(value, gk_power_of_two(exponent));
}

/* The bucket of a hash. */
static uint64_t
bucket_of(uint64_t hash, int bits)
{
	return bits == 0 ? 0 : hash >> (64 - bits);
}

/* Masses by buckets of the hash. */
static void
run_masses(ReferenceEngine *e, GkCommand *c)
{
	memset(c->masses.buckets, 0, sizeof(int64_t) << c->masses.bits);
	for (int64_t i = 0; more_rows(e, i); i++)
		c->masses.buckets[bucket_of(hash_of(e, i), c->masses.bits)] +=
			mass_of(e, i, c->masses.mass, c->masses.exponent);
}

/* The rows with mass in the wanted buckets, until the list is full. */
static void
run_entries(ReferenceEngine *e, GkCommand *c)
{
	int64_t		i;

	c->entries.count = 0;
	for (i = c->entries.from; more_rows(e, i); i++)
	{
		uint64_t	hash = hash_of(e, i);
		int64_t		mass = mass_of(e, i, c->entries.mass, c->entries.exponent);

		if (mass <= 0 || !c->entries.wanted[bucket_of(hash, c->entries.bits)])
			continue;
		if (c->entries.count == c->entries.capacity)
			break;
		c->entries.entries[c->entries.count++] = (GkEntry) {
			.row = i,.hash = hash,.mass = mass,.distance2 = 0.0
		};
	}
	c->entries.next = i;
}

/* Writes the sums, or what differs from those that the caller has. */
static void
give_sums(ReferenceEngine *e, GkCommand *c)
{
	int64_t		count = e->k * (e->d + 1);

	if (!c->step.changes)
		memset(e->given, 0, count * sizeof(GkSum));
	for (int64_t i = 0; i < count; i++)
	{
		c->step.sums[i] = e->sums[i].high - e->given[i].high;
		if (e->wide)
			c->step.sums[count + i] = e->sums[i].low - e->given[i].low;
	}
	memcpy(e->given, e->sums, count * sizeof(GkSum));
}

/* One iteration: labels, sums anew, and new centroids unless clusters are empty. */
static void
run_step(ReferenceEngine *e, GkCommand *c)
{
	c->step.changed = 0;
	c->step.empty = c->step.earlier = 0;
	c->step.shift2 = c->step.between = 0.0;
	memset(e->sums, 0, e->k * (e->d + 1) * sizeof(GkSum));
	for (int64_t i = 0; more_rows(e, i); i++)
	{
		double		d2;
		int32_t		label = nearest(e, i, e->centroids, e->k, &d2);

		c->step.changed += label != e->labels[i];
		e->labels[i] = label;
		add_row(e, i, label, 1);
	}
	if (c->step.sums != NULL)
	{
		give_sums(e, c);
		return;
	}
	for (int64_t k = 0; k < e->k; k++)
		c->step.empty += !(sum_value(e, &e->sums[k * (e->d + 1) + e->d]) > 0.0);
	if (c->step.empty == 0)
		update(e, &c->step.shift2, &c->step.between);
	else if (c->step.is_empty != NULL)
		for (int64_t k = 0; k < e->k; k++)
			c->step.is_empty[k] = !(sum_value(e, &e->sums[k * (e->d + 1) + e->d]) > 0.0);
}

/* Takes new centroids; labels stay. */
static void
run_move(ReferenceEngine *e, GkCommand *c)
{
	memcpy(e->centroids, c->move.centroids, e->k * e->d * sizeof(double));
}

/* An update with some rows lent to other clusters. */
static void
run_relocate(ReferenceEngine *e, GkCommand *c)
{
	for (int64_t i = 0; i < c->relocate.count; i++)
	{
		add_row(e, c->relocate.rows[i], e->labels[c->relocate.rows[i]], -1);
		add_row(e, c->relocate.rows[i], c->relocate.clusters[i], 1);
	}
	update(e, &c->relocate.shift2, &c->relocate.between);
	for (int64_t i = 0; i < c->relocate.count; i++)
	{
		add_row(e, c->relocate.rows[i], e->labels[c->relocate.rows[i]], 1);
		add_row(e, c->relocate.rows[i], c->relocate.clusters[i], -1);
	}
}

/* The order of two rows by their bits. */
static int
compare_bits(const ReferenceEngine *e, int64_t row, int64_t other)
{
	uint64_t	weights[2] = {0, 0};

	for (int j = 0; j < e->d; j++)
	{
		uint32_t	bits[2];

		memcpy(&bits[0], e->x + row * e->d + j, sizeof(float));
		memcpy(&bits[1], e->x + other * e->d + j, sizeof(float));
		if (bits[0] != bits[1])
			return bits[0] < bits[1] ? -1 : 1;
	}
	for (int i = 0; i < 2 && e->weighted; i++)
		memcpy(&weights[i], e->w + (i == 0 ? row : other), sizeof(double));
	return (weights[0] > weights[1]) - (weights[0] < weights[1]);
}

/* The order of pairs of rows. */
static void
run_compare(ReferenceEngine *e, GkCommand *c)
{
	for (int64_t i = 0; i < c->compare.count; i++)
		c->compare.order[i] =
			(int8_t) compare_bits(e, c->compare.rows[i], c->compare.others[i]);
}

/* True if a row comes before another: farther first, then by hash, by bits, and by number. */
static bool
comes_before(const ReferenceEngine *e, const GkEntry *left, const GkEntry *right)
{
	int			order;

	if (left->distance2 != right->distance2)
		return left->distance2 > right->distance2;
	if (left->hash != right->hash)
		return left->hash < right->hash;
	order = compare_bits(e, left->row, right->row);
	return order != 0 ? order < 0 : left->row < right->row;
}

/* Inserts a row among the farthest; drops the last if there are too many. */
static void
insert_farthest(const ReferenceEngine *e, GkCommand *c, GkEntry entry)
{
	GkEntry    *entries = c->farthest.entries;
	int64_t		at = c->farthest.found;

	if (at < c->farthest.count)
		c->farthest.found++;
	else if (at == 0 || !comes_before(e, &entry, &entries[--at]))
		return;
	for (; at > 0 && comes_before(e, &entry, &entries[at - 1]); at--)
		entries[at] = entries[at - 1];
	entries[at] = entry;
}

/* The farthest rows with a weight. */
static void
run_farthest(ReferenceEngine *e, GkCommand *c)
{
	c->farthest.found = 0;
	for (int64_t i = 0; more_rows(e, i); i++)
		if (weight_of(e, i) > 0)
			insert_farthest(e, c, (GkEntry) {
							.row = i,.hash = hash_of(e, i),.mass = 0,.distance2 = e->distance2[i]
							});
}

/* Labels and d² with the centroids as they are. */
static void
run_assign(ReferenceEngine *e, GkCommand *c)
{
	c->assign.changed = 0;
	c->assign.greatest = c->assign.greatest_distance = 0.0;
	for (int64_t i = 0; more_rows(e, i); i++)
	{
		int32_t		label = nearest(e, i, e->centroids, e->k, &e->distance2[i]);

		c->assign.changed += label != e->labels[i];
		e->labels[i] = label;
		c->assign.greatest = fmax(c->assign.greatest, weight_of(e, i) * e->distance2[i]);
		c->assign.greatest_distance = fmax(c->assign.greatest_distance,
											 weight_of(e, i) * sqrt(e->distance2[i]));
	}
}

/* Size, weight, inertia, distance and radius of each cluster. */
static void
run_statistics(ReferenceEngine *e, GkCommand *c)
{
	memset(c->statistics.sizes, 0, e->k * sizeof(int64_t));
	memset(c->statistics.weights, 0, e->k * sizeof(GkSum));
	memset(c->statistics.inertia, 0, e->k * sizeof(GkSum));
	memset(c->statistics.distance, 0, e->k * sizeof(GkSum));
	memset(c->statistics.radius2, 0, e->k * sizeof(double));
	for (int64_t i = 0; more_rows(e, i); i++)
	{
		int32_t		label = e->labels[i];
		double		weight = weight_of(e, i);
		double		d2 = e->distance2[i];

		c->statistics.sizes[label]++;
		add_value(&c->statistics.weights[label], weight, e->exponents[e->d], true,
				  c->statistics.rest_bits, 1);
		add_value(&c->statistics.inertia[label], weight * d2, c->statistics.inertia_exponent,
				  true, c->statistics.rest_bits, 1);
		add_value(&c->statistics.distance[label], weight * sqrt(d2),
				  c->statistics.distance_exponent, true, c->statistics.rest_bits, 1);
		c->statistics.radius2[label] = fmax(c->statistics.radius2[label], d2);
	}
}

/* The squares of the rows to their centroids, by cluster and feature. */
static void
run_squares(ReferenceEngine *e, GkCommand *c)
{
	int64_t		width = e->d + 1;
	int64_t    *lows = c->squares.sums + e->k * width;

	memset(c->squares.sums, 0, e->k * width * sizeof(GkSum));
	for (int64_t i = 0; more_rows(e, i); i++)
		for (int j = 0; j <= e->d; j++)
		{
			int64_t		label = e->labels[i];
			int64_t		at = label * width + j;
			double		z = j < e->d
				? (double) e->x[i * e->d + j] - e->centroids[label * e->d + j] : 1.0;
			GkSum		sum = {c->squares.sums[at], lows[at]};

			add_value(&sum, weight_of(e, i) * (z * z), c->squares.exponents[j], true,
					  c->squares.rest_bits, 1);
			c->squares.sums[at] = sum.high;
			lows[at] = sum.low;
		}
}

/* The distance of a row to a point. */
static double
separation_distance(const ReferenceEngine *e, const GkCommand *c, int64_t row, int64_t point)
{
	const float *x = c->separation.features != NULL ? c->separation.features + row * e->d
		: e->x + (c->separation.first + row) * e->d;
	double		sum = 0.0;

	for (int j = 0; j < e->d; j++)
		sum = gk_add_square(sum, x[j], c->separation.points[point * e->d + j]);
	return c->separation.cosine ? sum / 2 : sqrt(sum);
}

/* How far rows are from their own group of points, and from the nearest other one. */
static void
run_separation(ReferenceEngine *e, GkCommand *c)
{
	for (int64_t row = 0; row < c->separation.count && !e->stopped; row++)
	{
		int64_t		point = 0;
		double		other = INFINITY;

		/* a look at whether to stop */
		(void) more_rows(e, row);
		for (int64_t group = 0; group < c->separation.groups; group++)
		{
			int64_t		first = point;
			double		sum = 0.0;

			for (; point < c->separation.ends[group]; point++)
				sum += separation_distance(e, c, row, point);
			if (c->separation.labels[row] == group)
				c->separation.own[row] = sum;
			else if (sum / (double) (point - first) < other)
				other = sum / (double) (point - first);
		}
		if (c->separation.other != NULL)
			c->separation.other[row] = other;
	}
}

/* The clusters of GK_MERGE. */
typedef struct Clusters
{
	GkCommand  *command;
	int			d;
	int64_t		count;
	float	   *means;
	double	   *weights;
	uint64_t   *lists;			/* count × GK_NEIGHBOUR_COUNT */
	uint64_t   *best;			/* the first union of each, by the number of who proposes it */
	bool	   *grown;			/* in this round */
	int			round;
	GkCoarseness coarseness;	/* of this round */
} Clusters;

/* The distance of two points, in float. */
static float
point_distance(const Clusters *s, int64_t a, int64_t b)
{
	float		sum = 0.0f;

	for (int j = 0; j < s->d; j++)
		sum = gk_add_square_float(sum, s->means[a * s->d + j], s->means[b * s->d + j]);
	return sum;
}

/* The nearest neighbours of a point: each in turn is the nearest that is not there yet. */
static void
list_nearest(Clusters *s, int64_t point)
{
	float	   *distances = malloc(s->count * sizeof(float));

	for (int64_t other = 0; other < s->count; other++)
		distances[other] = point_distance(s, point, other);
	distances[point] = -1.0f;
	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
	{
		int64_t		nearest = -1;

		for (int64_t next = 1; next < s->count; next++)
		{
			int64_t		other = (point + next) % s->count;

			if (distances[other] >= 0.0f && (nearest < 0 || distances[other] < distances[nearest]))
				nearest = other;
		}
		if (nearest < 0)
			break;
		gk_offer_union(s->lists + point * GK_NEIGHBOUR_COUNT,
					   gk_union_key(gk_union_cost(s->weights[point], s->weights[nearest],
												  distances[nearest]), (int32_t) nearest));
		distances[nearest] = -1.0f;
	}
	free(distances);
}

/* Ascending. */
static int
compare_costs(const void *a, const void *b)
{
	uint32_t	left = *(const uint32_t *) a;
	uint32_t	right = *(const uint32_t *) b;

	return (left > right) - (left < right);
}

/* The bits of the greatest cost that counts: those after the leading ones of a cost are all set. */
static uint32_t
greatest_cost_bits(const Clusters *s)
{
	const GkCommand *c = s->command;
	uint32_t   *costs = malloc(s->count * sizeof(uint32_t));
	uint32_t	greatest = UINT32_MAX - 1;
	int64_t		found = 0;

	for (int64_t i = 0; i < s->count; i++)
		if (c->merge.into[i] >= 0)
			memcpy(&costs[found++], &c->merge.costs[i], sizeof(float));
	qsort(costs, found, sizeof(uint32_t), compare_costs);
	if (found >= c->merge.wanted)
		greatest = costs[c->merge.wanted - 1] | ((UINT32_C(1) << GK_COST_SHIFT) - 1);
	free(costs);
	return greatest;
}

/* A union of a list as others see it, with the number of its cluster; none if it is too dear. */
static uint64_t
seen_by_others(const Clusters *s, int64_t c, uint64_t key, uint32_t greatest)
{
	uint32_t	bits = gk_union_cost_bits(key);

	return bits > greatest ? GK_NO_NEIGHBOUR
		: gk_round_key(bits, (int32_t) c, s->coarseness.bits, s->round);
}

/* The first unions of the lists, and the first of all that each cluster can have. */
static void
propose(Clusters *s, uint64_t *proposals, uint32_t greatest)
{
	for (int64_t c = 0; c < s->count; c++)
		s->best[c] = proposals[c] = GK_NO_NEIGHBOUR;
	for (int64_t c = 0; c < s->count; c++)
	{
		for (int i = GK_NEIGHBOUR_COUNT - 1; i >= 0 && s->command->merge.into[c] < 0; i--)
		{
			uint64_t	one = s->lists[c * GK_NEIGHBOUR_COUNT + i];
			int32_t		other = gk_union_number(one);

			proposals[c] = seen_by_others(s, c, one, greatest);
			if (proposals[c] != GK_NO_NEIGHBOUR && proposals[c] < s->best[other])
				s->best[other] = proposals[c];
		}
		if (proposals[c] < s->best[c])
			s->best[c] = proposals[c];
	}
}

/* Makes a cluster a part of another one. */
static void
unite(Clusters *s, int64_t to, int64_t from, uint32_t cost_bits)
{
	float		share = gk_merge_share(s->weights[to], s->weights[from]);
	float	   *mean = s->means + to * s->d;
	float	   *zero = calloc(s->d, sizeof(float));
	float		norm;

	for (int j = 0; j < s->d; j++)
		mean[j] = gk_merge_mean(mean[j], s->means[from * s->d + j], share);
	norm = sqrtf(gk_merge_distance2(mean, zero, s->d));
	for (int j = 0; s->command->merge.spherical && norm > 0.0f && j < s->d; j++)
		mean[j] = mean[j] / norm;
	s->weights[to] += s->weights[from];
	s->grown[to] = true;
	s->command->merge.into[from] = (int32_t) to;
	s->command->merge.rounds[from] = s->round;
	memcpy(&s->command->merge.costs[from], &cost_bits, sizeof(float));
	free(zero);
}

/* Offers the members of a list to that of a cluster, as they are now. */
static void
offer_list(const Clusters *s, int64_t c, const uint64_t *list, uint64_t *to)
{
	for (int i = 0; i < GK_NEIGHBOUR_COUNT && list[i] != GK_NO_NEIGHBOUR; i++)
	{
		int64_t		was = gk_union_number(list[i]);
		int64_t		now = s->command->merge.into[was] < 0 ? was : s->command->merge.into[was];
		float		distance2 = gk_merge_distance2(s->means + c * s->d, s->means + now * s->d,
												   s->d);

		if (now == c)
			continue;
		if (s->grown[c] || s->grown[now])
			gk_offer_union(to, gk_union_key(gk_union_cost(s->weights[c], s->weights[now],
														  distance2), (int32_t) now));
		else
			gk_offer_union(to, list[i]);
	}
}

/* Brings the lists up to date after a round. */
static void
refresh_lists(Clusters *s)
{
	const GkCommand *c = s->command;
	size_t		bytes = s->count * GK_NEIGHBOUR_COUNT * sizeof(uint64_t);
	uint64_t   *fresh = malloc(bytes);

	memset(fresh, 0xff, bytes);
	for (int64_t i = 0; i < s->count; i++)
	{
		if (c->merge.into[i] < 0)
			offer_list(s, i, s->lists + i * GK_NEIGHBOUR_COUNT, fresh + i * GK_NEIGHBOUR_COUNT);
		else if (c->merge.rounds[i] == s->round)
			offer_list(s, c->merge.into[i], s->lists + i * GK_NEIGHBOUR_COUNT,
					   fresh + c->merge.into[i] * GK_NEIGHBOUR_COUNT);
	}
	memcpy(s->lists, fresh, bytes);
	free(fresh);
	memset(s->grown, 0, s->count * sizeof(bool));
}

/*
 * The union that a cluster would have in a round: of those that cost as little as the first, but
 * for the bits that are left out, it is another one's turn each round.
 */
static uint64_t
choose_union(const Clusters *s, const uint64_t *list, uint32_t greatest)
{
	uint64_t	choices[GK_NEIGHBOUR_COUNT];
	int			count = 0;

	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
	{
		uint32_t	bits = gk_union_cost_bits(list[i]);

		if (i == 0 || (bits <= greatest && bits >> s->coarseness.bits ==
					   gk_union_cost_bits(list[0]) >> s->coarseness.bits))
			choices[count++] = list[i];
	}
	return choices[s->round % count];
}

/* One round of unions; false if there was none. */
static bool
merge_round(Clusters *s)
{
	uint64_t   *proposals = malloc(s->count * sizeof(uint64_t));
	uint32_t	greatest = greatest_cost_bits(s);
	int64_t		able = 0;
	int64_t		unions = 0;

	propose(s, proposals, greatest);
	for (int64_t c = 0; c < s->count; c++)
	{
		uint64_t	choice = choose_union(s, s->lists + c * GK_NEIGHBOUR_COUNT, greatest);
		int64_t		other = gk_union_number(choice);

		able += proposals[c] != GK_NO_NEIGHBOUR;
		if (proposals[c] == GK_NO_NEIGHBOUR || s->best[c] != proposals[c] ||
			s->best[other] != proposals[c])
			continue;
		unite(s, c < other ? c : other, c < other ? other : c, gk_union_cost_bits(choice));
		unions++;
	}
	refresh_lists(s);
	s->round++;
	gk_judge_round(&s->coarseness, unions, able);
	free(proposals);
	return unions > 0;
}

/* Which of many clusters become one. */
static void
run_merge(ReferenceEngine *e, GkCommand *c)
{
	int64_t		count = c->merge.count;
	Clusters	s = {.command = c,.d = e->d,.count = count};

	s.means = malloc(count * e->d * sizeof(float));
	s.weights = malloc(count * sizeof(double));
	s.lists = malloc(count * GK_NEIGHBOUR_COUNT * sizeof(uint64_t));
	s.best = malloc(count * sizeof(uint64_t));
	s.grown = calloc(count, sizeof(bool));
	memcpy(s.means, c->merge.points, count * e->d * sizeof(float));
	memcpy(s.weights, c->merge.weights, count * sizeof(double));
	memset(s.lists, 0xff, count * GK_NEIGHBOUR_COUNT * sizeof(uint64_t));
	for (int64_t i = 0; i < count; i++)
	{
		c->merge.into[i] = c->merge.rounds[i] = -1;
		c->merge.costs[i] = 0.0f;
	}
	/* looks at whether to stop */
	for (int64_t i = 0; i < count && !e->stopped; i++)
	{
		(void) more_rows(e, i);
		list_nearest(&s, i);
	}
	for (int round = 0; !e->stopped && merge_round(&s); round++)
		(void) more_rows(e, round);
	free(s.grown);
	free(s.best);
	free(s.lists);
	free(s.weights);
	free(s.means);
}

/* The weight of the rows of each label. */
static void
run_label_weights(ReferenceEngine *e, GkCommand *c)
{
	memset(c->label_weights.weights, 0, c->label_weights.count * sizeof(GkSum));
	for (int64_t i = 0; more_rows(e, i); i++)
		add_value(&c->label_weights.weights[e->labels[i]], weight_of(e, i), e->exponents[e->d],
				  e->wide, e->rest_bits, 1);
}

/* Takes the grid of the sums. */
static void
run_grid(ReferenceEngine *e, GkCommand *c)
{
	e->wide = c->grid.wide;
	e->rest_bits = c->grid.rest_bits;
	e->exponents = allocate(e->exponents, e->d + 1, sizeof(int));
	memcpy(e->exponents, c->grid.exponents, (e->d + 1) * sizeof(int));
	e->origin = allocate(e->origin, e->d, sizeof(double));
	memcpy(e->origin, c->grid.origin, e->d * sizeof(double));
}

/* Takes the first centroids; no row has a label then. */
static void
run_centroids(ReferenceEngine *e, GkCommand *c)
{
	e->k = c->centroids.k;
	e->spherical = c->centroids.spherical;
	e->centroids = allocate(e->centroids, e->k * e->d, sizeof(double));
	memcpy(e->centroids, c->centroids.centroids, e->k * e->d * sizeof(double));
	e->sums = allocate(e->sums, e->k * (e->d + 1), sizeof(GkSum));
	e->given = allocate(e->given, e->k * (e->d + 1), sizeof(GkSum));
	for (int64_t i = 0; more_rows(e, i); i++)
		e->labels[i] = -1;
}

/* Counts the rows. */
static void
run_seal(ReferenceEngine *e, GkCommand *c)
{
	c->seal.rows = e->n;
}

/* Copies some rows out. */
static void
run_rows(ReferenceEngine *e, GkCommand *c)
{
	for (int64_t i = 0; i < c->rows.count; i++)
	{
		int64_t		row = c->rows.rows[i];

		memcpy(c->rows.features + i * e->d, e->x + row * e->d, e->d * sizeof(float));
		if (c->rows.weights != NULL)
			c->rows.weights[i] = weight_of(e, row);
		if (c->rows.labels != NULL)
			c->rows.labels[i] = e->labels[row];
	}
}

/* d² to the centroid of the label. */
static void
run_distances(ReferenceEngine *e, GkCommand *c)
{
	(void) c;
	for (int64_t i = 0; more_rows(e, i); i++)
		e->distance2[i] = square(e, i, e->centroids + (int64_t) e->labels[i] * e->d);
}

/* Copies the centroids out. */
static void
run_get_centroids(ReferenceEngine *e, GkCommand *c)
{
	memcpy(c->get_centroids.centroids, e->centroids, e->k * e->d * sizeof(double));
}

static void run_draw(ReferenceEngine *e, GkCommand *c);

/* The function that runs a command. */
static void (*const functions[]) (ReferenceEngine *, GkCommand *) = {
	[GK_SEAL] = run_seal,
	[GK_RANGE] = run_range,
	[GK_MOMENTS] = run_moments,
	[GK_TRANSFORM] = run_transform,
	[GK_GRID] = run_grid,
	[GK_CANDIDATES] = run_candidates,
	[GK_POTENTIALS] = run_potentials,
	[GK_MASSES] = run_masses,
	[GK_ENTRIES] = run_entries,
	[GK_DRAW] = run_draw,
	[GK_LABEL_WEIGHTS] = run_label_weights,
	[GK_MERGE] = run_merge,
	[GK_ROWS] = run_rows,
	[GK_COMPARE] = run_compare,
	[GK_CENTROIDS] = run_centroids,
	[GK_STEP] = run_step,
	[GK_MOVE] = run_move,
	[GK_RELOCATE] = run_relocate,
	[GK_DISTANCES] = run_distances,
	[GK_FARTHEST] = run_farthest,
	[GK_ASSIGN] = run_assign,
	[GK_STATISTICS] = run_statistics,
	[GK_SQUARES] = run_squares,
	[GK_SEPARATION] = run_separation,
	[GK_GET_CENTROIDS] = run_get_centroids,
};

/* Runs a part of a draw. */
static void
run_part(void *engine, GkCommand *c)
{
	ReferenceEngine *e = engine;

	if (c->operation == GK_CANDIDATES)
		gk_forget_for_drawn(&e->state);
	functions[c->operation](e, c);
}

/* Draws rows, and compares all rows with them. */
static void
run_draw(ReferenceEngine *e, GkCommand *c)
{
	PlainDrawer drawer = {.engine = e,.run = run_part,.rows = e->n,.d = e->d};

	plain_draw(&drawer, c);
}

/* Runs a command at once, if the engine has what it needs. */
static GkStatus
reference_submit(GkEngine *engine, GkCommand *c)
{
	ReferenceEngine *e = (ReferenceEngine *) engine;
	int64_t		centroids = e->state.centroids;

	e->last = ok;
	e->last.code = GK_INTERNAL;
	if (!gk_can_run(&e->state, c))
		return ok;
	gk_forget(&e->state, c);
	functions[c->operation](e, c);
	if (e->stopped)
		return ok;
	gk_note(&e->state, c, centroids);
	e->last = ok;
	return ok;
}

/* Makes an engine without rows. */
static GkStatus
reference_open(const GkEngineConfig *config, GkEngine **engine)
{
	ReferenceEngine *e = calloc(1, sizeof(ReferenceEngine));

	if (e == NULL)
		abort();
	e->base.class_of = gk_reference_engine();
	e->weighted = config->weighted;
	*engine = &e->base;
	return ok;
}

/* Nothing to do: rows are copied by append. */
static GkStatus
reference_lend_buffer(GkEngine *engine, void *base, size_t bytes)
{
	(void) engine;
	(void) base;
	(void) bytes;
	return ok;
}

/* Sets the number of features of a row. */
static GkStatus
reference_set_dimension(GkEngine *engine, int dimension)
{
	((ReferenceEngine *) engine)->d = dimension;
	return ok;
}

/* Copies a batch. */
static GkStatus
reference_append(GkEngine *engine, const GkBatch *batch, uint64_t *ticket)
{
	ReferenceEngine *e = (ReferenceEngine *) engine;

	if (e->n + batch->rows > e->capacity)
	{
		e->capacity = 2 * (e->n + batch->rows);
		e->x = allocate(e->x, e->capacity * e->d, sizeof(float));
		e->w = allocate(e->w, e->capacity, sizeof(double));
		e->labels = allocate(e->labels, e->capacity, sizeof(int32_t));
		e->distance2 = allocate(e->distance2, e->capacity, sizeof(double));
	}
	memcpy(e->x + e->n * e->d, batch->features, batch->rows * e->d * sizeof(float));
	if (e->weighted)
		memcpy(e->w + e->n, batch->weights, batch->rows * sizeof(double));
	for (int64_t i = e->n; i < e->n + batch->rows; i++)
	{
		e->labels[i] = -1;
		e->distance2[i] = 0.0;
	}
	e->n += batch->rows;
	*ticket = ++e->tickets;
	return ok;
}

/* Every batch is free again: append copied it. */
static GkStatus
reference_reclaim(GkEngine *engine, uint64_t *ticket)
{
	*ticket = ((ReferenceEngine *) engine)->tickets;
	return ok;
}

/* Drops the rows. */
static GkStatus
reference_clear(GkEngine *engine)
{
	ReferenceEngine *e = (ReferenceEngine *) engine;

	e->n = e->capacity = 0;
	e->state = (GkState) {0};
	return ok;
}

/* The command has ended when submit returns. */
static GkStatus
reference_wait(GkEngine *engine, int milliseconds)
{
	(void) milliseconds;
	return ((ReferenceEngine *) engine)->last;
}

/* Copies labels and d² of a range of rows. */
static GkStatus
reference_fetch(GkEngine *engine, int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	ReferenceEngine *e = (ReferenceEngine *) engine;

	if (labels != NULL)
		memcpy(labels, e->labels + from, count * sizeof(int32_t));
	if (distance2 != NULL)
		memcpy(distance2, e->distance2 + from, count * sizeof(double));
	return ok;
}

/* Roughly the memory of the rows. */
static void
reference_usage(const GkEngine *engine, GkUsage *usage)
{
	const ReferenceEngine *e = (const ReferenceEngine *) engine;

	memset(usage, 0, sizeof(*usage));
	usage->host_bytes = usage->host_peak = e->capacity * (e->d * sizeof(float) + 20);
	usage->threads = 1;
}

/* Frees the engine. */
static void
reference_close(GkEngine *engine)
{
	ReferenceEngine *e = (ReferenceEngine *) engine;

	if (e == NULL)
		return;
	free(e->x);
	free(e->w);
	free(e->labels);
	free(e->distance2);
	free(e->exponents);
	free(e->origin);
	free(e->centroids);
	free(e->sums);
	free(e->given);
	free(e);
}

/* The class of the reference engine. */
const GkEngineClass *
gk_reference_engine(void)
{
	static const GkEngineClass class_of = {
		.interface = GK_ENGINE_INTERFACE,
		.name = "reference",
		.open = reference_open,
		.lend_buffer = reference_lend_buffer,
		.set_dimension = reference_set_dimension,
		.append = reference_append,
		.reclaim = reference_reclaim,
		.clear = reference_clear,
		.submit = reference_submit,
		.wait = reference_wait,
		.fetch = reference_fetch,
		.usage = reference_usage,
		.close = reference_close
	};

	return &class_of;
}
