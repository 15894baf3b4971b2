/*
 * The picture of the profiles: features × clusters, colour by how far a centroid is from the mean.
 */
#include "postgres.h"

#include <math.h>

#include "alloc.h"
#include "markup.h"
#include "miscadmin.h"
#include "pictures.h"

/* Sizes of a cell, in pixels. */
#define LEAST_HEIGHT 16.0
#define MOST_HEIGHT 44.0
#define LEAST_WIDTH 42.0
#define MOST_WIDTH 110.0

/* The most clusters and features where a picture leaves something out. */
#define MOST_CLUSTERS 32
#define MOST_FEATURES 64

/* The number of strengths of a colour, and the deviation that one step stands for. */
#define LEVELS 6
#define LEVEL 0.4

#define ABOVE "#d55e00"
#define BELOW "#1a78c8"

/* The cells. */
typedef struct Table
{
	const GkSummary *summary;
	bool		has_rows;		/* deviations are of the rows, not of the centroids */
	int			features;
	int			clusters;
	int		   *feature;		/* the features that are shown */
	int		   *cluster;		/* the clusters */
	double		left;
	double		top;
	double		width;			/* of a cell */
	double		height;
	int			spread_of;		/* a feature of the centroids; -1 = none yet */
	double		mean;			/* its mean, and the sum of the squares of what differs from it */
	double		square;
} Table;

/* What the version lacks for the picture; NULL if nothing. */
const char *
gk_profile_missing(const GkSubject *subject)
{
	return subject->summary.centroids == NULL ? "centroids" : NULL;
}

/* A description of the picture. */
const char *
gk_profile_describe(const GkSubject *subject)
{
	const GkSummary *summary = &subject->summary;
	GkRank	   *order = gk_allocate(summary->dimension, sizeof(GkRank));
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, "Centroids by feature, coloured by their distance from the mean");
	for (int c = 0; c < Min(summary->k, 5); c++)
	{
		const char *profile = gk_describe_profile(summary, c, order, false);

		if (profile != NULL)
			appendStringInfo(&text, "%s%s: %s", c == 0 ? ". " : "; ",
							 gk_clip(gk_summary_name(summary, c), 150.0), gk_clip(profile, 300.0));
	}
	return text.data;
}

/* A feature of a centroid. */
static double
value_of(const GkSummary *summary, int cluster, int feature)
{
	return summary->centroids[(int64) cluster * summary->dimension + feature];
}

/* Finds the mean and the squares of a feature of the centroids, which may be many. */
static void
find_spread(Table *table, int feature)
{
	const GkSummary *summary = table->summary;

	CHECK_FOR_INTERRUPTS();
	table->spread_of = feature;
	table->mean = table->square = 0.0;
	for (int c = 0; c < summary->k; c++)
		table->mean += value_of(summary, c, feature) / summary->k;
	for (int c = 0; c < summary->k; c++)
	{
		double		difference = value_of(summary, c, feature) - table->mean;

		table->square += difference * difference;
	}
}

/* The deviation of a feature of the centroids; NaN if all are equal, or too far apart. */
static double
spread_of_centroids(Table *table, int feature)
{
	if (table->spread_of != feature)
		find_spread(table, feature);
	if (!(table->square > 0.0) || !isfinite(table->square))
		return NAN;
	return sqrt(table->square / table->summary->k);
}

/* How far a centroid is from the mean of the centroids, in their deviations. */
static double
place_among_centroids(Table *table, int cluster, int feature)
{
	double		spread = spread_of_centroids(table, feature);

	return (value_of(table->summary, cluster, feature) - table->mean) / spread;
}

/* By how much a centroid stands out. */
static double
deviation_of(Table *table, int cluster, int feature)
{
	double		z = table->has_rows ? gk_z_score(table->summary, cluster, feature)
		: place_among_centroids(table, cluster, feature);

	return isfinite(z) ? z : 0.0;
}

