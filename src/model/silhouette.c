/*
 * The silhouette: rows drawn without regard to their order, and each compared with all others.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "draw.h"
#include "exact.h"
#include "silhouette.h"

/* Numbers of a sample at most: a quarter of a gigabyte, and twice that as doubles. */
#define MAX_SAMPLE_NUMBERS (INT64CONST(1) << 26)

/* A row of the sample; the least keys are drawn. */
typedef struct Drawn
{
	uint64		key;			/* of the row's bits and the seed */
	int32		label;
	int64		row;
} Drawn;

struct GkSample
{
	const GkClustering *clustering;
	int			count;
	Drawn	   *drawn;			/* a heap, the greatest first */
};

/* An empty sample. */
GkSample *
gk_begin_sample(const GkClustering *clustering)
{
	int64		most = Min(clustering->sample, clustering->rows);
	int			d = clustering->dimension;
	GkSample   *sample = palloc0(sizeof(GkSample));

	if (most * d > MAX_SAMPLE_NUMBERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("sample is too large"),
				 errhint("At most %lld rows of %d features can be compared with one another.",
						 (long long) (MAX_SAMPLE_NUMBERS / d), d)));
	sample->clustering = clustering;
	sample->drawn = gk_allocate(most, sizeof(Drawn));
	return sample;
}

/* Whether one row comes after another in the sample's order. */
static bool
comes_after(const Drawn *left, const Drawn *right)
{
	return left->key != right->key ? left->key > right->key : left->label > right->label;
}

/* Puts the first of the heap where it belongs. */
static void
sift_down(Drawn *heap, int count)
{
	int			at = 0;

	for (;;)
	{
		int			child = 2 * at + 1;
		Drawn		swapped = heap[at];

		if (child >= count)
			return;
		if (child + 1 < count && comes_after(&heap[child + 1], &heap[child]))
			child++;
		if (!comes_after(&heap[child], &heap[at]))
			return;
		heap[at] = heap[child];
		heap[child] = swapped;
		at = child;
	}
}

/* Puts the last of the heap where it belongs. */
static void
sift_up(Drawn *heap, int at)
{
	while (at > 0 && comes_after(&heap[at], &heap[(at - 1) / 2]))
	{
		Drawn		swapped = heap[at];

		heap[at] = heap[(at - 1) / 2];
		heap[(at - 1) / 2] = swapped;
		at = (at - 1) / 2;
	}
}

/* The key of a row: of its bits and the seed, not of its place. */
static uint64
key_of(const float *features, int dimension, int64 seed)
{
	uint64		key = gk_mix((uint64) seed + UINT64CONST(0x9e3779b97f4a7c15));

	for (int j = 0; j < dimension; j++)
	{
		uint32		bits;

		memcpy(&bits, &features[j], sizeof(bits));
		key = gk_mix(key ^ bits) + UINT64CONST(0x9e3779b97f4a7c15);
	}
	return gk_mix(key);
}

/* Takes a row into the sample if its key is among the least. */
void
gk_offer_row(GkSample *sample, int64 number, int32 label, const float *features)
{
	const GkClustering *clustering = sample->clustering;
	Drawn		row = {key_of(features, clustering->dimension, clustering->seed), label, number};

	if (sample->count < Min(clustering->sample, clustering->rows))
	{
		sample->drawn[sample->count] = row;
		sift_up(sample->drawn, sample->count++);
	}
	else if (comes_after(&sample->drawn[0], &row))
	{
		sample->drawn[0] = row;
		sift_down(sample->drawn, sample->count);
	}
}

/* The order of the sample: by label, and in a way that does not depend on the order of the rows. */
static int
compare_drawn(const void *a, const void *b, void *argument)
{
	const Drawn *left = a;
	const Drawn *right = b;

	if (left->label != right->label)
		return left->label < right->label ? -1 : 1;
	return (left->key > right->key) - (left->key < right->key);
}

/* The sample as the command wants it: rows, and the same as points in groups, one a label. */
typedef struct Compared
{
	int			groups;
	int64	   *ends;			/* count at most */
	int32	   *group_of;		/* count */
	float	   *features;
	double	   *points;
	double	   *own;
	double	   *other;
} Compared;

/* Fetches the rows of the sample. */
static void
fetch_sample(const GkSample *sample, Compared *compared)
{
	int			d = sample->clustering->dimension;
	int64	   *numbers = gk_allocate(sample->count, sizeof(int64));

	for (int i = 0; i < sample->count; i++)
		numbers[i] = sample->drawn[i].row;
	compared->features = gk_allocate((int64) sample->count * d, sizeof(float));
	gk_fetch_rows(sample->clustering->job, numbers, sample->count, compared->features);
	pfree(numbers);
	compared->points = gk_allocate((int64) sample->count * d, sizeof(double));
	for (int64 i = 0; i < (int64) sample->count * d; i++)
		compared->points[i] = compared->features[i];
}

/* Finds the groups of the sample, which is in order. */
static void
find_groups(const GkSample *sample, Compared *compared)
{
	int			count = sample->count;

	compared->ends = gk_allocate(count, sizeof(int64));
	compared->group_of = gk_allocate(count, sizeof(int32));
	for (int i = 0; i < count; i++)
	{
		compared->group_of[i] = compared->groups;
		if (i == count - 1 || sample->drawn[i + 1].label != sample->drawn[i].label)
			compared->ends[compared->groups++] = i + 1;
	}
}

/* The distances of each row of the sample to the others, on the engine. */
static void
compare_sample(const GkSample *sample, Compared *compared)
{
	GkCommand	command = {.operation = GK_SEPARATION};

	fetch_sample(sample, compared);
	compared->own = gk_allocate(sample->count, sizeof(double));
	compared->other = gk_allocate(sample->count, sizeof(double));
	command.separation.points = compared->points;
	command.separation.ends = compared->ends;
	command.separation.groups = compared->groups;
	command.separation.features = compared->features;
	command.separation.count = sample->count;
	command.separation.labels = compared->group_of;
	command.separation.cosine = sample->clustering->metric == GK_COSINE;
	command.separation.own = compared->own;
	command.separation.other = compared->other;
	gk_run(sample->clustering->job, &command);
	pfree(compared->points);
	pfree(compared->features);
}

/* The silhouettes of the rows: their mean for each label, and that of all. */
static void
derive_silhouettes(const GkSample *sample, const Compared *compared, GkQuality *quality)
{
	double		total = 0.0;

	for (int group = 0; group < compared->groups; group++)
	{
		int			begin = group == 0 ? 0 : (int) compared->ends[group - 1];
		int			end = (int) compared->ends[group];
		double		sum = 0.0;

		for (int i = begin; i < end && end - begin > 1; i++)
			sum += gk_silhouette(compared->own[i] / (end - begin - 1), compared->other[i]);
		quality->silhouettes[sample->drawn[begin].label] = sum / (end - begin);
		total += sum;
	}
	quality->silhouette = total / sample->count;
}

/* Measures the silhouettes of what was drawn. */
void
gk_measure_sample(GkSample *sample, GkQuality *quality)
{
	Compared	compared = {0};

	quality->silhouette_rows = sample->count;
	qsort_interruptible(sample->drawn, sample->count, sizeof(Drawn), compare_drawn, NULL);
	find_groups(sample, &compared);
	if (compared.groups < 2 || compared.groups >= sample->count)
		return;
	compare_sample(sample, &compared);
	derive_silhouettes(sample, &compared, quality);
}
