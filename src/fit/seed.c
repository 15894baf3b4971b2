/*
 * Seeding: the first centroids.
 *
 * k-means|| (Bahmani et al. 2012), greedy k-means++ (Arthur and Vassilvitskii
 * 2007) and random rows.  Each chooses rows as points; if two of the rows drawn have equal
 * features, or too few are found, more are drawn by distance.
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/hsearch.h"

#include "alloc.h"
#include "draw.h"
#include "exact.h"
#include "fixed_point.h"
#include "merge.h"
#include "seed.h"

/* The most numbers in the candidates of k-means||, which are merged on one thread. */
#define MERGE_LIMIT 6e6

/* If there would be more: rounds in which the centroids are drawn directly. */
#define PLAIN_ROUNDS 32

/* The least number of candidates in a round of k-means||. */
#define LEAST_WIDTH 8

/* Rounds of k-means|| by distance, and candidates over k, before it may end early … */
#define LEAST_ROUNDS 2
#define CANDIDATES_A_CENTROID 1.5

/* … because a round has left so much of the total of the distances. */
#define LITTLE_LEFT 0.6

/* From so many centroids on, the first two rounds by distance can be one. */
#define JOINED_ROUNDS_K 256

/* Attempts to draw distinct rows by weight, before drawing by distance. */
#define RANDOM_ATTEMPTS 10

/* The points chosen so far: the candidates of k-means||, else the centroids. */
typedef struct Seeder
{
	const GkSeedSpec *spec;
	GkDrawer	drawer;
	float	   *points;			/* capacity × dimension */
	int64		count;
	int64		capacity;
	double		greatest;		/* max of weight × d² to the nearest point */
	bool		asks_engine;	/* to draw points, as long as it does */
	GkLine	   *line;			/* of the points to be drawn next, or NULL */
	double	   *wide;			/* room for features in double */
	int64		wide_values;
} Seeder;

/* Makes room for more points. */
static void
reserve_points(Seeder *seeder, int64 more)
{
	Size		row = mul_size(seeder->spec->dimension, sizeof(float));

	if (seeder->points == NULL)
	{
		seeder->capacity = Max(more, seeder->spec->k);
		seeder->points = gk_allocate(seeder->capacity, row);
	}
	else if (seeder->count + more > seeder->capacity)
	{
		seeder->capacity = Max(seeder->count + more, 2 * seeder->capacity);
		seeder->points = repalloc_huge(seeder->points, mul_size(seeder->capacity, row));
	}
}

/* Writes the features of points as double. */
static void
widen(const Seeder *seeder, const float *features, int64 count, double *result)
{
	int			d = seeder->spec->dimension;

	for (int64 i = 0; i < count; i++, features += d, result += d)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			result[j] = features[j];
	}
}

/* Features in double, until the next call. */
static const double *
as_double(Seeder *seeder, const float *features, int64 count)
{
	int64		values = count * seeder->spec->dimension;

	if (seeder->wide_values < values)
	{
		if (seeder->wide != NULL)
			pfree(seeder->wide);
		seeder->wide = gk_allocate(values, sizeof(double));
		seeder->wide_values = values;
	}
	widen(seeder, features, count, seeder->wide);
	return seeder->wide;
}

/* Updates the distances of all rows with points first .. first + count - 1. */
static void
compare_points(Seeder *seeder, const double *points, int64 first, int64 count)
{
	GkCommand	command = {.operation = GK_CANDIDATES};

	command.candidates.candidates = points;
	command.candidates.count = count;
	command.candidates.first_label = first;
	gk_run(seeder->spec->job, &command);
	seeder->greatest = command.candidates.greatest;
}

/* The same for the points from `first` on. */
static void
compare_points_from(Seeder *seeder, int64 first)
{
	int64		count = seeder->count - first;

	compare_points(seeder, as_double(seeder, seeder->points + first * seeder->spec->dimension,
									 count), first, count);
}

/* Makes rows points; `rows` must not be on the stack. */
static void
add_points(Seeder *seeder, const int64 *rows, int64 count)
{
	int64		first = seeder->count;

	reserve_points(seeder, count);
	gk_fetch_rows(seeder->spec->job, rows, count,
				  seeder->points + first * seeder->spec->dimension);
	seeder->count += count;
	compare_points_from(seeder, first);
}

/* Rows are drawn by weight, and by weight × d² once there are points. */
static GkMass
mass_of(const Seeder *seeder)
{
	return seeder->count == 0 ? GK_MASS_WEIGHT : GK_MASS_DISTANCE;
}