/* Chooses the features: all, or those that stand out most in the clusters that are shown. */
static void
choose_features(Table *table, int room)
{
	int			d = table->summary->dimension;
	GkRank	   *ranks = gk_allocate(d, sizeof(GkRank));

	table->features = Min(d, room);
	table->feature = gk_allocate(table->features, sizeof(int));
	for (int j = 0; j < d; j++)
	{
		CHECK_FOR_INTERRUPTS();
		ranks[j] = (GkRank) {j, 0.0};
		/* without rows it takes all centroids to place one among them */
		for (int i = 0; d > room && i < (table->has_rows ? table->clusters : 1); i++)
			ranks[j].z = Max(ranks[j].z, fabs(deviation_of(table, table->cluster[i], j)));
	}
	qsort_interruptible(ranks, d, sizeof(GkRank), gk_compare_ranks, NULL);
	for (int i = 0; i < table->features; i++)
		table->feature[i] = ranks[i].feature;
	gk_sort_integers(table->feature, table->features);
	pfree(ranks);
}

/* Chooses the clusters: all, or the largest. */
static void
choose_clusters(Table *table, int room)
{
	table->cluster = gk_clusters_by_size(table->summary);
	table->clusters = Min(table->summary->k, room);
	gk_sort_integers(table->cluster, table->clusters);
}

/* How many rows or columns there are with this much left out; a large picture has room for more. */
static int
room_for(double room, int most, int detail)
{
	return detail == 0 ? Max(1, (int) room) : Max(1, Min((int) room, most) >> detail);
}

/* Lays out the picture. */
static void
lay_out(Table *table, const GkSvg *svg)
{
	double		widest = 50.0;

	choose_clusters(table, room_for((svg->width * 0.75) / LEAST_WIDTH, MOST_CLUSTERS,
									svg->detail / 2));
	table->top = 56.0;
	choose_features(table, room_for((svg->height - table->top - 34.0) / LEAST_HEIGHT,
									MOST_FEATURES, (svg->detail + 1) / 2));
	for (int i = 0; i < table->features; i++)
		widest = Max(widest, gk_text_width(gk_summary_feature(table->summary, table->feature[i])));
	table->left = Min(widest + 20.0, svg->width * 0.25);
	table->width = Min(MOST_WIDTH, (svg->width - table->left - 10.0) / table->clusters);
	table->height = Min(MOST_HEIGHT, (svg->height - table->top - 34.0) / table->features);
}

/* The strength of the colour of a cell, with its sign. */
static int
level_of(Table *table, int row, int column)
{
	double		z = deviation_of(table, table->cluster[column], table->feature[row]);

	return (int) rint(Max(-LEVELS, Min(z / LEVEL, LEVELS)));
}

/* The colour of a strength. */
static const char *
style_of(int level)
{
	return psprintf("fill=\"%s\" fill-opacity=\"%.2f\"", level > 0 ? ABOVE : BELOW,
					0.11 * abs(level));
}

/* Draws the cells of a strength, one path for all of them. */
static void
draw_level(GkSvg *svg, const Table *table, const int8 *levels, int level)
{
	bool		is_open = false;

	for (int i = 0; i < table->features * table->clusters; i++)
	{
		if (levels[i] != level)
			continue;
		if (!is_open)
			appendStringInfo(&svg->markup, "<path %s d=\"", style_of(level));
		is_open = true;
		appendStringInfoChar(&svg->markup, 'M');
		gk_append_lengths(&svg->markup, table->left + i % table->clusters * table->width + 1.0,
						  table->top + i / table->clusters * table->height + 1.0);
		appendStringInfoChar(&svg->markup, 'h');
		gk_append_length(&svg->markup, table->width - 2.0);
		appendStringInfoChar(&svg->markup, 'v');
		gk_append_length(&svg->markup, table->height - 2.0);
		appendStringInfoChar(&svg->markup, 'h');
		gk_append_length(&svg->markup, 2.0 - table->width);
		appendStringInfoChar(&svg->markup, 'z');
	}
	if (is_open)
		appendStringInfoString(&svg->markup, "\"/>\n");
}

/* Draws the cells. */
static void
draw_cells(GkSvg *svg, Table *table)
{
	int			count = table->features * table->clusters;
	int8	   *levels = gk_allocate(count, sizeof(int8));

	for (int i = 0; i < count; i++)
		levels[i] = level_of(table, i / table->clusters, i % table->clusters);
	for (int level = -LEVELS; level <= LEVELS; level++)
		if (level != 0)
			draw_level(svg, table, levels, level);
}

