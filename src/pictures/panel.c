/*
 * A panel of a picture.
 */
#include "postgres.h"

#include <math.h>

#include "alloc.h"
#include "markup.h"
#include "panel.h"

/* The least distance between two numbers of an axis, in pixels. */
#define TICK_PIXELS 34.0

/* Values that differ by less of their size are drawn as equal; their numbers would be too long. */
#define FLAT 1e-4

/* The most points of a series. */
#define MOST_POINTS 1000

/* Begins a panel with an empty range of y. */
void
gk_panel_clear(GkPanel *panel)
{
	panel->least_y = HUGE_VAL;
	panel->greatest_y = -HUGE_VAL;
}

/* Widens the range of y by values. */
void
gk_panel_cover(GkPanel *panel, const double *values, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (!isfinite(values[i]))
			continue;
		panel->least_y = Min(panel->least_y, values[i]);
		panel->greatest_y = Max(panel->greatest_y, values[i]);
	}
}

/* A step between numbers of an axis: 1, 2 or 5 times a power of ten. */
static double
nice_step(double range, double most)
{
	double		rough = range / Max(most, 1.0);
	double		power = pow(10.0, floor(log10(rough)));
	double		digit = rough / power;

	return power * (digit <= 1.0 ? 1.0 : digit <= 2.0 ? 2.0 : digit <= 5.0 ? 5.0 : 10.0);
}

/* Rounds the range of y. */
void
gk_panel_round(GkPanel *panel)
{
	if (panel->least_y > panel->greatest_y)
	{
		panel->least_y = 0.0;
		panel->greatest_y = 1.0;
	}
	/* their sum must not overflow, nor their difference vanish */
	panel->least_y = Max(-1e300, Min(panel->least_y, 1e300));
	panel->greatest_y = Max(-1e300, Min(panel->greatest_y, 1e300));
	if (panel->greatest_y - panel->least_y <= FLAT * fabs(panel->greatest_y) ||
		panel->greatest_y - panel->least_y < 1e-300)
	{
		double		size = fabs(panel->greatest_y);
		double		margin = size < 1e-299 ? 1e-3 : size * 0.1;

		panel->least_y -= panel->least_y >= margin || panel->least_y < 0.0 ? margin : 0.0;
		panel->greatest_y += margin;
	}
	panel->step_y = nice_step(panel->greatest_y - panel->least_y,
							  Max(2.0, floor(panel->height / TICK_PIXELS)));
	panel->least_y = floor(panel->least_y / panel->step_y + 1e-9) * panel->step_y;
	panel->greatest_y = ceil(panel->greatest_y / panel->step_y - 1e-9) * panel->step_y;
}

/* The position of a value between two others. */
static double
part_of(double value, double least, double greatest)
{
	double		part = greatest > least ? (value - least) / (greatest - least) : 0.5;

	return Max(-1.0, Min(part, 2.0));
}

/* The position of a value of x. */
double
gk_panel_x(const GkPanel *panel, double value)
{
	return panel->left + panel->width * part_of(value, panel->least_x, panel->greatest_x);
}

/* The position of a value of y; NaN for NaN. */
double
gk_panel_y(const GkPanel *panel, double value)
{
	if (!isfinite(value))
		return NAN;
	return panel->top + panel->height *
		(1.0 - part_of(value, panel->least_y, panel->greatest_y));
}

/* Draws lines and numbers of y. */
void
gk_panel_draw_y(GkSvg *svg, const GkPanel *panel, const char *what)
{
	double		step = panel->step_y;
	int			count = (int) rint((panel->greatest_y - panel->least_y) / step);

	for (int i = 0; i <= Min(count, 30); i++)
	{
		double		value = panel->least_y + i * step;
		double		y = gk_panel_y(panel, value);

		/* a rounding error at zero would be written as 1e-17 */
		if (fabs(value) < step * 1e-6)
			value = 0.0;
		gk_svg_line(svg, panel->left, y, panel->left + panel->width, y, "opacity=\".15\"");
		gk_svg_text(svg, panel->left - 6.0, y + 4.0, GK_END, "opacity=\".8\"",
					gk_number_in_steps(value, step));
	}
	gk_svg_text(svg, panel->left, panel->top - 8.0, GK_START, "font-weight=\"600\"", what);
}

