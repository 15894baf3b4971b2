/*
 * The rows of a labels table, from the labels in the engine.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/builtins.h"

#include "alloc.h"
#include "anomaly.h"
#include "draw.h"
#include "engine_error.h"
#include "label_rows.h"
#include "nearest.h"
#include "sql_values.h"

/* Labels fetched from the engine at once, and the most numbers of their rows. */
#define WINDOW_ROWS 16384
#define WINDOW_NUMBERS (INT64CONST(1) << 24)

/* Numbers of centroids that are compared with rows between checks for interrupts. */
#define NUMBERS_AT_ONCE (INT64CONST(1) << 22)

/* True if a column is wanted. */
#define IS_WANTED(rows, column) (((rows)->columns & GK_LABEL_SET(column)) != 0)

/* A window on the engine's labels. */
typedef struct Window
{
	const GkLabelRows *rows;
	int64		size;
	int64		from;
	int64		count;
	int32	   *labels;			/* size */
	double	   *distance2;
	bool		has_features;	/* all below is needed for the second nearest cluster alone */
	int64	   *numbers;		/* size */
	float	   *features;		/* size × dimension */
	double	   *row;			/* dimension */
	double	   *distances2;		/* all d², in whole groups */
	Datum	   *names;			/* k, of the clusters; NULL = not wanted */
} Window;

/* The id of the cluster at a position. */
static int
id_at(const GkLabelling *labelling, int place)
{
	return labelling->ids != NULL ? labelling->ids[place] : place;
}

/* The names of the clusters as texts. */
static Datum *
make_names(const GkLabelling *labelling)
{
	Datum	   *names = gk_allocate(labelling->k, sizeof(Datum));

	for (int place = 0; place < labelling->k; place++)
	{
		const char *name = labelling->names != NULL ? labelling->names[place] : NULL;

		names[place] = name != NULL ? CStringGetTextDatum(name)
			: CStringGetTextDatum(psprintf("cluster %d", id_at(labelling, place)));
	}
	return names;
}

/* Allocates a window. */
static void
begin_window(Window *window, const GkLabelRows *rows)
{
	int			d = rows->spec->dimension;

	memset(window, 0, sizeof(*window));
	window->rows = rows;
	window->has_features = IS_WANTED(rows, GK_LABEL_SECOND_CLUSTER) ||
		IS_WANTED(rows, GK_LABEL_SECOND_DISTANCE);
	window->size = window->has_features ? Max(Min(WINDOW_ROWS, WINDOW_NUMBERS / Max(d, 1)), 1)
		: WINDOW_ROWS;
	window->labels = gk_allocate(window->size, sizeof(int32));
	window->distance2 = gk_allocate(window->size, sizeof(double));
	if (IS_WANTED(rows, GK_LABEL_NAME))
		window->names = make_names(rows->labelling);
	if (!window->has_features)
		return;
	window->numbers = gk_allocate(window->size, sizeof(int64));
	window->features = gk_allocate(window->size * d, sizeof(float));
	window->row = gk_allocate(d, sizeof(double));
	window->distances2 = gk_allocate(GK_GROUPS((int64) rows->labelling->k) * GK_GROUP,
									 sizeof(double));
}

/* Moves the window to a row. */
static void
move_window(Window *window, int64 row)
{
	const GkLabelRows *rows = window->rows;

	if (row >= window->from && row < window->from + window->count)
		return;
	window->from = row - row % window->size;
	window->count = Min(rows->spec->rows - window->from, window->size);
	gk_check(rows->engine->class_of->fetch(rows->engine, window->from, window->count,
										   window->labels, window->distance2));
	if (!window->has_features)
		return;
	for (int64 i = 0; i < window->count; i++)
		window->numbers[i] = window->from + i;
	gk_fetch_rows(rows->job, window->numbers, window->count, window->features);
}

/* d² of a row of the window to all centroids. */
static void
find_distances2(Window *window, int64 at)
{
	const GkLabelling *labelling = window->rows->labelling;
	int			d = window->rows->spec->dimension;
	int64		step = Max(NUMBERS_AT_ONCE / d / GK_GROUP, 1) * GK_GROUP;

	for (int j = 0; j < d; j++)
		window->row[j] = window->features[at * d + j];
	for (int64 from = 0; from < labelling->k; from += step)
	{
		CHECK_FOR_INTERRUPTS();
		gk_distances2(labelling->packed + from * d, window->row, d,
					  Min(step, labelling->k - from), window->distances2 + from);
	}
}