/* A number of a cell, which should show how far the centroids are apart. */
static const char *
cell_text(Table *table, int cluster, int feature)
{
	double		value = value_of(table->summary, cluster, feature);
	double		deviation = table->has_rows ? table->summary->deviation[feature]
		: spread_of_centroids(table, feature);
	const char *text = gk_number_in_steps(value, deviation);

	return gk_text_width(text) <= table->width ? text : gk_short_number(value);
}

/* Writes a feature and its numbers. */
static void
draw_row(GkSvg *svg, Table *table, int row)
{
	double		y = table->top + (row + 0.5) * table->height + 4.0;
	int			feature = table->feature[row];

	gk_svg_text(svg, table->left - 8.0, y, GK_END, "",
				gk_clip(gk_summary_feature(table->summary, feature), table->left - 18.0));
	appendStringInfoString(&svg->markup, "<text text-anchor=\"middle\" font-size=\"11\" y=\"");
	gk_append_length(&svg->markup, y);
	appendStringInfoString(&svg->markup, "\">");
	for (int i = 0; i < table->clusters; i++)
	{
		appendStringInfoString(&svg->markup, "<tspan x=\"");
		gk_append_length(&svg->markup, table->left + (i + 0.5) * table->width);
		appendStringInfo(&svg->markup, "\">%s</tspan>",
						 cell_text(table, table->cluster[i], feature));
	}
	appendStringInfoString(&svg->markup, "</text>\n");
}

/* Writes the names of the clusters; their numbers where there is no room for names. */
static void
draw_names(GkSvg *svg, const Table *table)
{
	for (int i = 0; i < table->clusters; i++)
	{
		int			cluster = table->cluster[i];
		double		x = table->left + (i + 0.5) * table->width;
		bool		is_named = table->summary->names != NULL &&
			table->summary->names[cluster] != NULL && table->width >= 50.0;

		gk_svg_begin_shapes(svg, cluster, 4.0, 1.0);
		gk_svg_shape(svg, cluster, x, 34.0, 4.0);
		gk_svg_end_shapes(svg);
		gk_svg_text(svg, x, 51.0, GK_MIDDLE, "",
					is_named ? gk_clip(table->summary->names[cluster], table->width - 6.0)
					: psprintf("%d", gk_summary_id(table->summary, cluster)));
	}
}

/* Explains the colours, and says what is left out. */
static void
draw_legend(GkSvg *svg, const Table *table)
{
	double		y = table->top + table->features * table->height + 12.0;
	double		x = table->left + 40.0;
	StringInfoData rest;

	gk_svg_text(svg, table->left, y + 9.0, GK_START, "opacity=\".8\"", "below");
	for (int level = -LEVELS; level <= LEVELS; level += 2)
	{
		if (level != 0)
			gk_svg_rectangle(svg, x, y, 14.0, 11.0, style_of(level));
		x += level == 0 ? 4.0 : 15.0;
	}
	gk_svg_text(svg, x + 5.0, y + 9.0, GK_START, "opacity=\".8\"",
				svg->width < 400 ? "above" :
				table->has_rows ? "above the mean, by up to 2.4 deviations"
				: "above the mean of the centroids");
	initStringInfo(&rest);
	if (table->features < table->summary->dimension)
		appendStringInfo(&rest, "%d of %s features", table->features,
						 gk_count_text(table->summary->dimension));
	if (table->clusters < table->summary->k)
		appendStringInfo(&rest, "%s%d of %s clusters", rest.len > 0 ? ", " : "", table->clusters,
						 gk_count_text(table->summary->k));
	if (svg->width >= 560)
		gk_svg_text(svg, svg->width - 10.0, y + 9.0, GK_END, "opacity=\".8\"", rest.data);
}

/* Draws the picture. */
void
gk_profile_draw(const GkSubject *subject, GkSvg *svg)
{
	Table		table = {.summary = &subject->summary,.spread_of = -1};

	table.has_rows = subject->summary.mean != NULL && subject->summary.deviation != NULL;
	lay_out(&table, svg);
	draw_cells(svg, &table);
	draw_names(svg, &table);
	for (int row = 0; row < table.features; row++)
		draw_row(svg, &table, row);
	draw_legend(svg, &table);
}
