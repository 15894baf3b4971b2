/*
 * The picture of the convergence: inertia by iteration, a line for each start.
 */
#include "postgres.h"

#include <math.h>

#include "alloc.h"
#include "json_rows.h"
#include "markup.h"
#include "panel.h"
#include "pictures.h"

/* The most starts drawn, starts with colours of their own, and points of all lines. */
#define MOST_STARTS 200
#define COLORED_STARTS 6
#define MOST_POINTS 1200

/* A start. */
typedef struct Run
{
	double		number;
	int			count;
	double	   *iteration;
	double	   *inertia;
} Run;

/* All starts. */
typedef struct Runs
{
	int			count;
	Run		   *runs;
	int			best;			/* that with the least inertia at its end */
	int			longest;		/* iterations */
} Runs;

/* Adds the rows of one start, from row `from` on; returns the row after them. */
static int
add_run(Runs *runs, const GkJsonRows *rows, int from)
{
	double		number = gk_read_number(rows->rows[from], "start");
	Run		   *run = &runs->runs[runs->count];

	memset(run, 0, sizeof(*run));
	run->number = number;
	run->iteration = gk_allocate(rows->count - from, sizeof(double));
	run->inertia = gk_allocate(rows->count - from, sizeof(double));
	for (; from < rows->count && gk_read_number(rows->rows[from], "start") == number; from++)
	{
		double		iteration = gk_read_number(rows->rows[from], "iteration");
		double		inertia = gk_read_number(rows->rows[from], "inertia");

		if (isnan(inertia) || !(iteration >= 0.0 && iteration < 1e9))
			continue;
		run->iteration[run->count] = iteration;
		run->inertia[run->count++] = inertia;
		runs->longest = Max(runs->longest, (int) iteration);
	}
	runs->count += run->count > 0;
	return from;
}

/* Reads the starts. */
static void
read_runs(const GkSubject *subject, Runs *runs)
{
	Jsonb	   *json = gk_subject_json(subject, GK_MODEL_HISTORY);
	GkJsonRows	rows = {0};

	memset(runs, 0, sizeof(*runs));
	runs->runs = gk_allocate_zero(MOST_STARTS, sizeof(Run));
	if (json != NULL)
		rows = gk_json_rows(&json->root, NULL);
	for (int i = 0; i < rows.count && runs->count < MOST_STARTS;)
		i = isnan(gk_read_number(rows.rows[i], "start")) ? i + 1 : add_run(runs, &rows, i);
	for (int i = 0; i < runs->count; i++)
	{
		const Run  *run = &runs->runs[i];
		const Run  *best = &runs->runs[runs->best];

		if (run->inertia[run->count - 1] < best->inertia[best->count - 1])
			runs->best = i;
	}
}

/* What the version lacks for the picture; NULL if nothing. */
const char *
gk_convergence_missing(const GkSubject *subject)
{
	Runs		runs;

	read_runs(subject, &runs);
	return runs.count == 0 ? "inertia of its iterations" : NULL;
}

/* A description of the picture. */
const char *
gk_convergence_describe(const GkSubject *subject)
{
	Runs		runs;

	read_runs(subject, &runs);
	return psprintf("Inertia by iteration, up to %d iterations of %d %s", runs.longest, runs.count,
					runs.count == 1 ? "start" : "starts");
}

/* Leaves out points until there are few enough; keeps the last one. */
static void
thin_out(Run *run, int most)
{
	int			step = (run->count + most - 1) / Max(most, 1);
	int			kept = 0;

	for (int i = 0; i < run->count; i++)
	{
		if (i % step != 0 && i != run->count - 1)
			continue;
		run->iteration[kept] = run->iteration[i];
		run->inertia[kept++] = run->inertia[i];
	}
	run->count = kept;
}

/* Draws a start. */
static void
draw_run(GkSvg *svg, const GkPanel *panel, const Run *run, const char *color, double width,
		 double opacity)
{
	double	   *x = gk_allocate(run->count, sizeof(double));
	double	   *y = gk_allocate(run->count, sizeof(double));

	for (int i = 0; i < run->count; i++)
	{
		x[i] = gk_panel_x(panel, run->iteration[i]);
		y[i] = gk_panel_y(panel, run->inertia[i]);
	}
	gk_svg_path(svg, x, y, run->count,
				psprintf("stroke=\"%s\" stroke-width=\"%g\" opacity=\"%g\"", color, width,
						 opacity));
	gk_svg_circle(svg, x[run->count - 1], y[run->count - 1], width + 1.0,
				  psprintf("fill=\"%s\" opacity=\"%g\"", color, opacity));
}

/* Draws all starts, the best one last. */
static void
draw_runs(GkSvg *svg, const GkPanel *panel, const Runs *runs)
{
	const Run  *best = &runs->runs[runs->best];
	bool		is_grey = runs->count > COLORED_STARTS;

	for (int i = 0; i < runs->count; i++)
		if (i != runs->best)
			draw_run(svg, panel, &runs->runs[i], is_grey ? "#8a8a8a" : gk_cluster_color(i + 1),
					 1.2, is_grey ? 0.5 : 0.8);
	draw_run(svg, panel, best, gk_cluster_color(0), 2.5, 1.0);
	if (runs->count > 1)
		gk_svg_text(svg, panel->left + panel->width, panel->top - 8.0, GK_END, "",
					psprintf("best of %d starts: number %d", runs->count, (int) best->number));
}

/* Draws the picture. */
void
gk_convergence_draw(const GkSubject *subject, GkSvg *svg)
{
	GkPanel		panel = {.left = 60.0,.top = 50.0,.width = svg->width - 84.0};
	Runs		runs;

	panel.height = svg->height - panel.top - 44.0;
	read_runs(subject, &runs);
	panel.least_x = runs.longest > 0 ? 1.0 : 0.0;
	panel.greatest_x = Max(runs.longest, panel.least_x + 1.0);
	gk_panel_clear(&panel);
	for (int i = 0; i < runs.count; i++)
	{
		gk_panel_cover(&panel, runs.runs[i].inertia, runs.runs[i].count);
		thin_out(&runs.runs[i], Max(2, (MOST_POINTS >> svg->detail) / runs.count));
	}
	gk_panel_round(&panel);
	gk_panel_draw_y(svg, &panel, "inertia");
	gk_panel_draw_x(svg, &panel, "iteration");
	draw_runs(svg, &panel, &runs);
}