/* The position of the second nearest cluster to a row of the window, and its d²; -1 = none. */
static int
find_second(Window *window, int64 at, int own, double *distance2)
{
	const GkLabelling *labelling = window->rows->labelling;
	int			second = -1;

	*distance2 = HUGE_VAL;
	find_distances2(window, at);
	for (int i = 0; i < labelling->k; i++)
	{
		int			place = labelling->ties != NULL ? labelling->ties[i] : i;

		if (place == own || (second >= 0 && window->distances2[i] >= *distance2))
			continue;
		second = place;
		*distance2 = window->distances2[i];
	}
	return second;
}

/* Puts a number; NULL if it is unknown. */
static void
put_number(Datum *values, bool *nulls, GkLabelColumn column, double number)
{
	gk_put_number(&values[column], &nulls[column], number);
}

/* How unusual a row is. */
static void
put_anomaly(const GkLabelRows *rows, int place, double distance, Datum *values, bool *nulls)
{
	const GkLabelling *labelling = rows->labelling;
	double		score = labelling->avg_distances == NULL ? NAN
		: gk_anomaly_score(distance, labelling->avg_distances[place]);

	if (IS_WANTED(rows, GK_LABEL_ANOMALY_SCORE))
		put_number(values, nulls, GK_LABEL_ANOMALY_SCORE, score);
	if (IS_WANTED(rows, GK_LABEL_ANOMALY_PERCENTILE))
		put_number(values, nulls, GK_LABEL_ANOMALY_PERCENTILE,
				   gk_anomaly_percentile(labelling->score_quantiles, score));
}

/* The second nearest cluster. */
static void
put_second(Window *window, int64 at, int place, Datum *values, bool *nulls)
{
	const GkLabelRows *rows = window->rows;
	double		distance2;
	int			second = find_second(window, at, place, &distance2);

	if (second < 0)
		return;
	nulls[GK_LABEL_SECOND_CLUSTER] = false;
	values[GK_LABEL_SECOND_CLUSTER] = Int32GetDatum(id_at(rows->labelling, second));
	put_number(values, nulls, GK_LABEL_SECOND_DISTANCE,
			   gk_distance(rows->spec->metric, distance2));
}

/* Describes a row. */
static void
describe_row(Window *window, int64 row, Datum *values, bool *nulls)
{
	const GkLabelling *labelling = window->rows->labelling;
	double		distance;
	int64		at;
	int			place;

	move_window(window, row);
	at = row - window->from;
	place = labelling->place_of_label == NULL ? window->labels[at]
		: gk_place_of_label(labelling->place_of_label, window->labels[at]);
	distance = gk_distance(window->rows->spec->metric, window->distance2[at]);
	nulls[GK_LABEL_CLUSTER] = false;
	values[GK_LABEL_CLUSTER] = Int32GetDatum(id_at(labelling, place));
	put_number(values, nulls, GK_LABEL_DISTANCE, distance);
	if (window->names != NULL)
	{
		nulls[GK_LABEL_NAME] = false;
		values[GK_LABEL_NAME] = window->names[place];
	}
	put_anomaly(window->rows, place, distance, values, nulls);
	if (window->has_features)
		put_second(window, at, place, values, nulls);
}

/* Puts a row for every row of the source. */
void
gk_put_label_rows(const GkLabelRows *rows)
{
	Datum		values[GK_LABEL_VALUES] = {0};
	bool		nulls[GK_LABEL_VALUES];
	Window		window;
	int64		row;

	begin_window(&window, rows);
	while (gk_row_ids_next(rows->rows->ids, &values[GK_LABEL_ID], &nulls[GK_LABEL_ID], &row))
	{
		CHECK_FOR_INTERRUPTS();
		memset(nulls + 1, true, (GK_LABEL_VALUES - 1) * sizeof(bool));
		if (row >= 0)
			describe_row(&window, row, values, nulls);
		if (rows->result != NULL)
			tuplestore_putvalues(rows->result, rows->result_row, values, nulls);
		if (rows->labels != NULL)
			tuplestore_putvalues(rows->labels, rows->labels_row, values, nulls);
	}
}
