/*
 * An engine against another one: every output of every command, bit for bit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_compare.h"
#include "engine_drive.h"
#include "engine_limits.h"
#include "plain_draw.h"
#include "update.h"

/* Both engines and their outputs: first the tested one, then the oracle. */
typedef struct Pair
{
	Comparison *comparison;
	const Data *data;
	GkEngine   *engines[2];
	double	   *centroids;		/* k × d: the first ones */
	int		   *exponents;		/* d + 1: of the grid */
	double	   *origin;			/* d: of the grid */
	double		shift2;			/* of the last step */
	void	   *out[2][8];
	size_t		sizes[8];
} Pair;

/* Room for output number i. */
static void *
room(Pair *pair, int which, int i, size_t bytes)
{
	pair->sizes[i] = bytes;
	free(pair->out[which][i]);
	pair->out[which][i] = calloc(1, bytes + 1);
	return pair->out[which][i];
}

/* Compares output number i. */
static void
same_output(Pair *pair, int i, const char *what)
{
	if (memcmp(pair->out[0][i], pair->out[1][i], pair->sizes[i]) == 0)
		return;
	if (!pair->comparison->differs)
		printf("# %s: %s: output %d differs\n", pair->comparison->where, what, i);
	pair->comparison->differs = true;
}

/* Compares outputs 0 .. count - 1. */
static void
same_outputs(Pair *pair, int count, const char *what)
{
	for (int i = 0; i < count; i++)
		same_output(pair, i, what);
}

/* Labels, d² or both of some of the rows, which begin and end anywhere. */
static void
compare_window(Pair *pair, bool distances, const char *what)
{
	int64_t		from = (int64_t) (random_bits() % (uint64_t) (pair->data->n + 1));
	int64_t		count = (int64_t) (random_bits() % (uint64_t) (pair->data->n - from + 1));
	int			kind = distances ? (int) (random_bits() % 3) : 1;

	for (int e = 0; e < 2; e++)
	{
		int32_t    *labels = room(pair, e, 0, kind == 0 ? 0 : count * sizeof(int32_t));
		double	   *distance2 = room(pair, e, 1, kind == 1 ? 0 : count * sizeof(double));

		check_status(pair->engines[e]->class_of->fetch(pair->engines[e], from, count,
													   kind == 0 ? NULL : labels,
													   kind == 1 ? NULL : distance2));
	}
	same_outputs(pair, 2, what);
}

/* Labels, and d² if asked for, of all rows, and of a window on them. */
static void
compare_rows(Pair *pair, bool distances, const char *what)
{
	int64_t		n = pair->data->n;

	for (int e = 0; e < 2; e++)
		check_status(pair->engines[e]->class_of->fetch(pair->engines[e], 0, n,
													   room(pair, e, 0, n * 4),
													   distances ? room(pair, e, 1, n * 8)
													   : NULL));
	same_outputs(pair, distances ? 2 : 1, what);
	compare_window(pair, distances, what);
}

/* Least and greatest values and weights. */
static void
compare_range(Pair *pair)
{
	int			d = pair->data->d;

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_RANGE};
		double	   *weights = room(pair, e, 2, 2 * sizeof(double));

		c.range.least = room(pair, e, 0, d * sizeof(float));
		c.range.greatest = room(pair, e, 1, d * sizeof(float));
		run(pair->engines[e], &c);
		weights[0] = c.range.least_weight;
		weights[1] = c.range.greatest_weight;
	}
	same_outputs(pair, 3, "range");
}

/* Moments of features and weights. */
static void
compare_moments(Pair *pair)
{
	int			d = pair->data->d;
	int		   *exponents = malloc(2 * d * sizeof(int));

	for (int j = 0; j < d; j++)
	{
		exponents[j] = pair->data->exponents[j] - 8;
		exponents[d + j] = 2 * pair->data->exponents[j] - 60;
		if (exponents[d + j] > 900)
			exponents[d + j] = 900;
	}
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_MOMENTS};
		GkSum	   *weight = room(pair, e, 4, sizeof(GkSum));

		c.moments.pivot = pair->data->center;
		c.moments.first_exponents = exponents;
		c.moments.second_exponents = exponents + d;
		c.moments.weight_exponent = 10;
		c.moments.rest_bits = REST_BITS;
		c.moments.first = room(pair, e, 0, d * sizeof(GkSum));
		c.moments.second = room(pair, e, 1, d * sizeof(GkSum));
		c.moments.exponent_sum = room(pair, e, 2, (d + 1) * 8);
		c.moments.nonzero = room(pair, e, 3, (d + 1) * 8);
		run(pair->engines[e], &c);
		*weight = c.moments.weight;
	}
	same_outputs(pair, 5, "moments");
	free(exponents);
}

/* Transforms the rows, and compares the first, the middle and the last one. */
static void
compare_transform(Pair *pair, bool normalize)
{
	int			d = pair->data->d;
	double	   *factor = malloc(d * sizeof(double));
	int64_t		rows[3] = {0, pair->data->n / 2, pair->data->n - 1};
	/* nodes refuse what would make a value infinite */
	double		least_factor = pair->data->kind == LIMITS ? 0.25 : 1.0;

	for (int j = 0; j < d; j++)
		factor[j] = least_factor * (1.0 + 0.125 * (j % 3));
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_TRANSFORM};
		GkCommand	get = {.operation = GK_ROWS};

		c.transform.offset = pair->data->center;
		c.transform.factor = factor;
		c.transform.normalize = normalize;
		run(pair->engines[e], &c);
		get.rows.rows = rows;
		get.rows.count = 3;
		get.rows.features = room(pair, e, 0, 3 * d * sizeof(float));
		run(pair->engines[e], &get);
	}
	same_outputs(pair, 1, "transform");
	free(factor);
}