/* The greatest mass of a row. */
static double
greatest_mass(const Seeder *seeder)
{
	return seeder->count == 0 ? seeder->spec->greatest_weight : seeder->greatest;
}

/* Begins to draw `count` rows. */
static GkLine *
begin_draw(Seeder *seeder, int64 count, double *total)
{
	return gk_begin_draw(&seeder->drawer, mass_of(seeder), greatest_mass(seeder), count, total);
}

/* Σ of the masses, by which about `count` points may be drawn next. */
static double
sum_masses(Seeder *seeder, int64 count)
{
	double		total;

	if (seeder->asks_engine)
		return gk_sum_masses(&seeder->drawer, mass_of(seeder), greatest_mass(seeder));
	seeder->line = begin_draw(seeder, count, &total);
	return total;
}

/* Has the engine draw points; -1 if it leaves that to the caller. */
static int64
draw_in_engine(Seeder *seeder, int64 count, double *total)
{
	int64		found;

	reserve_points(seeder, count);
	found = gk_draw_in_engine(&seeder->drawer, mass_of(seeder), greatest_mass(seeder), count,
							  seeder->count,
							  seeder->points + seeder->count * seeder->spec->dimension, total,
							  &seeder->greatest);
	seeder->asks_engine = found >= 0;
	seeder->count += Max(found, 0);
	return found;
}

/* Draws up to `count` rows, and makes them points; returns how many, and Σ of the masses before. */
static int64
draw_points(Seeder *seeder, int64 count, double *total)
{
	int64		found = seeder->asks_engine ? draw_in_engine(seeder, count, total) : -1;
	int64	   *rows;

	if (found >= 0)
		return found;
	rows = gk_allocate(count, sizeof(int64));
	if (seeder->line == NULL)
		seeder->line = begin_draw(seeder, count, total);
	found = gk_finish_draw(&seeder->drawer, seeder->line, count, rows, NULL);
	seeder->line = NULL;
	if (found > 0)
		add_points(seeder, rows, found);
	pfree(rows);
	return found;
}

/* Draws no points where Σ of the masses was asked for. */
static void
draw_no_points(Seeder *seeder)
{
	if (seeder->line != NULL)
		gk_free_line(seeder->line);
	seeder->line = NULL;
}

/* Draws up to `count` rows. */
static int64
draw(Seeder *seeder, int64 count, int64 *rows)
{
	double		total;

	if (seeder->count > 0 && !(seeder->greatest > 0.0))
		return 0;
	return gk_finish_draw(&seeder->drawer, begin_draw(seeder, count, &total), count, rows,
						  NULL);
}

/*
 * Draws rows by distance, at most `width` at a time, until there are k points or every row
 * coincides with one.
 */
static void
fill_by_distance(Seeder *seeder, int64 width)
{
	double		total;

	while (seeder->count < seeder->spec->k && seeder->greatest > 0.0)
		if (draw_points(seeder, Min(width, seeder->spec->k - seeder->count), &total) == 0)
			break;
}

/*
 * How many rounds the first one by distance stands for: two if the rows drawn by weight are farther
 * from the others than their mean is.  Then no candidate is near many rows, and a second round
 * would draw as the first one does.
 */
static int
joined_rounds(const GkSeedSpec *spec, double weight, double distances)
{
	return distances > weight * spec->variance ? LEAST_ROUNDS : 1;
}

/*
 * The rounds of k-means||: candidates drawn by weight, then by distance to those before, until
 * there are enough rounds or another one takes little off the total of the distances.
 */
static void
draw_candidates(Seeder *seeder)
{
	const GkSeedSpec *spec = seeder->spec;
	int64		width = (int64) Min(ceil(spec->oversampling * spec->k), (double) spec->rows);
	int			joined = 1;
	double		before = INFINITY;
	double		weight;
	int64		found;

	width = Min(Max(width, LEAST_WIDTH), spec->rows);
	reserve_points(seeder, (LEAST_ROUNDS + 1) * width);
	found = draw_points(seeder, width, &weight);
	for (int round = 0; found > 0; round += joined)
	{
		bool		may_end = round >= LEAST_ROUNDS &&
			seeder->count >= CANDIDATES_A_CENTROID * spec->k;
		bool		may_join = round == 0 && spec->k >= JOINED_ROUNDS_K &&
			spec->rounds >= LEAST_ROUNDS;
		double		total = 0.0;

		if (!(seeder->greatest > 0.0) || (round >= spec->rounds && seeder->count >= spec->k))
			break;
		if (may_end || may_join)
			total = sum_masses(seeder, width);
		if (may_end && total > before * pow(LITTLE_LEFT, joined))
		{
			draw_no_points(seeder);
			break;
		}
		joined = may_join ? joined_rounds(spec, weight, total) : 1;
		found = draw_points(seeder, joined * width, &total);
		before = total;
	}
}

