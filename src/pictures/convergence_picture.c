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
	int			longest;		/* iterations */
} Run;

/* All starts. */
typedef struct Runs
{
	int			count;
	Run		   *runs;			/* those that are drawn */
	int			drawn;
	int			best;			/* the one whose clusters the version has, among them */
	int			longest;		/* iterations */
} Runs;

/* The row after those of the start that begins at row `from`. */
static int
end_of_run(const GkJsonRows *rows, int from)
{
	double		number = gk_read_number(rows->rows[from], "start");
	int			end = from + 1;

	while (end < rows->count && gk_read_number(rows->rows[end], "start") == number)
		end++;
	return end;
}

/* Reads a start from its rows. */
static void
read_run(const GkJsonRows *rows, int from, int end, Run *run)
{
	memset(run, 0, sizeof(*run));
	run->number = gk_read_number(rows->rows[from], "start");
	run->iteration = gk_allocate(end - from, sizeof(double));
	run->inertia = gk_allocate(end - from, sizeof(double));
	for (int i = from; i < end; i++)
	{
		double		iteration = gk_read_number(rows->rows[i], "iteration");
		double		inertia = gk_read_number(rows->rows[i], "inertia");

		if (isnan(inertia) || !(iteration >= 0.0 && iteration < 1e9))
			continue;
		run->iteration[run->count] = iteration;
		run->inertia[run->count++] = inertia;
		run->longest = Max(run->longest, (int) iteration);
	}
}

/* True if a start is better: the one that is known to be the best, or else the lower one. */
static bool
is_better(const Run *run, const Run *best, double known)
{
	if (run->number == known || best->number == known)
		return run->number == known;
	return run->inertia[run->count - 1] < best->inertia[best->count - 1];
}

/* Adds a start; if there are too many, only the best one takes the place of another. */
static void
add_run(Runs *runs, const Run *run, double known)
{
	int			place = runs->drawn;

	if (run->count == 0)
		return;
	runs->longest = Max(runs->longest, run->longest);
	runs->count++;
	if (place == MOST_STARTS && !is_better(run, &runs->runs[runs->best], known))
		return;
	if (place == MOST_STARTS)
		place = runs->best;
	else
		runs->drawn++;
	runs->runs[place] = *run;
	if (is_better(run, &runs->runs[runs->best], known))
		runs->best = place;
}

/* True if this can be the number of a start. */
static bool
is_start(double number)
{
	return number >= 0.0 && number <= PG_INT32_MAX;
}

/* Reads the starts. */
static void
read_runs(const GkSubject *subject, Runs *runs)
{
	Jsonb	   *json = gk_subject_json(subject, GK_MODEL_HISTORY);
	Jsonb	   *report = gk_subject_json(subject, GK_MODEL_REPORT);
	double		known = report != NULL ? gk_read_number(&report->root, "best_start") : NAN;
	GkJsonRows	rows = {0};

	memset(runs, 0, sizeof(*runs));
	runs->runs = gk_allocate_zero(MOST_STARTS, sizeof(Run));
	if (json != NULL)
		rows = gk_json_rows(&json->root, NULL);
	for (int from = 0, end; from < rows.count; from = end)
	{
		Run			run;

		end = end_of_run(&rows, from);
		if (!is_start(gk_read_number(rows.rows[from], "start")))
			continue;
		read_run(&rows, from, end, &run);
		add_run(runs, &run, known);
	}
	if (json != NULL)
		pfree(json);
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

	for (int i = 0; i < runs->drawn; i++)
		if (i != runs->best)
			draw_run(svg, panel, &runs->runs[i], is_grey ? "#8a8a8a" : gk_cluster_color(i + 1),
					 1.2, is_grey ? 0.5 : 0.8);
	draw_run(svg, panel, best, gk_cluster_color(0), 2.5, 1.0);
	if (runs->count > 1)
		gk_svg_text(svg, panel->left + panel->width, panel->top - 8.0, GK_END, "",
					psprintf("best of %d starts: number %d%s", runs->count, (int) best->number,
							 runs->drawn == runs->count ? ""
							 : psprintf("; %d are drawn", runs->drawn)));
}

/* Leaves out starts where there are too many, but not the best one. */
static void
leave_out(Runs *runs, int most)
{
	if (runs->drawn <= most)
		return;
	runs->drawn = most;
	if (runs->best < most)
		return;
	runs->runs[most - 1] = runs->runs[runs->best];
	runs->best = most - 1;
}

/* Draws the picture. */
void
gk_convergence_draw(const GkSubject *subject, GkSvg *svg)
{
	GkPanel		panel = {.left = 66.0,.top = 50.0,.width = svg->width - 90.0};
	Runs		runs;

	panel.height = svg->height - panel.top - 44.0;
	read_runs(subject, &runs);
	leave_out(&runs, MOST_STARTS >> svg->detail);
	panel.least_x = runs.longest > 0 ? 1.0 : 0.0;
	panel.greatest_x = Max(runs.longest, panel.least_x + 1.0);
	gk_panel_clear(&panel);
	for (int i = 0; i < runs.drawn; i++)
	{
		gk_panel_cover(&panel, runs.runs[i].inertia, runs.runs[i].count);
		thin_out(&runs.runs[i], Max(2, (MOST_POINTS >> svg->detail) / runs.drawn));
	}
	gk_panel_round(&panel);
	gk_panel_draw_y(svg, &panel, "inertia");
	gk_panel_draw_x(svg, &panel, "iteration");
	draw_runs(svg, &panel, &runs);
}
