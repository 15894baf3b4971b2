/*
 * The picture of the choice of k: inertia and silhouette over k.
 */
#include "postgres.h"

#include <math.h>

#include "alloc.h"
#include "engine.h"
#include "json_rows.h"
#include "markup.h"
#include "panel.h"
#include "pictures.h"

/* The table of k. */
typedef struct Selection
{
	int			count;
	double	   *k;
	double	   *inertia;
	double	   *silhouette;
	bool		is_simplified;
	double		chosen;			/* NaN = none */
} Selection;

/* True if any number is known. */
static bool
is_known(const double *values, int count)
{
	for (int i = 0; i < count; i++)
		if (!isnan(values[i]))
			return true;
	return false;
}

/* Reads the rows of the table that can be drawn. */
static void
read_selection(const GkSubject *subject, Selection *selection)
{
	Jsonb	   *json = gk_subject_json(subject, GK_MODEL_K_SELECTION);
	GkJsonRows	rows = {0};

	memset(selection, 0, sizeof(*selection));
	selection->chosen = NAN;
	if (json != NULL)
		rows = gk_json_rows(&json->root, NULL);
	selection->k = gk_allocate(Max(rows.count, 1), sizeof(double));
	selection->inertia = gk_allocate(Max(rows.count, 1), sizeof(double));
	selection->silhouette = gk_allocate(Max(rows.count, 1), sizeof(double));
	for (int i = 0; i < rows.count; i++)
	{
		double		k = gk_read_number(rows.rows[i], "k");

		if (!(k >= 1.0 && k <= GK_MAX_CLUSTERS) ||
			(selection->count > 0 && k <= selection->k[selection->count - 1]))
			continue;
		if (gk_json_true(rows.rows[i], "chosen"))
			selection->chosen = k;
		selection->k[selection->count] = k;
		selection->inertia[selection->count] = gk_read_number(rows.rows[i], "inertia");
		selection->silhouette[selection->count++] = gk_read_number(rows.rows[i], "silhouette");
	}
	selection->is_simplified = !is_known(selection->silhouette, selection->count);
	for (int i = 0, j = 0; selection->is_simplified && i < rows.count && j < selection->count; i++)
		if (gk_read_number(rows.rows[i], "k") == selection->k[j])
			selection->silhouette[j++] = gk_read_number(rows.rows[i], "simplified_silhouette");
	if (json != NULL)
		pfree(json);
}

/* What the version lacks for the picture; NULL if nothing. */
const char *
gk_elbow_missing(const GkSubject *subject)
{
	Selection	selection;

	read_selection(subject, &selection);
	return selection.count == 0 ? "table of the choice of k" : NULL;
}

/* A description of the picture. */
const char *
gk_elbow_describe(const GkSubject *subject)
{
	Selection	selection;

	read_selection(subject, &selection);
	return psprintf("Inertia and silhouette of %d to %d clusters%s", (int) selection.k[0],
					(int) selection.k[selection.count - 1],
					isnan(selection.chosen) ? "" : psprintf("; %d were chosen",
															(int) selection.chosen));
}

/* Draws one figure over k. */
static void
draw_figure(GkSvg *svg, GkPanel *panel, const Selection *selection, const double *values,
			const char *what, const char *color)
{
	gk_panel_clear(panel);
	gk_panel_cover(panel, values, selection->count);
	gk_panel_round(panel);
	gk_panel_draw_y(svg, panel, what);
	if (!isnan(selection->chosen))
		gk_svg_line(svg, gk_panel_x(panel, selection->chosen), panel->top,
					gk_panel_x(panel, selection->chosen), panel->top + panel->height,
					"stroke-dasharray=\"4 3\" opacity=\".7\"");
	gk_panel_series(svg, panel, selection->k, values, selection->count, color,
					selection->count <= 60);
}

/* Draws the picture. */
void
gk_elbow_draw(const GkSubject *subject, GkSvg *svg)
{
	Selection	selection;
	double		height = (svg->height - 122.0) / 2.0;
	GkPanel		panel = {.left = 66.0,.top = 50.0,.width = svg->width - 90.0,.height = height};
	const char **names;

	read_selection(subject, &selection);
	names = gk_allocate(selection.count, sizeof(char *));
	for (int i = 0; i < selection.count; i++)
		names[i] = gk_number_in_steps(selection.k[i], 1.0);
	panel.least_x = selection.k[0];
	panel.greatest_x = selection.k[selection.count - 1];
	draw_figure(svg, &panel, &selection, selection.inertia, "inertia", gk_cluster_color(0));
	panel.top += height + 34.0;
	draw_figure(svg, &panel, &selection, selection.silhouette,
				selection.is_simplified ? "simplified silhouette" : "silhouette",
				gk_cluster_color(5));
	gk_panel_draw_names(svg, &panel, selection.k, names, selection.count);
	gk_svg_text(svg, panel.left + panel.width, svg->height - 6.0, GK_END, "opacity=\".8\"",
				isnan(selection.chosen) ? "clusters"
				: psprintf("clusters; chosen: %d", (int) selection.chosen));
}
