/*
 * The picture of drift: psi over time, and the shares of the clusters then and now.
 */
#include "postgres.h"

#include <math.h>

#include "alloc.h"
#include "json_rows.h"
#include "markup.h"
#include "panel.h"
#include "pictures.h"

#define WATCH_COLOR "#e69f00"
#define REFIT_COLOR "#d55e00"

/* Height of a cluster's two bars with the space below, in pixels. */
#define LEAST_LINE 22.0
#define MOST_LINE 40.0

/* What the version lacks for the picture; NULL if nothing. */
const char *
gk_drift_missing(const GkSubject *subject)
{
	return gk_subject_drift(subject) == NULL ? "drift" : NULL;
}

/* A description of the picture. */
const char *
gk_drift_describe(const GkSubject *subject)
{
	const GkPast *drift = gk_subject_drift(subject);

	return psprintf("Population stability index over time; %s as version %d found it: %s",
					gk_short_number(drift->psi), drift->version,
					drift->psi < GK_PSI_WATCH ? "no drift worth noting" :
					drift->psi < GK_PSI_REFIT ? "to be watched" : "time for a refit");
}

/* Draws a limit. */
static void
draw_limit(GkSvg *svg, const GkPanel *panel, double limit, const char *color, const char *name)
{
	double		y = gk_panel_y(panel, limit);

	gk_svg_line(svg, panel->left, y, panel->left + panel->width, y,
				psprintf("style=\"stroke:%s\" stroke-dasharray=\"5 3\"", color));
	gk_svg_text(svg, panel->left + panel->width, y - 4.0, GK_END,
				psprintf("style=\"fill:%s\" font-size=\"11\"", color), name);
}

/* Draws psi over the versions that have one. */
static void
draw_psi(const GkSubject *subject, GkSvg *svg, double width)
{
	GkPanel		panel = {.left = 46.0,.top = 52.0,.width = width - 60.0};
	double	   *x = gk_allocate(subject->count, sizeof(double));
	double	   *y = gk_allocate(subject->count, sizeof(double));
	const char **days = gk_allocate(subject->count, sizeof(char *));
	int			count = 0;

	panel.height = svg->height - panel.top - 28.0;
	for (int i = 0; i < subject->count; i++)
	{
		if (isnan(subject->past[i].psi))
			continue;
		x[count] = count;
		y[count] = subject->past[i].psi;
		days[count++] = subject->past[i].day;
	}
	/* the same day only once */
	for (int i = count - 1; i > 0; i--)
		if (strcmp(days[i], days[i - 1]) == 0)
			days[i] = "";
	panel.greatest_x = count - 1;
	panel.greatest_y = 0.3;
	gk_panel_cover(&panel, y, count);
	gk_panel_round(&panel);
	gk_panel_draw_y(svg, &panel, "psi");
	draw_limit(svg, &panel, GK_PSI_WATCH, WATCH_COLOR, "watch");
	draw_limit(svg, &panel, GK_PSI_REFIT, REFIT_COLOR, "refit");
	gk_panel_series(svg, &panel, x, y, count, gk_cluster_color(0), count <= 60);
	gk_panel_draw_names(svg, &panel, x, days, count);
}

/* The name of a cluster of the version then; "" if its number is not known. */
static const char *
name_of(JsonbContainer *row)
{
	const char *name = gk_json_text(row, "name");
	double		number = gk_read_number(row, "cluster_id");

	if (name != NULL)
		return name;
	return isnan(number) ? "" : psprintf("cluster %.0f", number);
}

/* Draws a cluster's share then and now. */
static void
draw_shares(GkSvg *svg, JsonbContainer *row, double left, double y, double line, double greatest)
{
	double		shares[2] = {gk_read_number(row, "share_then"), gk_read_number(row, "share_now")};
	double		names = Min(110.0, (svg->width - left) * 0.35);
	double		width = svg->width - left - names - 56.0;

	gk_svg_text(svg, left + names - 6.0, y + line / 2.0 + 2.0, GK_END, "",
				gk_clip(name_of(row), names - 6.0));
	for (int i = 0; i < 2; i++)
	{
		double		length = isnan(shares[i]) ? 0.0 : width * shares[i] / greatest;
		double		top = y + line * (i == 0 ? 0.05 : 0.43);

		gk_svg_rectangle(svg, left + names, top, Max(length, 1.0), line * 0.36,
						 i == 0 ? "opacity=\".35\"" : "fill=\"#1a78c8\"");
		gk_svg_text(svg, left + names + Max(length, 1.0) + 5.0, top + line * 0.18 + 3.5, GK_START,
					"font-size=\"10\"", gk_share_text(shares[i]));
	}
}

/* Draws the shares of the clusters. */
static void
draw_clusters(const GkSubject *subject, GkSvg *svg, double left)
{
	const GkPast *drift = gk_subject_drift(subject);
	GkJsonRows	rows = gk_json_rows(&subject->drift->root, "clusters");
	double		height = svg->height - 62.0;
	int			room = Max(1, (int) (height / LEAST_LINE) >> svg->detail);
	int			shown = rows.count <= room ? rows.count : room - 1;
	double		line = Min(MOST_LINE, height / Max(Min(rows.count, room), 1));
	double		greatest = 1e-9;

	for (int i = 0; i < rows.count; i++)
	{
		double		then = gk_read_number(rows.rows[i], "share_then");
		double		now = gk_read_number(rows.rows[i], "share_now");

		greatest = Max(greatest, Max(isnan(then) ? 0.0 : then, isnan(now) ? 0.0 : now));
	}
	gk_svg_text(svg, left, 44.0, GK_START, "font-weight=\"600\"", "shares");
	gk_svg_rectangle(svg, left + 52.0, 35.0, 10.0, 10.0, "opacity=\".35\"");
	gk_svg_text(svg, left + 66.0, 44.0, GK_START, "", "then");
	gk_svg_rectangle(svg, left + 102.0, 35.0, 10.0, 10.0, "fill=\"#1a78c8\"");
	gk_svg_text(svg, left + 116.0, 44.0, GK_START, "",
				psprintf("now: version %d", drift->version));
	for (int i = 0; i < shown; i++)
		draw_shares(svg, rows.rows[i], left, 54.0 + i * line, line, greatest);
	if (shown < rows.count)
		gk_svg_text(svg, left, 54.0 + shown * line + 13.0, GK_START, "opacity=\".8\"",
					gk_more_text(rows.count - shown, "cluster"));
}

/* Draws the picture. */
void
gk_drift_draw(const GkSubject *subject, GkSvg *svg)
{
	bool		is_wide = svg->width >= 420;
	double		half = is_wide ? svg->width * 0.52 : svg->width;

	draw_psi(subject, svg, half);
	if (is_wide)
		draw_clusters(subject, svg, half + 8.0);
}