/* Makes the first centroids rows of length 1, as the rows now are. */
static void
normalize_centroids(Pair *pair)
{
	int			d = pair->data->d;
	float	   *row = malloc(d * sizeof(float));

	for (int64_t i = 0; i < pair->data->k; i++)
	{
		int64_t		number = (int64_t) (random_bits() % (uint64_t) pair->data->n);
		GkCommand	c = {.operation = GK_ROWS};

		c.rows.rows = &number;
		c.rows.count = 1;
		c.rows.features = row;
		run(pair->engines[1], &c);
		for (int j = 0; j < d; j++)
			pair->centroids[i * d + j] = row[j];
	}
	free(row);
}

/* The grid of the data; that of values up to 1 where the rows were normalized. */
static void
set_grids(Pair *pair)
{
	const Data *data = pair->data;

	memcpy(pair->exponents, data->exponents, (data->d + 1) * sizeof(int));
	if (data->spherical)
	{
		/* weights are at most 1e8 */
		int			bits = data->wide ? 36 : 49 - (int) ceil(log2((double) data->n + 1));

		for (int j = 0; j < data->d; j++)
			pair->exponents[j] = bits - (data->weighted ? 28 : 1);
	}
	else
		memcpy(pair->origin, data->center, data->d * sizeof(double));
	for (int e = 0; e < 2; e++)
		set_grid(pair->engines[e], data->wide, pair->exponents, pair->origin);
}

/* An exponent that makes masses up to `greatest` large and sums of them no overflow. */
int
mass_exponent(int64_t rows, double greatest)
{
	int			exponent;

	frexp(greatest > 0 ? greatest : 1.0, &exponent);
	exponent = 48 - (int) ceil(log2((double) rows + 1)) - exponent;
	return exponent > 1000 ? 1000 : exponent;
}

/* The buckets of a mass, and the entries of some of them, 100 at a time. */
static void
compare_masses(Pair *pair, GkMass mass, int exponent, int bits)
{
	int64_t		buckets = INT64_C(1) << bits;
	uint8_t    *wanted = calloc(1, buckets);

	for (int64_t b = 0; b < buckets; b++)
		wanted[b] = random_bits() % 3 == 0 || bits == 0;
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_MASSES};
		int64_t		from = 0;

		c.masses.mass = mass;
		c.masses.exponent = exponent;
		c.masses.bits = bits;
		c.masses.buckets = room(pair, e, 0, buckets * 8);
		run(pair->engines[e], &c);
		c = (GkCommand) {.operation = GK_ENTRIES};
		c.entries.mass = mass;
		c.entries.exponent = exponent;
		c.entries.bits = bits;
		c.entries.wanted = wanted;
		c.entries.capacity = 100;
		room(pair, e, 1, (pair->data->n + 100) * sizeof(GkEntry));
		for (int64_t total = 0; from < pair->data->n; from = c.entries.next)
		{
			c.entries.from = from;
			c.entries.entries = (GkEntry *) pair->out[e][1] + total;
			run(pair->engines[e], &c);
			total += c.entries.count;
		}
	}
	same_outputs(pair, 2, "masses and entries");
	free(wanted);
}

/* The order of pairs of rows: every fifth row with itself, the others mostly with one of a few. */
static void
compare_pairs(Pair *pair)
{
	int64_t		count = pair->data->n < 500 ? pair->data->n : 500;
	int64_t    *rows = malloc(count * sizeof(int64_t));
	int64_t    *others = malloc(count * sizeof(int64_t));

	for (int64_t i = 0; i < count; i++)
	{
		rows[i] = (int64_t) (random_bits() % (uint64_t) pair->data->n);
		others[i] = i > 0 && random_bits() % 16 > 0 ? others[i - 1]
			: (int64_t) (random_bits() % (uint64_t) pair->data->n);
		if (i % 5 == 0)
			others[i] = rows[i];
	}
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_COMPARE};

		c.compare.rows = rows;
		c.compare.others = others;
		c.compare.count = count;
		c.compare.order = room(pair, e, 0, count);
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 1, "order of pairs");
	free(rows);
	free(others);
}

/* d² to some candidates after others; returns the greatest. */
static double
compare_more_candidates(Pair *pair, const double *candidates, int64_t count, int64_t first_label)
{
	double		greatest = 0.0;

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_CANDIDATES};

		c.candidates.candidates = candidates;
		c.candidates.count = count;
		c.candidates.first_label = first_label;
		run(pair->engines[e], &c);
		greatest = c.candidates.greatest;
		memcpy(room(pair, e, 2, 8), &greatest, 8);
	}
	same_output(pair, 2, "greatest d² of candidates");
	compare_rows(pair, true, "labels and d² of candidates");
	return greatest;
}

/* d² to candidates, in `count` at a time; they are floats if `as_rows`. */
static double
compare_candidates(Pair *pair, int64_t count, bool as_rows)
{
	int64_t		k = pair->data->k;
	int64_t		values = k * pair->data->d;
	double	   *candidates = malloc(values * sizeof(double));
	double		greatest = 0.0;

	for (int64_t i = 0; i < values; i++)
		candidates[i] = as_rows ? (float) pair->centroids[i] : pair->centroids[i];
	for (int64_t from = 0; from < k; from += count)
		greatest = compare_more_candidates(pair, candidates + from * pair->data->d,
										   k - from < count ? k - from : count, from);
	free(candidates);
	return greatest;
}

/* Points that are merged, at most. */
#define MOST_POINTS 600

/* Draws by distance. */
#define DRAWS 3

/* Runs a command of a draw. */
static void
run_part(void *engine, GkCommand *c)
{
	run(engine, c);
}