/* Σ of the weights of the rows nearest to each candidate, in any unit. */
static double *
candidate_weights(Seeder *seeder)
{
	GkSum	   *sums = gk_allocate(seeder->count, sizeof(GkSum));
	double	   *weights = gk_allocate(seeder->count, sizeof(double));
	GkCommand	command = {.operation = GK_LABEL_WEIGHTS};

	command.label_weights.count = seeder->count;
	command.label_weights.weights = sums;
	gk_run(seeder->spec->job, &command);
	for (int64 i = 0; i < seeder->count; i++)
		weights[i] = gk_sum_value(sums[i].high, sums[i].low, seeder->spec->rest_bits);
	pfree(sums);
	return weights;
}

/*
 * Chooses centroids among the candidates, at most k, no two equal: the heaviest of each k clusters
 * that candidates merge into.  Their mean would be nearer to all rows than a row is where there
 * are many dimensions, and few such means would attract most of the rows.
 */
static int64
choose_among_candidates(Seeder *seeder, double *centroids)
{
	const GkSeedSpec *spec = seeder->spec;
	int			d = spec->dimension;
	double	   *weights = candidate_weights(seeder);
	int64	   *heaviest = gk_allocate(seeder->count, sizeof(int64));
	int64		chosen = gk_merge_candidates(spec->job, seeder->points, weights, seeder->count, d,
											 spec->k, spec->spherical, seeder->asks_engine,
											 heaviest);

	for (int64 i = 0; i < chosen; i++)
		widen(seeder, seeder->points + heaviest[i] * d, 1, centroids + i * d);
	pfree(heaviest);
	pfree(weights);
	return chosen;
}

/* k-means||: returns the number of centroids. */
static int64
seed_parallel(Seeder *seeder, double *centroids)
{
	const GkSeedSpec *spec = seeder->spec;
	int			d = spec->dimension;
	int64		chosen;

	draw_candidates(seeder);
	if (seeder->count == 0)
		return 0;
	chosen = seeder->count = choose_among_candidates(seeder, centroids);
	if (chosen < spec->k)
	{
		compare_points(seeder, centroids, 0, chosen);
		fill_by_distance(seeder, spec->k);
		widen(seeder, seeder->points + chosen * d, seeder->count - chosen, centroids + chosen * d);
	}
	return seeder->count;
}

/* The best of some rows drawn by distance: the one that leaves the least total distance. */
static int64
best_trial(Seeder *seeder, const int64 *rows, int64 count)
{
	int			d = seeder->spec->dimension;
	float	   *features = gk_allocate(count * d, sizeof(float));
	int64	   *potentials = gk_allocate(count, sizeof(int64));
	GkCommand	command = {.operation = GK_POTENTIALS};
	int64		best = 0;

	gk_fetch_rows(seeder->spec->job, rows, count, features);
	command.potentials.trials = as_double(seeder, features, count);
	command.potentials.count = (int) count;
	command.potentials.exponent = gk_grid_exponent(seeder->greatest,
													 gk_value_bits(seeder->spec->rows));
	command.potentials.potentials = potentials;
	gk_run(seeder->spec->job, &command);
	for (int64 i = 1; i < count; i++)
		if (potentials[i] < potentials[best])
			best = i;
	pfree(potentials);
	pfree(features);
	return rows[best];
}

/* True if k-means|| would draw too many candidates to merge in reasonable time. */
static bool
has_too_many_candidates(const GkSeedSpec *spec)
{
	double		candidates = Min(spec->oversampling * spec->k * (spec->rounds + 1),
								 (double) spec->rows);

	return candidates * spec->dimension > MERGE_LIMIT;
}

/* k-means++ with many draws from the same distances; the points become the centroids. */
static void
seed_in_rounds(Seeder *seeder)
{
	int64		width = seeder->spec->k / PLAIN_ROUNDS + 1;
	double		total;

	if (draw_points(seeder, width, &total) > 0)
		fill_by_distance(seeder, width);
}

/* How many trials greedy k-means++ makes for a centroid. */
static int
greedy_trials(int64 k)
{
	return 2 + (int) log((double) k);
}

