/*
 * The picture of the versions: their inertia, their silhouette or what they explain, and which were
 * deployed.
 */
#include "postgres.h"

#include <math.h>

#include "alloc.h"
#include "markup.h"
#include "panel.h"
#include "pictures.h"

/* The most versions that are marked; less detail leaves some out. */
#define MOST_MARKS 120

/* The versions that have an inertia. */
typedef struct Course
{
	int			count;
	const GkPast **past;
	double	   *x;
	double	   *values;
} Course;

/* Collects at most the last thousand versions. */
static void
collect(const GkSubject *subject, Course *course)
{
	int			room = Min(subject->count, 1000);

	course->count = 0;
	course->past = gk_allocate(Max(room, 1), sizeof(GkPast *));
	course->x = gk_allocate(Max(room, 1), sizeof(double));
	course->values = gk_allocate(Max(room, 1), sizeof(double));
	for (int i = subject->count - room; i < subject->count; i++)
	{
		if (isnan(subject->past[i].inertia))
			continue;
		course->x[course->count] = course->count;
		course->past[course->count++] = &subject->past[i];
	}
}

/* What the version lacks for the picture; NULL if nothing. */
const char *
gk_history_missing(const GkSubject *subject)
{
	Course		course;

	collect(subject, &course);
	return course.count == 0 ? "inertia" : NULL;
}

/* A description of the picture. */
const char *
gk_history_describe(const GkSubject *subject)
{
	Course		course;

	collect(subject, &course);
	return psprintf("Figures of the versions %d to %d",
					course.past[0]->version, course.past[course.count - 1]->version);
}

/* The first of the newest versions, which are marked as the deployed one is. */
static int
first_marked(const GkSvg *svg, const Course *course)
{
	return Max(0, course->count - (MOST_MARKS >> svg->detail));
}

/* Marks the versions that were deployed or not, and the deployed one. */
static void
draw_marks(GkSvg *svg, const GkPanel *panel, const Course *course, const char *color)
{
	int			first = first_marked(svg, course);

	for (int i = 0; i < course->count; i++)
	{
		double		x = gk_panel_x(panel, course->x[i]);
		double		y = gk_panel_y(panel, course->values[i]);
		bool		deployed = course->past[i]->deployed;

		if (isnan(y) || (i < first && !deployed))
			continue;
		if (deployed)
			gk_svg_circle(svg, x, y, 7.0, "fill=\"none\" stroke=\"currentColor\"");
		gk_svg_circle(svg, x, y, 3.5, psprintf(course->past[i]->was_deployed ? "fill=\"%s\""
											   : "fill=\"none\" stroke=\"%s\"", color));
	}
}

/* Draws one figure over the versions. */
static void
draw_figure(GkSvg *svg, GkPanel *panel, const Course *course, const char *what, const char *color)
{
	gk_panel_clear(panel);
	gk_panel_cover(panel, course->values, course->count);
	gk_panel_round(panel);
	gk_panel_draw_y(svg, panel, what);
	gk_panel_series(svg, panel, course->x, course->values, course->count, color, false);
	draw_marks(svg, panel, course, color);
}

/* Explains the marks. */
static void
draw_legend(GkSvg *svg, const Course *course)
{
	double		y = svg->height - 9.0;
	int			first = first_marked(svg, course);

	if (first > 0)
		gk_svg_text(svg, svg->width - 10.0, 34.0, GK_END, "opacity=\".8\"",
					psprintf(svg->width < 300 ? "marks from %d on" : "marks from version %d on",
							 course->past[first]->version));

	gk_svg_circle(svg, 16.0, y - 4.0, 3.5, "");
	gk_svg_text(svg, 24.0, y, GK_START, "opacity=\".8\"", "was deployed");
	gk_svg_circle(svg, 126.0, y - 4.0, 3.5, "fill=\"none\" stroke=\"currentColor\"");
	gk_svg_text(svg, 134.0, y, GK_START, "opacity=\".8\"", "not deployed");
	if (svg->width < 440)
		return;
	gk_svg_circle(svg, 240.0, y - 4.0, 3.5, "");
	gk_svg_circle(svg, 240.0, y - 4.0, 7.0, "fill=\"none\" stroke=\"currentColor\"");
	gk_svg_text(svg, 252.0, y, GK_START, "opacity=\".8\"", "deployed now");
	gk_svg_text(svg, svg->width - 24.0, y, GK_END, "opacity=\".8\"", "version");
}

/* A figure of a version. */
typedef double (*Figure) (const GkPast *past);

static double
inertia_of(const GkPast *past)
{
	return past->inertia;
}

static double
silhouette_of(const GkPast *past)
{
	return past->silhouette;
}

static double
explained_of(const GkPast *past)
{
	return past->explained;
}

/* Takes a figure of the versions; false if none has it. */
static bool
take(Course *course, Figure figure)
{
	bool		is_known = false;

	for (int i = 0; i < course->count; i++)
	{
		course->values[i] = figure(course->past[i]);
		is_known = is_known || !isnan(course->values[i]);
	}
	return is_known;
}

/* Draws the picture. */
void
gk_history_draw(const GkSubject *subject, GkSvg *svg)
{
	GkPanel		panel = {.left = 66.0,.top = 50.0,.width = svg->width - 90.0};
	Course		course;
	const char **names;
	const char *second = subject->is_simplified ? "simplified silhouette" : "silhouette";
	Figure		figure = silhouette_of;

	collect(subject, &course);
	names = gk_allocate(course.count, sizeof(char *));
	for (int i = 0; i < course.count; i++)
		names[i] = psprintf("%d", course.past[i]->version);
	if (!take(&course, silhouette_of))
	{
		second = take(&course, explained_of) ? "share of the variance explained" : NULL;
		figure = explained_of;
	}
	panel.greatest_x = course.count - 1;
	panel.height = second != NULL ? (svg->height - 130.0) / 2.0 : svg->height - 96.0;
	take(&course, inertia_of);
	draw_figure(svg, &panel, &course, "inertia", gk_cluster_color(0));
	if (second != NULL)
	{
		take(&course, figure);
		panel.top += panel.height + 34.0;
		draw_figure(svg, &panel, &course, second, gk_cluster_color(5));
	}
	gk_panel_draw_names(svg, &panel, course.x, names, course.count);
	draw_legend(svg, &course);
}
