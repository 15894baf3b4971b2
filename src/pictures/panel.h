/*
 * A panel of a picture: axes with numbers, and the positions of values.
 */
#ifndef GK_PANEL_H
#define GK_PANEL_H

#include "svg.h"

typedef struct GkPanel
{
	double		left;			/* of the plot itself, without the numbers beside it */
	double		top;
	double		width;
	double		height;
	double		least_x;
	double		greatest_x;
	double		least_y;
	double		greatest_y;
	double		step_y;			/* between the numbers of y; gk_panel_round() sets it */
} GkPanel;

/* Widens the range of y by values; ignores those that are not finite. */
extern void gk_panel_cover(GkPanel *panel, const double *values, int count);

/* Begins a panel with an empty range of y. */
extern void gk_panel_clear(GkPanel *panel);

/* Rounds the range of y to round numbers, so that it is never empty. */
extern void gk_panel_round(GkPanel *panel);

/* The position of a value. */
extern double gk_panel_x(const GkPanel *panel, double value);
extern double gk_panel_y(const GkPanel *panel, double value);

/* Draws lines and numbers of y, and its title. */
extern void gk_panel_draw_y(GkSvg *svg, const GkPanel *panel, const char *what);

/* Draws labels in plain ASCII along the bottom, as many as fit. */
extern void gk_panel_draw_names(GkSvg *svg, const GkPanel *panel, const double *x,
								const char *const *names, int count);

/* Draws numbers along the bottom, only whole ones. */
extern void gk_panel_draw_x(GkSvg *svg, const GkPanel *panel, const char *what);

/* Draws a series of values, and a dot on each if there is room. */
extern void gk_panel_series(GkSvg *svg, const GkPanel *panel, const double *x, const double *y,
							int count, const char *color, bool dots);

#endif							/* GK_PANEL_H */