/* Greedy k-means++; the points become the centroids. */
static void
seed_plusplus(Seeder *seeder)
{
	int			trials = greedy_trials(seeder->spec->k);
	int64	   *rows = gk_allocate(trials, sizeof(int64));
	int64		found = draw(seeder, 1, rows);

	while (found > 0)
	{
		rows[0] = found == 1 ? rows[0] : best_trial(seeder, rows, found);
		add_points(seeder, rows, 1);
		if (seeder->count == seeder->spec->k)
			break;
		found = draw(seeder, trials, rows);
	}
	pfree(rows);
}

/* The key of a hash table: the features of a point. */
typedef struct FeatureKey
{
	const float *features;
	Size		bytes;
} FeatureKey;

/* Of the hashes of features: nobody can choose rows whose hashes are equal, without knowing it. */
static uint64 feature_seed;

/* Hashes the features that a key points to. */
static uint32
hash_features(const void *key, Size unused)
{
	const FeatureKey *features = key;

	return (uint32) hash_bytes_extended((const unsigned char *) features->features,
										(int) features->bytes, feature_seed);
}

/* Returns 0 if the features are equal. */
static int
compare_features(const void *a, const void *b, Size unused)
{
	const FeatureKey *left = a;
	const FeatureKey *right = b;

	return memcmp(left->features, right->features, left->bytes);
}

/* A hash table of features; the points must not move. */
static HTAB *
make_feature_table(int64 count)
{
	HASHCTL		control = {.keysize = sizeof(FeatureKey),.entrysize = sizeof(FeatureKey),
		.hash = hash_features,.match = compare_features,.hcxt = CurrentMemoryContext};

	(void) pg_strong_random(&feature_seed, sizeof(feature_seed));
	return hash_create("gkmeans rows drawn", count, &control,
					   HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

/* Keeps those of the last `fresh` points whose features are new. */
static void
drop_duplicates(Seeder *seeder, HTAB *known, int64 fresh)
{
	int			d = seeder->spec->dimension;
	int64		first = seeder->count - fresh;

	for (int64 i = first, end = seeder->count; i < end; i++)
	{
		FeatureKey	key = {seeder->points + first * d, d * sizeof(float)};
		bool		seen;

		CHECK_FOR_INTERRUPTS();
		memmove(seeder->points + first * d, seeder->points + i * d, key.bytes);
		hash_search(known, &key, HASH_ENTER, &seen);
		first += !seen;
	}
	seeder->count = first;
}

/* Rows drawn by weight, no two with equal features; the points become the centroids. */
static void
seed_random(Seeder *seeder)
{
	const GkSeedSpec *spec = seeder->spec;
	int64	   *rows = gk_allocate(spec->k, sizeof(int64));
	HTAB	   *known = make_feature_table(spec->k);

	reserve_points(seeder, spec->k);
	for (int attempt = 0; attempt < RANDOM_ATTEMPTS && seeder->count < spec->k; attempt++)
	{
		int64		found = gk_draw_rows(&seeder->drawer, GK_MASS_WEIGHT, spec->greatest_weight,
										 spec->k - seeder->count, rows, NULL);

		if (found == 0)
			break;
		gk_fetch_rows(spec->job, rows, found, seeder->points + seeder->count * spec->dimension);
		seeder->count += found;
		drop_duplicates(seeder, known, found);
	}
	hash_destroy(known);
	pfree(rows);
	if (seeder->count > 0 && seeder->count < spec->k)
	{
		compare_points_from(seeder, 0);
		fill_by_distance(seeder, spec->k);
	}
}

/* Chooses k centroids, or fewer if fewer rows differ. */
int64
gk_seed(const GkSeedSpec *spec, double *centroids)
{
	Seeder		seeder = {.spec = spec};
	int64		count;

	seeder.drawer.job = spec->job;
	seeder.drawer.rows = spec->rows;
	seeder.drawer.seed = spec->seed;
	seeder.drawer.start = spec->start;
	seeder.drawer.keeps_line = true;
	seeder.asks_engine = spec->init == GK_INIT_PARALLEL;
	if (spec->init == GK_INIT_PARALLEL && !has_too_many_candidates(spec))
		count = seed_parallel(&seeder, centroids);
	else
	{
		if (spec->init == GK_INIT_PARALLEL)
			seed_in_rounds(&seeder);
		else if (spec->init == GK_INIT_PLUSPLUS)
			seed_plusplus(&seeder);
		else
			seed_random(&seeder);
		count = seeder.count;
		widen(&seeder, seeder.points, count, centroids);
	}
	gk_end_drawing(&seeder.drawer);
	if (seeder.wide != NULL)
		pfree(seeder.wide);
	if (seeder.points != NULL)
		pfree(seeder.points);
	return count;
}