/* A draw on one of the engines, which begins with a label; on the oracle whatever it leaves. */
static GkCommand
draw_rows(Pair *pair, int which, GkMass mass, int exponent, int64_t count, int64_t first_label)
{
	const Data *data = pair->data;
	PlainDrawer drawer = {
		.engine = pair->engines[which],.run = run_part,.rows = data->n,.d = data->d
	};
	int64_t    *numbers = room(pair, which, 1, 2 * sizeof(int64_t));
	GkCommand	c = {.operation = GK_DRAW};

	c.draw.mass = mass;
	c.draw.exponent = exponent;
	c.draw.count = count;
	c.draw.seed = (uint64_t) count * 77;
	c.draw.start = 3;
	c.draw.round = (uint32_t) first_label;
	c.draw.first_label = first_label;
	c.draw.features = room(pair, which, 0, count * data->d * sizeof(float));
	run(pair->engines[which], &c);
	if (which == 1 && c.draw.found < 0)
		plain_draw(&drawer, &c);
	numbers[0] = c.draw.found;
	numbers[1] = c.draw.total;
	*(double *) room(pair, which, 2, sizeof(double)) = c.draw.found > 0 ? c.draw.greatest : 0.0;
	return c;
}

/* Which of some points become one; some weigh nothing. */
static void
compare_unions(Pair *pair, const float *points, int64_t count, bool drawn)
{
	int64_t		wanted = 1 + (int64_t) (random_bits() % (uint64_t) count);
	bool		spherical = random_bits() % 4 == 0;
	bool		even = random_bits() % 2 == 0;
	double	   *weights = malloc(count * sizeof(double));

	for (int64_t i = 0; i < count; i++)
		weights[i] = even ? 1.0 : (double) (random_bits() % 9) / 8;
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_MERGE};

		c.merge.points = points;
		c.merge.weights = weights;
		c.merge.count = count;
		c.merge.wanted = wanted;
		c.merge.spherical = spherical;
		c.merge.drawn = drawn;
		c.merge.into = room(pair, e, 0, count * sizeof(int32_t));
		c.merge.rounds = room(pair, e, 1, count * sizeof(int32_t));
		c.merge.costs = room(pair, e, 2, count * sizeof(float));
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 3, drawn ? "merges of rows drawn" : "merges");
	free(weights);
}

/* Draws rows on both engines, unless the tested one leaves that to its caller. */
static GkCommand
compare_draw(Pair *pair, GkMass mass, int exponent, int64_t first_label, float *candidates)
{
	int64_t		count = 1 + (int64_t) (random_bits() % (uint64_t) pair->data->k);
	GkCommand	drawn = draw_rows(pair, 0, mass, exponent, count, first_label);

	if (drawn.draw.found < 0)
	{
		pair->comparison->differs |= drawn.draw.total != 0;
		return drawn;
	}
	pair->comparison->draws++;
	memcpy(candidates + first_label * pair->data->d, drawn.draw.features,
		   drawn.draw.found * pair->data->d * sizeof(float));
	(void) draw_rows(pair, 1, mass, exponent, count, first_label);
	same_outputs(pair, 3, "rows drawn");
	if (drawn.draw.found > 0)
		compare_rows(pair, true, "labels and d² of rows drawn");
	return drawn;
}

/* Draws rows by weight, and by distance to these; merges them. */
static void
compare_draws(Pair *pair)
{
	double		greatest = pair->data->weighted ? 1e8 : 1;
	float	   *candidates = malloc((DRAWS + 1) * pair->data->k * pair->data->d * sizeof(float));
	GkCommand	drawn = compare_draw(pair, GK_MASS_WEIGHT, mass_exponent(pair->data->n, greatest),
									 0, candidates);
	int64_t		found = 0;

	for (int round = 0; round < DRAWS && drawn.draw.found > 0; round++)
	{
		found += drawn.draw.found;
		drawn = compare_draw(pair, GK_MASS_DISTANCE,
							 mass_exponent(pair->data->n, drawn.draw.greatest), found, candidates);
	}
	found += drawn.draw.found > 0 ? drawn.draw.found : 0;
	if (found > 0 && drawn.draw.found >= 0)
		compare_unions(pair, candidates, found < MOST_POINTS ? found : MOST_POINTS,
					   found <= MOST_POINTS);
	free(candidates);
}

/* The commands of seeding: draws, candidates, potentials, masses, weights of the labels. */
static void
compare_seeding(Pair *pair, int64_t count)
{
	int64_t		trials = pair->data->k < 7 ? pair->data->k : 7;
	double		greatest;
	int			exponent;

	compare_draws(pair);
	greatest = compare_candidates(pair, count, random_bits() % 2);
	exponent = mass_exponent(pair->data->n, greatest);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_POTENTIALS};

		c.potentials.trials = pair->centroids;
		c.potentials.count = (int) trials;
		c.potentials.exponent = exponent;
		c.potentials.potentials = room(pair, e, 0, trials * 8);
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 1, "potentials");
	compare_masses(pair, GK_MASS_DISTANCE, exponent, 10);
	compare_pairs(pair);
	compare_masses(pair, GK_MASS_WEIGHT,
				   mass_exponent(pair->data->n, pair->data->weighted ? 1e8 : 1), 0);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_LABEL_WEIGHTS};

		c.label_weights.count = pair->data->k;
		c.label_weights.weights = room(pair, e, 0, pair->data->k * sizeof(GkSum));
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 1, "label weights");
}

/* The centroids as they are. */
static void
compare_centroids(Pair *pair)
{
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_GET_CENTROIDS};

		c.get_centroids.centroids = room(pair, e, 0, pair->data->k * pair->data->d * 8);
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 1, "centroids");
}

