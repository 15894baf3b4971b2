/*
 * The picture of clusters and rows in the plane in which the centroids lie farthest apart.
 */
#include "postgres.h"

#include <math.h>

#include "alloc.h"
#include "markup.h"
#include "pictures.h"

/* Sizes of the marks of rows and centroids, and the greatest radius of an area, in pixels. */
#define ROW_SIZE 2.3
#define CENTROID_SIZE 5.5
#define GREATEST_RADIUS 0.09

/* The most that one axis is stretched against the other. */
#define MOST_STRETCH 3.0

/* The most clusters whose names stand beside their centroids; more get numbers. */
#define MOST_NAMES 8

/* Room for the names of the clusters, and for a line of them. */
#define LEGEND_WIDTH 180.0
#define LEGEND_LINE 17.0

/* The most lines, of which less detail leaves some out. */
#define MOST_LINES 320

/* The most rows that are drawn: gkmeans writes fewer, but others may write any number. */
#define MOST_ROWS 2000

/* The layout of the picture. */
typedef struct Plane
{
	double		left;
	double		top;
	double		width;
	double		height;
	double		least_x;
	double		least_y;
	double		scale_x;		/* pixels of a unit */
	double		scale_y;
	double		gap_x;			/* beside what is drawn, so that it stands in the middle */
	double		gap_y;
	bool		is_line;		/* all lies on a line: rows are spread across it */
} Plane;

/* The rows to draw. */
typedef struct Sample
{
	int			count;
	float	   *points;			/* count × 3: x, y, number of the cluster */
} Sample;

/* The rectangle of a text. */
typedef struct Taken
{
	double		x;
	double		y;
	double		width;
} Taken;

/* What the version lacks for the picture; NULL if nothing. */
const char *
gk_clusters_missing(const GkSubject *subject)
{
	return subject->summary.map_x == NULL || subject->summary.map_y == NULL ? "map" : NULL;
}

/* Shares of the largest clusters, as text. */
const char *
gk_clusters_describe(const GkSubject *subject)
{
	const GkSummary *summary = &subject->summary;
	int		   *order = gk_clusters_by_size(summary);
	double		total = gk_total_size(summary);
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, summary->k == 1 ? "%d cluster" : "%d clusters", summary->k);
	if (total > 0.0)
		appendStringInfo(&text, " of %s rows", gk_count_text((int64) total));
	for (int i = 0; total > 0.0 && i < Min(summary->k, 5); i++)
		appendStringInfo(&text, "%s%s %s", i == 0 ? ": " : ", ",
						 gk_clip(gk_summary_name(summary, order[i]), 200.0),
						 gk_share_text(summary->sizes[order[i]] / total));
	if (total > 0.0 && summary->k > 5)
		appendStringInfoString(&text, " and others");
	return text.data;
}

/* The position of the cluster with an id; -1 if there is none. */
static int
place_of(const GkSummary *summary, float number)
{
	int			least = 0;
	int			beyond = summary->k;

	if (!(number >= 0.0f && number < GK_MAX_CLUSTERS))
		return -1;
	while (least < beyond)
	{
		int			middle = (least + beyond) / 2;

		if (gk_summary_id(summary, middle) < (int) number)
			least = middle + 1;
		else
			beyond = middle;
	}
	return least < summary->k && gk_summary_id(summary, least) == (int) number ? least : -1;
}

/* Widens a range by a value. */
static void
widen(double *least, double *greatest, double value)
{
	*least = Min(*least, value);
	*greatest = Max(*greatest, value);
}

/* Pixels per unit for a range of values; 0 if it is empty. */
static double
scale_of(double pixels, double least, double greatest)
{
	double		scale = greatest > least ? pixels / (greatest - least) : 0.0;

	return isfinite(scale) ? scale : 0.0;
}

/* Finds the ranges of everything to be drawn. */
static void
fit_plane(Plane *plane, const GkSummary *summary, const Sample *sample)
{
	double		least_x = HUGE_VAL;
	double		least_y = HUGE_VAL;
	double		greatest_x = -HUGE_VAL;
	double		greatest_y = -HUGE_VAL;

	for (int c = 0; c < summary->k; c++)
	{
		widen(&least_x, &greatest_x, summary->map_x[c]);
		widen(&least_y, &greatest_y, summary->map_y[c]);
	}
	for (int i = 0; i < sample->count; i++)
	{
		widen(&least_x, &greatest_x, sample->points[3 * i]);
		widen(&least_y, &greatest_y, sample->points[3 * i + 1]);
	}
	plane->is_line = !(greatest_y - least_y > 1e-9 * (greatest_x - least_x));
	plane->scale_x = scale_of(plane->width, least_x, greatest_x);
	plane->scale_y = plane->is_line ? 0.0 : scale_of(plane->height, least_y, greatest_y);
	if (plane->scale_x > 0.0 && plane->scale_y > 0.0)
	{
		plane->scale_x = Min(plane->scale_x, MOST_STRETCH * plane->scale_y);
		plane->scale_y = Min(plane->scale_y, MOST_STRETCH * plane->scale_x);
	}
	plane->least_x = least_x;
	plane->least_y = least_y;
	plane->gap_x = (plane->width - (greatest_x - least_x) * plane->scale_x) / 2.0;
	plane->gap_y = (plane->height - (greatest_y - least_y) * plane->scale_y) / 2.0;
}

