/*
 * Two clusterings of the same rows: how much they agree.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "contingency.h"
#include "matching.h"
#include "sum.h"

/* A count of pairs of rows. */
typedef __int128 Pairs;

/* The clusters of one side, their labels replaced by numbers from 0. */
typedef struct Side
{
	int			count;
	int32	   *labels;			/* count: ascending */
	int64	   *rows;			/* count */
	int32	   *numbers;		/* of each entry of the contingency */
} Side;

/* The order of labels. */
static int
compare_labels(const void *a, const void *b, void *argument)
{
	int32		left = *(const int32 *) a;
	int32		right = *(const int32 *) b;

	return (left > right) - (left < right);
}

/* The number of a label. */
static int
number_of(const Side *side, int32 label)
{
	int			low = 0;
	int			high = side->count - 1;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (side->labels[middle] < label)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The label of an entry on one side. */
static int32
label_of(const GkShared *shared, bool is_to)
{
	return is_to ? shared->to : shared->from;
}

/* Numbers the clusters of one side, and counts their rows. */
static void
find_side(const GkContingency *contingency, bool is_to, Side *side)
{
	int64		count = contingency->count;

	side->labels = gk_allocate(count, sizeof(int32));
	side->numbers = gk_allocate(count, sizeof(int32));
	side->count = 0;
	for (int64 i = 0; i < count; i++)
		side->labels[i] = label_of(&contingency->shared[i], is_to);
	qsort_interruptible(side->labels, count, sizeof(int32), compare_labels, NULL);
	for (int64 i = 0; i < count; i++)
		if (i == 0 || side->labels[i] != side->labels[i - 1])
			side->labels[side->count++] = side->labels[i];
	side->rows = gk_allocate_zero(side->count, sizeof(int64));
	for (int64 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		side->numbers[i] = number_of(side, label_of(&contingency->shared[i], is_to));
		side->rows[side->numbers[i]] += contingency->shared[i].rows;
	}
}

/* Pairs of rows, ordered and each row with itself too, that share a cluster of a side. */
static Pairs
pairs_of(const Side *side)
{
	Pairs		pairs = 0;

	for (int c = 0; c < side->count; c++)
		pairs += (Pairs) side->rows[c] * side->rows[c];
	return pairs;
}

/* The adjusted Rand index (Hubert and Arabie 1985). */
static double
adjusted_rand(const GkContingency *contingency, const Side *from, const Side *to, int64 rows)
{
	Pairs		both = 0;
	Pairs		only_from;
	Pairs		only_to;
	double		together;
	double		apart;
	double		lost;
	double		gained;

	for (int64 i = 0; i < contingency->count; i++)
		both += (Pairs) contingency->shared[i].rows * contingency->shared[i].rows;
	only_from = pairs_of(from) - both;
	only_to = pairs_of(to) - both;
	if (only_from == 0 && only_to == 0)
		return 1.0;
	together = (double) (both - rows);
	lost = (double) only_from;
	gained = (double) only_to;
	apart = (double) ((Pairs) rows * rows - only_from - only_to - both);
	return 2 * (together * apart - lost * gained) /
		((together + lost) * (lost + apart) + (together + gained) * (gained + apart));
}

/* The entropy of the clusters of a side. */
static double
entropy(const Side *side, int64 rows)
{
	double	   *terms = gk_allocate(side->count, sizeof(double));
	double		sum;

	for (int c = 0; c < side->count; c++)
		terms[c] = -(double) side->rows[c] / rows * log((double) side->rows[c] / rows);
	sum = gk_sum(terms, side->count);
	pfree(terms);
	return sum;
}

/* The mutual information of the clusters of both sides. */
static double
mutual_information(const GkContingency *contingency, const Side *from, const Side *to, int64 rows)
{
	double	   *terms = gk_allocate(contingency->count, sizeof(double));
	double		sum;

	for (int64 i = 0; i < contingency->count; i++)
	{
		double		share = (double) contingency->shared[i].rows / rows;
		double		expected = (double) from->rows[from->numbers[i]] / rows *
			((double) to->rows[to->numbers[i]] / rows);

		CHECK_FOR_INTERRUPTS();
		terms[i] = share * log(share / expected);
	}
	sum = gk_sum(terms, contingency->count);
	pfree(terms);
	return sum;
}

/* The mutual information over the mean of the entropies. */
static double
normalized_mutual_info(const GkContingency *contingency, const Side *from, const Side *to,
					   int64 rows)
{
	double		information;

	if (contingency->count == from->count && contingency->count == to->count)
		return 1.0;
	information = mutual_information(contingency, from, to, rows);
	if (information <= DBL_EPSILON)
		return 0.0;
	return Min(information / ((entropy(from, rows) + entropy(to, rows)) / 2), 1.0);
}

/* The matching that keeps most rows: exactly. */
static void
match_exactly(const GkContingency *contingency, const Side *from, const Side *to, int32 *match)
{
	double	   *costs = gk_allocate_zero((int64) from->count * to->count, sizeof(double));

	for (int64 i = 0; i < contingency->count; i++)
		costs[(int64) from->numbers[i] * to->count + to->numbers[i]] =
			-(double) contingency->shared[i].rows;
	gk_match_exactly(costs, from->count, to->count, match);
	pfree(costs);
}

/* The same where there are too many clusters: the pairs with most rows first. */
static void
match_greedily(const GkContingency *contingency, const Side *from, const Side *to, int32 *match)
{
	GkMatchPair *pairs = gk_allocate(contingency->count, sizeof(GkMatchPair));

	for (int64 i = 0; i < contingency->count; i++)
		pairs[i] = (GkMatchPair) {-(double) contingency->shared[i].rows, from->numbers[i],
		to->numbers[i]};
	gk_match_greedily(pairs, contingency->count, from->count, to->count, match);
	pfree(pairs);
}

/* Rows outside the pairs of the best matching. */
static int64
count_moved(const GkContingency *contingency, const Side *from, const Side *to, int64 rows)
{
	int32	   *match = gk_allocate(from->count, sizeof(int32));
	int64		moved = rows;

	if (Max(from->count, to->count) <= GK_EXACT_MATCHING)
		match_exactly(contingency, from, to, match);
	else
		match_greedily(contingency, from, to, match);
	for (int64 i = 0; i < contingency->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (match[from->numbers[i]] == to->numbers[i])
			moved -= contingency->shared[i].rows;
	}
	pfree(match);
	return moved;
}

/* Measures how much two clusterings agree. */
void
gk_measure_agreement(const GkContingency *contingency, GkAgreement *agreement)
{
	Side		from;
	Side		to;

	find_side(contingency, false, &from);
	find_side(contingency, true, &to);
	agreement->rows = 0;
	for (int64 i = 0; i < contingency->count; i++)
		agreement->rows += contingency->shared[i].rows;
	agreement->adjusted_rand = adjusted_rand(contingency, &from, &to, agreement->rows);
	agreement->normalized_mutual_info = normalized_mutual_info(contingency, &from, &to,
															   agreement->rows);
	agreement->moved = count_moved(contingency, &from, &to, agreement->rows);
}