/* Relocation as the fit layer does it: the farthest rows to the empty clusters. */
static void
compare_relocation(Pair *pair, const uint8_t *is_empty, int64_t empty)
{
	for (int e = 0; e < 2; e++)
	{
		GkEntry    *entries = room(pair, e, 0, empty * sizeof(GkEntry));
		double	   *numbers = room(pair, e, 1, 2 * 8);

		relocate_farthest(pair->engines[e], is_empty, empty, entries, numbers);
	}
	same_outputs(pair, 2, "relocation");
}

/* One iteration; true if no label changed. */
static bool
compare_step(Pair *pair)
{
	int64_t		k = pair->data->k;
	int64_t		changed = 0;
	int64_t		empty = 0;
	uint8_t    *is_empty = calloc(1, k);

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_STEP};
		double	   *numbers = room(pair, e, 1, 4 * 8);

		c.step.is_empty = room(pair, e, 0, k);
		run(pair->engines[e], &c);
		numbers[0] = (double) (changed = c.step.changed);
		numbers[1] = (double) (empty = c.step.empty);
		numbers[2] = pair->shift2 = c.step.shift2;
		numbers[3] = c.step.between;
	}
	same_outputs(pair, 2, "step");
	memcpy(is_empty, pair->out[1][0], k);
	compare_rows(pair, false, "labels of a step");
	if (empty > 0)
		compare_relocation(pair, is_empty, empty);
	compare_centroids(pair);
	free(is_empty);
	return changed == 0;
}

/*
 * Iterations of one engine, so many at once at most, until no label changes or a shift is within
 * the tolerance; true if such a shift ended them.
 */
static bool
iterate(Pair *pair, int e, int steps, int at_once, double tolerance)
{
	GkIterated *all = room(pair, e, 2, steps * sizeof(GkIterated));
	uint8_t    *is_empty = calloc(1, pair->data->k);
	bool		rests = false;

	for (int done = 0; done < steps && !rests && (done == 0 || all[done - 1].changed > 0);)
	{
		GkCommand	c = {.operation = GK_STEP};
		int64_t		empty;

		c.step.is_empty = is_empty;
		c.step.more = (at_once < steps - done ? at_once : steps - done) - 1;
		c.step.tolerance = tolerance;
		c.step.iterated = all + done;
		run(pair->engines[e], &c);
		done += (int) c.step.earlier;
		all[done++] = (GkIterated) {c.step.changed, c.step.shift2, c.step.between};
		empty = c.step.empty;
		rests = tolerance > 0.0 && empty == 0 && c.step.shift2 <= tolerance;
		if (empty > 0)
			relocate_farthest(pair->engines[e], is_empty, empty,
							  room(pair, e, 0, empty * sizeof(GkEntry)), room(pair, e, 1, 2 * 8));
	}
	free(is_empty);
	return rests;
}

/* Several iterations at once, against one at a time. */
static void
compare_steps(Pair *pair, int steps, double tolerance)
{
	bool		rests = iterate(pair, 0, steps, 1 + (int) (random_bits() % 8), tolerance);

	(void) iterate(pair, 1, steps, 1, tolerance);
	same_output(pair, 2, "iterations at once");
	compare_centroids(pair);
	if (!rests)
		compare_rows(pair, false, "labels of iterations at once");
	/* labels are unknown where a shift within the tolerance ended them */
	for (int e = 0; e < 2 && rests; e++)
		set_centroids(pair->engines[e], pair->out[1][0], pair->data->k, pair->data->spherical);
}

/* Features, weights and labels of some rows. */
static void
compare_numbered_rows(Pair *pair)
{
	int64_t		count = pair->data->n < 40 ? pair->data->n : 40;
	int64_t		rows[40];

	for (int64_t i = 0; i < count; i++)
		rows[i] = (int64_t) (random_bits() % (uint64_t) pair->data->n);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_ROWS};

		c.rows.rows = rows;
		c.rows.count = count;
		c.rows.features = room(pair, e, 0, count * pair->data->d * sizeof(float));
		c.rows.weights = room(pair, e, 1, count * sizeof(double));
		c.rows.labels = room(pair, e, 2, count * sizeof(int32_t));
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 3, "features, weights and labels of rows");
}

/* Adds the sums of a step that the oracle gave, and makes centroids of them. */
static void
update_centroids(Pair *pair, bool changes, int64_t *sums, double *centroids)
{
	const Data *data = pair->data;
	int64_t		width = data->d + 1;
	int64_t    *lows = data->wide ? sums + data->k * width : NULL;
	const int64_t *given = pair->out[1][0];
	double	   *mean = malloc(data->d * sizeof(double));
	GkUpdate	update = {.dimension = data->d,.spherical = data->spherical};
	double		between;

	update.grid = (GkGrid) {
		.wide = data->wide,.rest_bits = data->wide ? REST_BITS : 0,.exponents = pair->exponents,
		.origin = pair->origin
	};
	for (int64_t i = 0; i < data->k * width * (data->wide ? 2 : 1); i++)
		sums[i] = given[i] + (changes ? sums[i] : 0);
	for (int64_t c = 0; c < data->k; c++)
		gk_update_centroid(&update, sums + c * width, lows == NULL ? NULL : lows + c * width, mean,
						   centroids + c * data->d, &between);
	free(mean);
}

/* Moves the centroids of both engines. */
static void
move_centroids(Pair *pair, const double *centroids)
{
	GkCommand	c = {.operation = GK_MOVE};

	c.move.centroids = centroids;
	for (int e = 0; e < 2; e++)
		run(pair->engines[e], &c);
}