/* The position of a value. */
static double
plane_x(const Plane *plane, double x)
{
	return plane->left + plane->gap_x + (x - plane->least_x) * plane->scale_x;
}

static double
plane_y(const Plane *plane, double y)
{
	return plane->top + plane->height - plane->gap_y - (y - plane->least_y) * plane->scale_y;
}

/* The offset of a row from the line if all rows lie on one. */
static double
spread_of(const Plane *plane, int row)
{
	return plane->is_line ? (fmod(row * 0.6180339887, 1.0) - 0.5) * plane->height * 0.6 : 0.0;
}

/* Draws the rows of a cluster. */
static void
draw_rows(GkSvg *svg, const Plane *plane, const GkSummary *summary, const Sample *sample,
		  const int *places, int cluster)
{
	int			step = 1 << svg->detail;
	bool		is_open = false;

	for (int i = 0; i < sample->count; i += step)
	{
		if (places[i] != cluster)
			continue;
		if (!is_open)
			gk_svg_begin_shapes(svg, cluster, ROW_SIZE, 0.75);
		is_open = true;
		gk_svg_shape(svg, cluster, plane_x(plane, sample->points[3 * i]),
					 plane_y(plane, sample->points[3 * i + 1]) + spread_of(plane, i), ROW_SIZE);
	}
	if (is_open)
		gk_svg_end_shapes(svg);
}

/* The radius of the largest area, which decreases with the number of clusters. */
static double
greatest_radius(const GkSvg *svg, const GkSummary *summary)
{
	return GREATEST_RADIUS * Min(svg->width, svg->height) *
		Min(1.0, sqrt((double) MOST_NAMES / summary->k));
}

/* The radius of a cluster's area. */
static double
radius_of(const GkSvg *svg, const GkSummary *summary, int cluster, int largest)
{
	double		most = greatest_radius(svg, summary);
	double		part = 0.3;

	if (summary->sizes != NULL && summary->sizes[largest] > 0)
		part = (double) summary->sizes[cluster] / summary->sizes[largest];
	return Max(CENTROID_SIZE + 2.0, most * sqrt(part));
}

/* Draws the centroid of a cluster, and its area. */
static void
draw_centroid(GkSvg *svg, const Plane *plane, const GkSummary *summary, int cluster, int largest)
{
	double		x = plane_x(plane, summary->map_x[cluster]);
	double		y = plane_y(plane, summary->map_y[cluster]);

	gk_svg_circle(svg, x, y, radius_of(svg, summary, cluster, largest),
				  psprintf("fill=\"%s\" fill-opacity=\".2\" stroke=\"%s\"",
						   gk_cluster_color(cluster), gk_cluster_color(cluster)));
	gk_svg_begin_shapes(svg, cluster, CENTROID_SIZE, 1.0);
	gk_svg_shape(svg, cluster, x, y, CENTROID_SIZE);
	gk_svg_end_shapes(svg);
}

/* True if a text of this width at a position would overlap another, or leave the plane. */
static bool
is_taken(const Plane *plane, const Taken *taken, int count, double x, double y, double width)
{
	if (x < plane->left - 8.0 || x + width > plane->left + plane->width + 8.0 ||
		y < plane->top + 2.0 || y > plane->top + plane->height + 8.0)
		return true;
	for (int i = 0; i < count; i++)
		if (fabs(taken[i].y - y) < 13.0 && x < taken[i].x + taken[i].width + 4.0 &&
			taken[i].x < x + width + 4.0)
			return true;
	return false;
}

