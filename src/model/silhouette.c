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
#include "sum.h"

/* Numbers of a sample at most: a quarter of a gigabyte, and twice that as doubles. */
#define MAX_SAMPLE_NUMBERS (INT64CONST(1) << 26)

/* Rows of a sample by default, and at most the differences of features and the numbers in it. */
#define DEFAULT_SAMPLE 10000
#define DEFAULT_DIFFERENCES 0x1p32
#define DEFAULT_NUMBERS (INT64CONST(1) << 22)

/* The start number of these draws; no fit has that many starts. */
#define SAMPLE_START (PG_UINT32_MAX - 1)

/* A row of the sample. */
typedef struct Drawn
{
	int32		label;
	int64		place;			/* in the order of drawing, which is not that of the rows */
	int64		row;
} Drawn;

struct GkSample
{
	const GkClustering *clustering;
	GkDrawer	drawer;
	int64		most;
	GkLine	   *line;			/* NULL: the engine draws */
	int			count;
	Drawn	   *drawn;			/* a row that was drawn several times stands there as often */
};

/* The most rows to compare with one another. */
static int64
most_rows(const GkClustering *clustering)
{
	int			d = clustering->dimension;
	double		most = clustering->sample;

	if (clustering->sample == 0)
	{
		most = Min(DEFAULT_SAMPLE, floor(sqrt(DEFAULT_DIFFERENCES / d)));
		most = Min(most, DEFAULT_NUMBERS / d);
	}
	else if (Min(most, clustering->rows) * d > MAX_SAMPLE_NUMBERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("sample is too large"),
				 errhint("At most %lld rows of %d features can be compared with one another.",
						 (long long) (MAX_SAMPLE_NUMBERS / d), d)));
	return Min((int64) most, clustering->rows);
}

/* An empty sample. */
GkSample *
gk_begin_sample(const GkClustering *clustering, bool by_engine)
{
	GkSample   *sample = palloc0(sizeof(GkSample));

	sample->clustering = clustering;
	sample->most = most_rows(clustering);
	sample->drawer.job = clustering->job;
	sample->drawer.rows = clustering->rows;
	sample->drawer.seed = (uint64) clustering->seed;
	sample->drawer.start = SAMPLE_START;
	if (!by_engine)
		sample->line = gk_begin_line(clustering->rows, sample->most);
	return sample;
}

/*
 * The hash of a row's features, as an engine without weights has it; of its label as well where
 * that does not follow from the features.
 */
static uint64
hash_of(const GkSample *sample, int32 label, const float *features)
{
	const GkClustering *clustering = sample->clustering;
	uint64		terms = 0;
	uint64		hash;

	for (int j = 0; j < clustering->dimension; j += 2)
	{
		uint32		pair[2] = {0, 0};

		memcpy(pair, features + j, Min(2, clustering->dimension - j) * sizeof(float));
		terms += gk_hash_term(pair[0], pair[1], j / 2);
	}
	hash = gk_hash_finish(terms, 0);
	if (clustering->labels == NULL)
		return hash;
	return gk_mix(hash + (label + UINT64CONST(1)) * GK_HASH_KEY);
}

/* Counts a row. */
void
gk_count_row(GkSample *sample, int32 label, const float *features)
{
	gk_count_on_line(sample->line, hash_of(sample, label, features));
}

/* Chooses what is drawn, once all rows are counted. */
void
gk_choose_rows(GkSample *sample)
{
	gk_choose_on_line(sample->line, &sample->drawer, sample->most);
}

/* Takes a row into the sample if it is drawn. */
void
gk_offer_row(GkSample *sample, int64 number, int32 label, const float *features)
{
	gk_offer_to_line(sample->line, &sample->drawer, hash_of(sample, label, features), number);
}

/* The label of a row. */
static int32
label_of(const GkClustering *clustering, int64 row)
{
	int32		label;

	gk_read_labels(clustering, row, 1, &label);
	return label;
}

/* The order of the sample: by label. */
static int
compare_drawn(const void *a, const void *b, void *argument)
{
	const Drawn *left = a;
	const Drawn *right = b;

	if (left->label != right->label)
		return left->label < right->label ? -1 : 1;
	return (left->place > right->place) - (left->place < right->place);
}