/* A step that gives the sums. */
static void
compare_given_step(Pair *pair, bool changes)
{
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_STEP};
		int64_t    *changed = room(pair, e, 1, sizeof(int64_t));

		c.step.sums = room(pair, e, 0, pair->data->k * (pair->data->d + 1) * sizeof(GkSum));
		c.step.changes = changes;
		run(pair->engines[e], &c);
		*changed = c.step.changed;
	}
	same_outputs(pair, 2, "step that gives the sums");
}

/*
 * Iterations whose sums are given and whose centroids are made here: mostly the changes, sometimes
 * all; centroids sometimes move twice before a step, or rest.
 */
static void
compare_given(Pair *pair, int steps)
{
	const Data *data = pair->data;
	int64_t    *sums = calloc(data->k * (data->d + 1), sizeof(GkSum));
	double	   *centroids = malloc(data->k * data->d * sizeof(double));

	memcpy(centroids, pair->centroids, data->k * data->d * sizeof(double));
	for (int step = 0; step < steps; step++)
	{
		bool		changes = step > 0 && random_bits() % 4 > 0;

		compare_given_step(pair, changes);
		update_centroids(pair, changes, sums, centroids);
		if (random_bits() % 8 == 0)
			move_centroids(pair, pair->centroids);
		/* the second of two equal movements is none */
		for (uint64_t times = random_bits() % 4; times > 0; times /= 2)
			move_centroids(pair, centroids);
		compare_rows(pair, false, "labels of a step that gives the sums");
		compare_centroids(pair);
	}
	compare_numbered_rows(pair);
	free(centroids);
	free(sums);
}

/* The last assignment, and the statistics of the clusters. */
static void
compare_statistics(Pair *pair)
{
	int64_t		k = pair->data->k;

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_ASSIGN};
		double	   *numbers = room(pair, e, 0, 3 * 8);
		double		greatest;
		double		greatest_distance;

		run(pair->engines[e], &c);
		numbers[0] = (double) c.assign.changed;
		numbers[1] = greatest = c.assign.greatest;
		numbers[2] = greatest_distance = c.assign.greatest_distance;
		c = (GkCommand) {.operation = GK_STATISTICS};
		c.statistics.inertia_exponent = mass_exponent(pair->data->n, greatest);
		c.statistics.distance_exponent = mass_exponent(pair->data->n, greatest_distance);
		c.statistics.rest_bits = REST_BITS;
		c.statistics.sizes = room(pair, e, 1, k * 8);
		c.statistics.weights = room(pair, e, 2, k * sizeof(GkSum));
		c.statistics.inertia = room(pair, e, 3, k * sizeof(GkSum));
		c.statistics.distance = room(pair, e, 4, k * sizeof(GkSum));
		c.statistics.radius2 = room(pair, e, 5, k * 8);
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 6, "statistics");
	compare_rows(pair, true, "labels and d²");
}

/* The greatest weight × (x - c)² of each feature that there can be, and the greatest weight. */
static void
find_squares(const Pair *pair, double *greatest)
{
	const Data *data = pair->data;
	int			d = data->d;
	double	   *centroids = malloc(data->k * d * sizeof(double));
	float	   *range = malloc(2 * d * sizeof(float));
	GkCommand	c = {.operation = GK_GET_CENTROIDS};

	c.get_centroids.centroids = centroids;
	run(pair->engines[1], &c);
	c = (GkCommand) {.operation = GK_RANGE};
	c.range.least = range;
	c.range.greatest = range + d;
	run(pair->engines[1], &c);
	memset(greatest, 0, d * sizeof(double));
	greatest[d] = c.range.greatest_weight;
	for (int64_t i = 0; i < data->k * d; i++)
	{
		int			j = (int) (i % d);
		double		apart = fmax(fabs(centroids[i] - range[j]), fabs(centroids[i] - range[d + j]));

		greatest[j] = fmax(greatest[j], greatest[d] * apart * apart);
	}
	free(centroids);
	free(range);
}

/* The squares of the rows to their centroids, by cluster and feature. */
static void
compare_squares(Pair *pair)
{
	int			d = pair->data->d;
	double	   *greatest = malloc((d + 1) * sizeof(double));
	int		   *exponents = malloc((d + 1) * sizeof(int));

	find_squares(pair, greatest);
	for (int j = 0; j <= d; j++)
		exponents[j] = mass_exponent(pair->data->n, greatest[j]);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_SQUARES};

		c.squares.exponents = exponents;
		c.squares.rest_bits = REST_BITS;
		c.squares.sums = room(pair, e, 0, pair->data->k * (d + 1) * sizeof(GkSum));
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 1, "squares");
	free(greatest);
	free(exponents);
}

/* Random groups of so many points, or of one each; how many they are. */
static int64_t
make_groups(int64_t points, bool single, int64_t *ends)
{
	int64_t		groups = 0;

	for (int64_t i = 0; i < points; i++)
		if (single || i == points - 1 || random_bits() % 5 == 0)
			ends[groups++] = i + 1;
	return groups;
}

/* Bytes of rows of the caller, which an engine holds all at once. */
#define GIVEN_BYTES (4 << 20)