/* Writes the name or number of a cluster beside its centroid, where there is room. */
static void
draw_label(GkSvg *svg, const Plane *plane, const GkSummary *summary, int cluster, double radius,
		   Taken *taken, int *count)
{
	bool		is_named = summary->k <= MOST_NAMES && summary->names != NULL &&
		summary->names[cluster] != NULL;
	const char *name = is_named ? summary->names[cluster]
		: psprintf("%d", gk_summary_id(summary, cluster));
	double		width = Min(gk_text_width(name), 110.0);
	double		x = plane_x(plane, summary->map_x[cluster]);
	double		y = plane_y(plane, summary->map_y[cluster]);
	double		places[4][2] = {{x - width / 2.0, y - radius - 4.0},
	{x - width / 2.0, y + radius + 12.0}, {x + radius + 4.0, y + 4.0},
	{x - radius - 4.0 - width, y + 4.0}};

	for (int i = 0; i < 4; i++)
	{
		if (is_taken(plane, taken, *count, places[i][0], places[i][1], width))
			continue;
		taken[(*count)++] = (Taken) {places[i][0], places[i][1], width};
		gk_svg_text(svg, places[i][0] + width / 2.0, places[i][1], GK_MIDDLE,
					"font-weight=\"600\"", gk_clip(name, 110.0));
		return;
	}
}

/* A line of the legend. */
static void
draw_legend_line(GkSvg *svg, const GkSummary *summary, int cluster, double x, double y,
				 double total)
{
	double		room = LEGEND_WIDTH - 30.0 - (total > 0.0 ? 44.0 : 0.0);

	gk_svg_begin_shapes(svg, cluster, 4.5, 1.0);
	gk_svg_shape(svg, cluster, x + 6.0, y - 4.0, 4.5);
	gk_svg_end_shapes(svg);
	gk_svg_text(svg, x + 18.0, y, GK_START, "",
				gk_clip(gk_summary_name(summary, cluster), svg->detail > 2 ? 40.0 : room));
	if (total > 0.0)
		gk_svg_text(svg, svg->width - 10.0, y, GK_END, "opacity=\".8\"",
					gk_share_text(summary->sizes[cluster] / total));
}

/* The names of the clusters, or of the largest if there are many. */
static void
draw_legend(GkSvg *svg, const GkSummary *summary, const int *order)
{
	double		x = svg->width - LEGEND_WIDTH;
	int			room = Max(1, Min((int) ((svg->height - 50.0) / LEGEND_LINE) >> (svg->detail > 3),
						  MOST_LINES >> svg->detail));
	int			shown = summary->k <= room ? summary->k : room - 1;
	double		total = gk_total_size(summary);
	int			line = 0;

	for (; line < shown; line++)
		draw_legend_line(svg, summary, summary->k <= room ? line : order[line], x,
						 50.0 + line * LEGEND_LINE, total);
	if (shown < summary->k)
		gk_svg_text(svg, x + 18.0, 50.0 + line * LEGEND_LINE, GK_START, "opacity=\".8\"",
					psprintf("and %s more", gk_count_text(summary->k - shown)));
}

/* The rows, and the clusters that they belong to. */
static int *
read_sample(const GkSubject *subject, Sample *sample)
{
	int		   *places;

	sample->points = gk_row_reals(&subject->row, GK_MODEL_SAMPLE_POINTS, 3, &sample->count);
	sample->count = Min(sample->count, MOST_ROWS);
	places = gk_allocate(Max(sample->count, 1), sizeof(int));
	for (int i = 0; i < sample->count; i++)
		places[i] = place_of(&subject->summary, sample->points[3 * i + 2]);
	return places;
}

/* Draws the picture. */
void
gk_clusters_draw(const GkSubject *subject, GkSvg *svg)
{
	const GkSummary *summary = &subject->summary;
	int		   *order = gk_clusters_by_size(summary);
	bool		has_legend = svg->width >= 400;
	double		radius = Max(greatest_radius(svg, summary), CENTROID_SIZE + 3.0) + 6.0;
	Plane		plane = {.left = radius + 8.0,.top = 36.0 + radius};
	int			drawn = Min(summary->k, 200 >> svg->detail);
	Taken	   *taken = gk_allocate(drawn, sizeof(Taken));
	int			labels = 0;
	Sample		sample;
	int		   *places = read_sample(subject, &sample);

	plane.width = svg->width - plane.left - radius - (has_legend ? LEGEND_WIDTH + 8.0 : 8.0);
	plane.height = svg->height - plane.top - radius - 8.0;
	fit_plane(&plane, summary, &sample);
	if (drawn < summary->k)
		gk_svg_text(svg, 10.0, 34.0, GK_START, "opacity=\".8\"",
					psprintf(summary->sizes != NULL ? "the %d largest of %s clusters"
							 : "the first %d of %s clusters", drawn, gk_count_text(summary->k)));
	for (int i = 0; i < drawn; i++)
		draw_rows(svg, &plane, summary, &sample, places, order[i]);
	for (int i = 0; i < drawn; i++)
		draw_centroid(svg, &plane, summary, order[i], order[0]);
	for (int i = 0; i < drawn; i++)
		draw_label(svg, &plane, summary, order[i],
				   radius_of(svg, summary, order[i], order[0]), taken, &labels);
	if (has_legend)
		draw_legend(svg, summary, order);
}