/* Lists what was drawn. */
static void
list_drawn(GkSample *sample)
{
	int64	   *rows = gk_allocate(sample->most, sizeof(int64));
	int64	   *times = gk_allocate(sample->most, sizeof(int64));
	int64		found = sample->line == NULL
		? gk_draw_evenly(&sample->drawer, sample->most, rows, times)
		: gk_drawn_from_line(sample->line, &sample->drawer, rows, times);

	sample->drawn = gk_allocate(sample->most, sizeof(Drawn));
	for (int64 i = 0; i < found; i++)
	{
		Drawn		drawn = {.label = label_of(sample->clustering, rows[i]),.row = rows[i]};

		for (drawn.place = sample->count; times[i] > 0; times[i]--)
			sample->drawn[sample->count++] = drawn;
	}
	qsort_interruptible(sample->drawn, sample->count, sizeof(Drawn), compare_drawn, NULL);
	pfree(times);
	pfree(rows);
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

/* The order of rows by their features. */
static int
compare_features(const void *a, const void *b, void *dimension)
{
	return memcmp(*(const float *const *) a, *(const float *const *) b,
				  *(const int *) dimension * sizeof(float));
}

/* The rows of the sample, those of a label in an order that does not depend on its number. */
static const float **
order_rows(const GkSample *sample, const Compared *compared, const float *fetched)
{
	int			d = sample->clustering->dimension;
	const float **rows = gk_allocate(sample->count, sizeof(float *));

	for (int64 i = 0; i < sample->count; i++)
		rows[i] = fetched + i * d;
	for (int group = 0; group < compared->groups; group++)
	{
		int64		begin = group == 0 ? 0 : compared->ends[group - 1];

		qsort_interruptible(rows + begin, compared->ends[group] - begin, sizeof(float *),
							compare_features, &d);
	}
	return rows;
}

/* Fetches the rows of the sample. */
static void
fetch_sample(const GkSample *sample, Compared *compared)
{
	int			d = sample->clustering->dimension;
	int64	   *numbers = gk_allocate(sample->count, sizeof(int64));
	float	   *fetched = gk_allocate((int64) sample->count * d, sizeof(float));
	const float **rows;

	for (int i = 0; i < sample->count; i++)
		numbers[i] = sample->drawn[i].row;
	gk_fetch_rows(sample->clustering->job, numbers, sample->count, fetched);
	pfree(numbers);
	rows = order_rows(sample, compared, fetched);
	compared->features = gk_allocate((int64) sample->count * d, sizeof(float));
	compared->points = gk_allocate((int64) sample->count * d, sizeof(double));
	for (int64 i = 0; i < sample->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			compared->points[i * d + j] = compared->features[i * d + j] = rows[i][j];
	}
	pfree(rows);
	pfree(fetched);
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

/* The mean silhouettes of the rows of each label; returns that of all. */
static double
derive_silhouettes(const GkSample *sample, const Compared *compared, double *by_label)
{
	double	   *sums = gk_allocate_zero(compared->groups, sizeof(double));
	double		total;

	for (int group = 0; group < compared->groups; group++)
	{
		int			begin = group == 0 ? 0 : (int) compared->ends[group - 1];
		int			end = (int) compared->ends[group];

		for (int i = begin; i < end && end - begin > 1; i++)
			sums[group] += gk_silhouette(compared->own[i] / (end - begin - 1), compared->other[i]);
		by_label[sample->drawn[begin].label] = sums[group] / (end - begin);
	}
	total = gk_sum(sums, compared->groups);
	pfree(sums);
	return total / sample->count;
}

/* Measures the silhouettes of what was drawn. */
int64
gk_measure_sample(GkSample *sample, double *mean, double *by_label)
{
	Compared	compared = {0};

	list_drawn(sample);
	find_groups(sample, &compared);
	if (compared.groups < 2 || compared.groups >= sample->count)
		return sample->count;
	compare_sample(sample, &compared);
	*mean = derive_silhouettes(sample, &compared, by_label);
	return sample->count;
}