/* How far rows are from the points of their own group and of others. */
static void
compare_separation(Pair *pair, bool own_rows, bool single, bool others, bool cosine)
{
	const Data *data = pair->data;
	int64_t		first = own_rows ? 0 : (int64_t) (random_bits() % (uint64_t) data->n);
	int64_t		given = GIVEN_BYTES / (data->d * (int64_t) sizeof(float));
	int64_t		most = own_rows && given < data->n ? given : data->n - first;
	int64_t		count = 1 + (int64_t) (random_bits() % (uint64_t) most);
	int64_t    *ends = malloc(data->k * sizeof(int64_t));
	int64_t		groups = make_groups(data->k, single, ends);
	int32_t    *labels = malloc(count * sizeof(int32_t));

	for (int64_t i = 0; i < count; i++)
		labels[i] = (int32_t) (random_bits() % (uint64_t) groups);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_SEPARATION};

		c.separation.points = pair->centroids;
		c.separation.ends = ends;
		c.separation.groups = groups;
		c.separation.features = own_rows ? data->x : NULL;
		c.separation.first = first;
		c.separation.count = count;
		c.separation.labels = labels;
		c.separation.cosine = cosine;
		c.separation.own = room(pair, e, 0, count * sizeof(double));
		if (others)
			c.separation.other = room(pair, e, 1, count * sizeof(double));
		run(pair->engines[e], &c);
	}
	same_outputs(pair, others ? 2 : 1, "separation");
	free(labels);
	free(ends);
}

/*
 * The same of rows of the engine and of the caller, with groups of one point and of several, with
 * and without the distances to other groups.
 */
static void
compare_separations(Pair *pair)
{
	for (int i = 0; i < 8; i++)
		compare_separation(pair, i & 1, i & 2, i & 4, random_bits() % 2);
}

/* Which of some rows, as points of the caller, become one. */
static void
compare_merges(Pair *pair)
{
	const Data *data = pair->data;

	compare_unions(pair, data->x,
				   1 + (int64_t) (random_bits() % (uint64_t) data->n) % MOST_POINTS, false);
}

/* Both engines with the rows in them. */
static Pair
open_pair(Comparison *comparison, const Data *data, Feeding feeding)
{
	Pair		pair = {.comparison = comparison,.data = data};

	pair.engines[0] = feed(comparison->tested, data, feeding);
	pair.engines[1] = feed(comparison->oracle, data, feeding);
	pair.centroids = malloc(data->k * data->d * sizeof(double));
	memcpy(pair.centroids, data->centroids, data->k * data->d * sizeof(double));
	pair.exponents = malloc((data->d + 1) * sizeof(int));
	pair.origin = calloc(data->d, sizeof(double));
	return pair;
}

/* Closes both engines, and frees their outputs. */
static void
close_pair(Pair *pair)
{
	pair->engines[0]->class_of->usage(pair->engines[0], &pair->comparison->usage);
	for (int e = 0; e < 2; e++)
	{
		pair->engines[e]->class_of->close(pair->engines[e]);
		for (int i = 0; i < 8; i++)
			free(pair->out[e][i]);
	}
	free(pair->centroids);
	free(pair->exponents);
	free(pair->origin);
}

/* A whole fit of at most this many steps on both engines, twice from the same centroids. */
void
compare_fit(Comparison *comparison, const Data *data, Feeding feeding, int steps)
{
	double		tolerance = 0.0;
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	compare_range(&pair);
	compare_moments(&pair);
	if (data->spherical)
	{
		compare_transform(&pair, true);
		normalize_centroids(&pair);
	}
	set_grids(&pair);
	compare_seeding(&pair, data->k > 40 ? data->k / 3 : 1 + (int64_t) (random_bits() % 30));
	for (int start = 0; start < 2; start++)
	{
		for (int e = 0; e < 2; e++)
			set_centroids(pair.engines[e], pair.centroids, data->k, data->spherical);
		for (int step = 0; step < steps && start == 0 && !compare_step(&pair); step++)
			tolerance = random_bits() % 3 == 0 ? pair.shift2 : tolerance;
		if (start > 0)
			compare_steps(&pair, steps, tolerance);
		compare_statistics(&pair);
		if (start == 0)
		{
			compare_separations(&pair);
			compare_merges(&pair);
		}
		/* going on after the statistics is allowed, and after the squares */
		compare_step(&pair);
		compare_squares(&pair);
		compare_step(&pair);
		if (start == 0)
			continue;
		for (int e = 0; e < 2; e++)
			set_centroids(pair.engines[e], pair.centroids, data->k, data->spherical);
		compare_given(&pair, steps);
		compare_squares(&pair);
		/* and so is going on without the sums */
		compare_step(&pair);
	}
	if (!data->spherical)
		compare_transform(&pair, false);
	close_pair(&pair);
	set_context(NULL);
}

/* A short fit with so many centroids on engines that had others, or none. */
static void
compare_refit(Pair *pair, const Data *all, int64_t k)
{
	Data		data = *all;

	data.k = k < all->k ? k : all->k;
	data.wide = random_bits() % 2;
	pair->data = &data;
	for (int e = 0; e < 2; e++)
		set_grid(pair->engines[e], data.wide, data.exponents, data.center);
	if (random_bits() % 2)
		compare_seeding(pair, 1 + (int64_t) (random_bits() % (uint64_t) data.k));
	for (int e = 0; e < 2; e++)
		set_centroids(pair->engines[e], pair->centroids, data.k, data.spherical);
	for (int step = 0; step < 2 && !compare_step(pair); step++)
		;
	move_centroids(pair, pair->centroids);
	compare_step(pair);
	compare_statistics(pair);
	if (random_bits() % 2)
		compare_squares(pair);
	if (random_bits() % 2)
		compare_step(pair);
	pair->data = all;
}

/* Puts other rows into both engines. */
static void
replace_rows(Pair *pair, const Data *next, Feeding feeding)
{
	Rows		rows = {next->n, next->d, next->x, next->weighted ? next->w : NULL};

	for (int e = 0; e < 2; e++)
	{
		check_status(pair->engines[e]->class_of->clear(pair->engines[e]));
		append_rows(pair->engines[e], &rows, feeding.batch, feeding.slots);
	}
	free(pair->centroids);
	pair->centroids = malloc(next->k * next->d * sizeof(double));
	memcpy(pair->centroids, next->centroids, next->k * next->d * sizeof(double));
	free(pair->exponents);
	free(pair->origin);
	pair->exponents = malloc((next->d + 1) * sizeof(int));
	pair->origin = calloc(next->d, sizeof(double));
	pair->data = next;
}

