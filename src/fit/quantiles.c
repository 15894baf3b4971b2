/*
 * The quantiles of the anomaly scores of the rows of a fit.
 *
 * The bits of non-negative doubles have the order of their values: two passes over the
 * distances in the engine count them by their upper 16 and their next 16 bits.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "engine_error.h"
#include "quantiles.h"

#define WINDOW_ROWS 16384
#define BUCKETS 65536

/* The scores of a fit, a window at a time. */
typedef struct Scores
{
	GkEngine   *engine;
	GkMetric	metric;
	const GkFit *fit;
	int64		rows;
	int32	   *labels;
	double	   *distances2;
	double		least;
	double		greatest;
	int64		count;			/* rows with a score */
	int64	   *upper;			/* BUCKETS */
	int			wanted;			/* buckets that contain quantiles */
	int16	   *slots;			/* BUCKETS: position of a bucket among the wanted, -1 = none */
	int64	   *lower;			/* wanted × BUCKETS */
} Scores;

/* The upper 32 bits of a score. */
static uint32
key_of(double score)
{
	uint64		bits;

	memcpy(&bits, &score, sizeof(bits));
	return (uint32) (bits >> 32);
}

/* The least score with these upper bits. */
static double
score_of_key(uint32 key)
{
	uint64		bits = (uint64) key << 32;
	double		score;

	memcpy(&score, &bits, sizeof(score));
	return score;
}

/* Counts a score: in the first pass by its upper bits, in the second by the next. */
static void
count_score(Scores *scores, double score, bool second)
{
	uint32		key = key_of(score);

	if (second)
	{
		int			slot = scores->slots[key >> 16];

		if (slot >= 0)
			scores->lower[(int64) slot * BUCKETS + (key & 0xffff)]++;
		return;
	}
	scores->upper[key >> 16]++;
	scores->count++;
	scores->least = Min(scores->least, score);
	scores->greatest = Max(scores->greatest, score);
}

/* One pass over all scores. */
static void
pass(Scores *scores, bool second)
{
	const GkFit *fit = scores->fit;

	for (int64 from = 0; from < scores->rows; from += WINDOW_ROWS)
	{
		int64		count = Min(WINDOW_ROWS, scores->rows - from);

		CHECK_FOR_INTERRUPTS();
		gk_check(scores->engine->class_of->fetch(scores->engine, from, count, scores->labels,
												 scores->distances2));
		for (int64 i = 0; i < count; i++)
		{
			int			cluster = gk_place_of_label(fit->model.place_of_label,
														scores->labels[i]);
			double		score = gk_anomaly_score(gk_distance(scores->metric,
															 scores->distances2[i]),
												 fit->clusters[cluster].avg_distance);

			if (!isnan(score))
				count_score(scores, score, second);
		}
	}
}

/* The bucket that holds the score of a rank, and its rank in the bucket. */
static uint32
find_bucket(const Scores *scores, const int64 *buckets, int64 *rank)
{
	uint32		bucket = 0;

	while (*rank >= buckets[bucket])
	{
		*rank -= buckets[bucket++];
		/* a node may lie the second time */
		if (bucket == BUCKETS)
			gk_contradict(scores->engine, "distances are not those of before");
	}
	return bucket;
}

/* Ranks and upper bits of all quantiles; makes room for the second pass. */
static void
find_upper(Scores *scores, int64 *ranks, uint32 *uppers)
{
	memset(scores->slots, -1, BUCKETS * sizeof(int16));
	for (int i = 0; i < GK_QUANTILES; i++)
	{
		ranks[i] = (int64) rint(gk_quantile_level(i) * (scores->count - 1));
		uppers[i] = find_bucket(scores, scores->upper, &ranks[i]);
		if (scores->slots[uppers[i]] < 0)
			scores->slots[uppers[i]] = scores->wanted++;
	}
	scores->lower = gk_allocate_zero((int64) scores->wanted * BUCKETS, sizeof(int64));
}

/* Room for the first pass. */
static void
begin_scores(Scores *scores)
{
	scores->labels = gk_allocate(WINDOW_ROWS, sizeof(int32));
	scores->distances2 = gk_allocate(WINDOW_ROWS, sizeof(double));
	scores->upper = gk_allocate_zero(BUCKETS, sizeof(int64));
	scores->slots = gk_allocate(BUCKETS, sizeof(int16));
	scores->least = HUGE_VAL;
	scores->greatest = 0.0;
}

/* Finds the quantiles. */
bool
gk_find_quantiles(GkEngine *engine, GkMetric metric, const GkFit *fit, int64 rows,
				  double *quantiles)
{
	Scores		scores = {.engine = engine,.metric = metric,.fit = fit,.rows = rows};
	int64		ranks[GK_QUANTILES];
	uint32		uppers[GK_QUANTILES];

	begin_scores(&scores);
	pass(&scores, false);
	if (scores.count == 0)
		return false;
	find_upper(&scores, ranks, uppers);
	pass(&scores, true);
	for (int i = 0; i < GK_QUANTILES; i++)
	{
		const int64 *lower = scores.lower + (int64) scores.slots[uppers[i]] * BUCKETS;
		uint32		key = uppers[i] << 16 | find_bucket(&scores, lower, &ranks[i]);

		quantiles[i] = Max(score_of_key(key), scores.least);
	}
	quantiles[0] = scores.least;
	quantiles[GK_QUANTILES - 1] = scores.greatest;
	return true;
}
