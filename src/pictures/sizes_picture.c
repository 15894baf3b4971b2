/*
 * The picture of the sizes of the clusters: bars with names and shares.
 */
#include "postgres.h"

#include <math.h>

#include "markup.h"
#include "pictures.h"

/* Heights of a bar with the space below it, in pixels. */
#define LEAST_LINE 16.0
#define MOST_LINE 44.0

/* Room for the number of rows and the share. */
#define NUMBER_WIDTH 110.0

/* What the version lacks for the picture; NULL if nothing. */
const char *
gk_sizes_missing(const GkSubject *subject)
{
	return subject->summary.sizes == NULL ? "sizes of its clusters" : NULL;
}

/* Room for the names. */
static double
names_width(const GkSvg *svg, const GkSummary *summary, const int *order, int count)
{
	double		widest = 40.0;

	for (int i = 0; i < count; i++)
		widest = Max(widest, gk_text_width(gk_summary_name(summary, order[i])));
	return Min(widest, svg->width * 0.3) + 38.0;
}

/* Draws a bar. */
static void
draw_bar(GkSvg *svg, const GkSummary *summary, int cluster, int64 largest, double left, double y,
		 double line)
{
	double		share = summary->sizes[cluster] / Max(gk_total_size(summary), 1.0);
	double		width = svg->width - left - NUMBER_WIDTH - 10.0;
	double		length = width * summary->sizes[cluster] / Max((double) largest, 1.0);

	gk_svg_begin_shapes(svg, cluster, 4.5, 1.0);
	gk_svg_shape(svg, cluster, 16.0, y + line / 2.0, 4.5);
	gk_svg_end_shapes(svg);
	gk_svg_text(svg, 28.0, y + line / 2.0 + 4.0, GK_START, "",
				gk_clip(gk_summary_name(summary, cluster), left - 34.0));
	gk_svg_rectangle(svg, left, y + line * 0.12, Max(length, 1.0), line * 0.76,
					 psprintf("fill=\"%s\" rx=\"2\"", gk_cluster_color(cluster)));
	gk_svg_text(svg, left + Max(length, 1.0) + 6.0, y + line / 2.0 + 4.0, GK_START, "",
				psprintf("%s &#183; %s", gk_count_text(summary->sizes[cluster]),
						 gk_share_text(share)));
}

/* Writes how many clusters are not shown, and their rows. */
static void
draw_rest(GkSvg *svg, const GkSummary *summary, const int *order, int shown, double y)
{
	int64		rows = 0;

	for (int i = shown; i < summary->k; i++)
		rows += summary->sizes[order[i]];
	gk_svg_text(svg, 28.0, y + 12.0, GK_START, "opacity=\".8\"",
				psprintf("%s with %s row%s", gk_more_text(summary->k - shown, "cluster"),
						 gk_count_text(rows), rows == 1 ? "" : "s"));
}

/* Draws the picture. */
void
gk_sizes_draw(const GkSubject *subject, GkSvg *svg)
{
	const GkSummary *summary = &subject->summary;
	int		   *order = gk_clusters_by_size(summary);
	double		height = svg->height - 40.0;
	int			room = Max(2, (int) (height / LEAST_LINE) >> svg->detail);
	int			shown = summary->k <= room ? summary->k : room - 1;
	double		line = Min(MOST_LINE, height / (summary->k <= room ? shown : room));
	double		left = names_width(svg, summary, order, shown);

	for (int i = 0; i < shown; i++)
		draw_bar(svg, summary, summary->k <= room ? i : order[i], summary->sizes[order[0]], left,
				 34.0 + i * line, line);
	if (shown < summary->k)
		draw_rest(svg, summary, order, shown, 34.0 + shown * line);
}