/* Fits with k of each number in turn, on one data set and then on another one in its place. */
void
compare_refits(Comparison *comparison, const Data *data, const Data *next, Feeding feeding,
			   const int64_t *ks, int count)
{
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	for (int i = 0; i < count; i++)
		compare_refit(&pair, data, ks[i]);
	replace_rows(&pair, next, feeding);
	for (int i = 0; i < count; i++)
		compare_refit(&pair, next, ks[count - 1 - i]);
	close_pair(&pair);
	set_context(NULL);
}

/* Rows drawn by weight, and by distance to these; at first of an engine without labels. */
void
compare_rows_drawn(Comparison *comparison, const Data *data, Feeding feeding)
{
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	set_grids(&pair);
	for (int i = 0; i < 3; i++)
		compare_draws(&pair);
	close_pair(&pair);
	set_context(NULL);
}

/*
 * Candidates that come after others, many of which are as near as these, or nearly: the same again,
 * then some in the places of rows, the others a rounding away from where they were.
 */
void
compare_nearer(Comparison *comparison, const Data *data, Feeding feeding)
{
	int64_t		k = data->k;
	int			d = data->d;
	int64_t		few = 1 + (int64_t) (random_bits() % (uint64_t) k);
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	set_grids(&pair);
	(void) compare_more_candidates(&pair, pair.centroids, few, 0);
	(void) compare_more_candidates(&pair, pair.centroids, k, few);
	for (int64_t c = 0; c < k; c++)
	{
		const float *row = data->x + (int64_t) (random_bits() % (uint64_t) data->n) * d;
		double	   *at = pair.centroids + c * d;
		int			j = (int) (random_bits() % (uint64_t) d);

		if (c % 3 == 0)
			for (int i = 0; i < d; i++)
				at[i] = row[i];
		at[j] = c % 3 > 0 ? nextafter(at[j], c % 3 == 1 ? INFINITY : -INFINITY) : at[j];
	}
	(void) compare_more_candidates(&pair, pair.centroids, k, few + k);
	close_pair(&pair);
	set_context(NULL);
}

/* A first candidate, then the others. */
void
compare_first_and_others(Comparison *comparison, const Data *data, Feeding feeding)
{
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	set_grids(&pair);
	(void) compare_more_candidates(&pair, data->centroids, 1, 0);
	(void) compare_more_candidates(&pair, data->centroids + data->d, data->k - 1, 1);
	close_pair(&pair);
	set_context(NULL);
}

/* Compares labels and d² with the centroids by ASSIGN, or by DISTANCES, which may follow steps. */
static void
compare_labels_by(Pair *pair, GkOperation operation)
{
	if (operation == GK_ASSIGN)
	{
		compare_statistics(pair);
		return;
	}
	/* bounds of the first step are used by the second one */
	for (int i = 0; i < 2 && operation == GK_STEP; i++)
		(void) compare_step(pair);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_DISTANCES};

		run(pair->engines[e], &c);
	}
	compare_rows(pair, true, "d² to the centroids of labels");
}

/* Labels of centroids after those of more candidates, and candidates after labels of centroids. */
static void
compare_odd_order(Pair *pair, GkOperation operation, const double *more, int64_t count)
{
	int64_t		k = pair->data->k;

	for (int again = operation == GK_DISTANCES; again < 2; again++)
	{
		for (int e = 0; e < 2; e++)
			set_centroids(pair->engines[e], pair->data->centroids, k, false);
		(void) compare_more_candidates(pair, pair->centroids, k, 0);
		if (!again)
			(void) compare_more_candidates(pair, more, count, k);
		compare_labels_by(pair, operation);
	}
	(void) compare_more_candidates(pair, more, count, k);
}

/* How many of the last rows are candidates: so many are compared otherwise than one. */
#define MORE_ROWS 9

/* Candidates and centroids in orders that no fit has. */
void
compare_odd_orders(Comparison *comparison, const Data *data, Feeding feeding)
{
	static const GkOperation operations[] = {GK_ASSIGN, GK_STEP, GK_DISTANCES};
	int			d = data->d;
	double	   *more = malloc(MORE_ROWS * d * sizeof(double));
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	set_grids(&pair);
	/* the very last one first: what fills a block of rows up is like it */
	for (int64_t i = 0; i < MORE_ROWS * d; i++)
		more[i] = data->x[(data->n - 1 - i / d) * d + i % d];
	/* candidates of the labels of other centroids, and floats, as rows are */
	for (int64_t i = 0; i < data->k * d; i++)
		pair.centroids[i] = (float) data->centroids[(data->k - 1 - i / d) * d + i % d];
	for (int i = 0; i < 3; i++)
	{
		compare_odd_order(&pair, operations[i], more, 1);
		compare_odd_order(&pair, operations[i], more, MORE_ROWS);
	}
	close_pair(&pair);
	free(more);
	set_context(NULL);
}

/* Which of all rows, as points of the caller, become one. */
void
compare_points_merged(Comparison *comparison, const Data *data, Feeding feeding)
{
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	compare_unions(&pair, data->x, data->n, false);
	close_pair(&pair);
	set_context(NULL);
}

/* The most iterations before those that a tolerance ended, and after them. */
#define MOST_ITERATED 12
#define MOST_AFTER 4