/* Draws labels along the bottom. */
void
gk_panel_draw_names(GkSvg *svg, const GkPanel *panel, const double *x, const char *const *names,
					int count)
{
	double		free_from = -1e9;

	for (int i = 0; i < count; i++)
	{
		double		place = gk_panel_x(panel, x[i]);
		double		width = gk_text_width(names[i]);

		place = Min(place, panel->left + panel->width + 12.0 - width / 2.0);
		if (place - width / 2.0 < free_from)
			continue;
		gk_svg_text(svg, place, panel->top + panel->height + 16.0, GK_MIDDLE, "opacity=\".8\"",
					names[i]);
		free_from = place + width / 2.0 + 8.0;
	}
}

/* Draws numbers along the bottom. */
void
gk_panel_draw_x(GkSvg *svg, const GkPanel *panel, const char *what)
{
	double		step = nice_step(Max(panel->greatest_x - panel->least_x, 1.0),
								 panel->width / (1.6 * TICK_PIXELS));
	double		value;

	step = Max(1.0, step);
	for (value = ceil(panel->least_x / step) * step; value <= panel->greatest_x; value += step)
		gk_svg_text(svg, gk_panel_x(panel, value), panel->top + panel->height + 16.0, GK_MIDDLE,
					"opacity=\".8\"", gk_number_in_steps(value, step));
	gk_svg_text(svg, panel->left + panel->width, panel->top + panel->height + 32.0, GK_END,
				"opacity=\".8\"", what);
}

/* Keeps a point. */
static void
keep_point(double *x, double *y, int *kept, int point)
{
	x[*kept] = x[point];
	y[(*kept)++] = y[point];
}

/* Keeps the least and the greatest of some neighbours, and what is the last of all. */
static void
keep_extremes(double *x, double *y, int *kept, int from, int end, bool with_last)
{
	int			least = from;
	int			greatest = from;

	for (int i = from; i < end; i++)
	{
		least = isnan(y[least]) || y[i] < y[least] ? i : least;
		greatest = isnan(y[greatest]) || y[i] > y[greatest] ? i : greatest;
	}
	keep_point(x, y, kept, Min(least, greatest));
	if (least != greatest)
		keep_point(x, y, kept, Max(least, greatest));
	if (with_last && Max(least, greatest) != end - 1)
		keep_point(x, y, kept, end - 1);
}

/* Leaves out points where there are too many, but no peak; returns how many are left. */
static int
thin_out(double *x, double *y, int count, int most)
{
	int			step = (2 * count + most - 1) / most;
	int			kept = 0;

	if (count <= most)
		return count;
	for (int from = 0; from < count; from += step)
		keep_extremes(x, y, &kept, from, Min(from + step, count), from + step >= count);
	return kept;
}

/* Draws a series of values. */
void
gk_panel_series(GkSvg *svg, const GkPanel *panel, const double *x, const double *y, int count,
				const char *color, bool dots)
{
	double	   *places_x = gk_allocate(Max(count, 1), sizeof(double));
	double	   *places_y = gk_allocate(Max(count, 1), sizeof(double));

	for (int i = 0; i < count; i++)
	{
		places_x[i] = gk_panel_x(panel, x[i]);
		places_y[i] = gk_panel_y(panel, y[i]);
	}
	count = thin_out(places_x, places_y, count, MOST_POINTS >> svg->detail);
	gk_svg_path(svg, places_x, places_y, count,
				psprintf("stroke=\"%s\" stroke-width=\"2\"", color));
	for (int i = 0; dots && svg->detail < 3 && i < count; i++)
		if (!isnan(places_y[i]))
			gk_svg_circle(svg, places_x[i], places_y[i], 3.0, psprintf("fill=\"%s\"", color));
	pfree(places_x);
	pfree(places_y);
}