/* One iteration at a time, on one engine, until no label changes or a cluster is empty. */
static int
iterate_alone(GkEngine *engine, int most, GkIterated *iterated)
{
	for (int i = 0; i < most; i++)
	{
		GkCommand	c = {.operation = GK_STEP};

		run(engine, &c);
		if (c.step.changed == 0 || c.step.empty > 0)
			return i;
		iterated[i] = (GkIterated) {c.step.changed, c.step.shift2, c.step.between};
	}
	return most;
}

/* So many iterations of the tested engine, which shifts within the tolerance end. */
static void
iterate_to_rest(Pair *pair, int count, double tolerance)
{
	GkIterated	iterated[MOST_ITERATED + MOST_AFTER];
	int			done = 0;

	while (done < count)
	{
		GkCommand	c = {.operation = GK_STEP};

		c.step.more = count - done - 1 + MOST_AFTER;
		c.step.tolerance = tolerance;
		c.step.iterated = iterated;
		run(pair->engines[0], &c);
		done += (int) c.step.earlier + 1;
	}
	*(int *) room(pair, 0, 0, sizeof(int)) = done;
	*(int *) room(pair, 1, 0, sizeof(int)) = count;
	same_output(pair, 0, "iterations until centroids rest");
}

/*
 * Iterations of the tested engine after its labels have become unknown, and as many of the oracle,
 * one at a time: centroids and shifts, for the number of labels that change is unknown as well.
 */
static void
compare_going_on(Pair *pair)
{
	GkIterated	iterated[MOST_AFTER];
	GkCommand	c = {.operation = GK_STEP};
	double	   *numbers = room(pair, 0, 1, (MOST_AFTER + 1) * sizeof(double));

	c.step.more = MOST_AFTER;
	c.step.iterated = iterated;
	run(pair->engines[0], &c);
	for (int64_t i = 0; i < c.step.earlier; i++)
		numbers[i] = iterated[i].shift2;
	numbers[c.step.earlier] = c.step.shift2;
	numbers = room(pair, 1, 1, (MOST_AFTER + 1) * sizeof(double));
	for (int64_t i = 0; i <= c.step.earlier; i++)
	{
		GkCommand	one = {.operation = GK_STEP};

		run(pair->engines[1], &one);
		numbers[i] = one.step.shift2;
	}
	same_output(pair, 1, "shifts after centroids have rested");
	compare_centroids(pair);
}

/* Iterations that a shift within a tolerance ends, and others after them. */
int
compare_resting(Comparison *comparison, const Data *data, Feeding feeding)
{
	GkIterated	iterated[MOST_ITERATED];
	double		least = INFINITY;
	int			rested = 0;
	int			count;
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	set_grids(&pair);
	set_centroids(pair.engines[1], pair.centroids, data->k, data->spherical);
	count = iterate_alone(pair.engines[1], MOST_ITERATED, iterated);
	for (int i = 0; i < count; i++)
	{
		if (iterated[i].shift2 >= least || iterated[i].shift2 == 0.0)
			continue;
		least = iterated[i].shift2;
		for (int e = 0; e < 2; e++)
			set_centroids(pair.engines[e], pair.centroids, data->k, data->spherical);
		iterate_to_rest(&pair, i + 1, least);
		(void) iterate_alone(pair.engines[1], i + 1, iterated);
		/* mostly, no other command comes between */
		if (rested++ % 4 == 3)
			compare_centroids(&pair);
		compare_going_on(&pair);
	}
	close_pair(&pair);
	set_context(NULL);
	return rested;
}

/* The farthest rows from one centroid, of which many are equally distant; various counts. */
void
compare_farthest(Comparison *comparison, const Data *data, Feeding feeding)
{
	const int64_t counts[] = {1, 7, 1000, data->n / 2, data->n};
	Pair		pair;

	set_context(comparison->where);
	pair = open_pair(comparison, data, feeding);
	set_grids(&pair);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_ASSIGN};

		set_centroids(pair.engines[e], pair.centroids, 1, false);
		run(pair.engines[e], &c);
	}
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
	{
		for (int e = 0; e < 2; e++)
		{
			GkCommand	c = {.operation = GK_FARTHEST};
			int64_t    *found = room(&pair, e, 1, sizeof(int64_t));

			c.farthest.count = counts[i];
			c.farthest.entries = room(&pair, e, 0, counts[i] * sizeof(GkEntry));
			run(pair.engines[e], &c);
			*found = c.farthest.found;
		}
		same_outputs(&pair, 2, "farthest rows");
	}
	close_pair(&pair);
	set_context(NULL);
}

/* A data set at the limits of the arithmetic, of a random shape, through one of the comparisons. */
void
compare_at_limits(Comparison *comparison, Feeding feeding)
{
	static void (*const others[]) (Comparison *, const Data *, Feeding) = {
		compare_nearer, compare_rows_drawn, compare_points_merged, compare_first_and_others
	};
	Shape		shape = random_shape();
	uint64_t	dice = random_bits();
	int			flags = (int) (dice >> 8 & 7);
	Data		data = make_data(LIMITS, shape.n, shape.d, shape.k, flags & 1, flags & 2,
								 flags == 4);

	feeding.batch = 1 + (int64_t) (random_bits() % (uint64_t) (2 * shape.n));
	feeding.slots = dice >> 12 & 1 ? 3 : 0;
	snprintf(comparison->where + strlen(comparison->where),
			 sizeof(comparison->where) - strlen(comparison->where),
			 " n %lld d %d k %lld flags %d batch %lld", (long long) shape.n, shape.d,
			 (long long) shape.k, flags, (long long) feeding.batch);
	if ((dice & 1) || shape.k < 2)
		compare_fit(comparison, &data, feeding, 1 + (int) (dice >> 4 & 3));
	else
		others[dice >> 1 & 3] (comparison, &data, feeding);
	free_data(&data);
}
