/*
 * Pictures as SVG.
 *
 * Lengths are pixels, y goes down.  Lines and letters are in currentColor, so the page around a
 * picture decides how it looks; clusters differ by colour and by shape.
 */
#ifndef GK_SVG_H
#define GK_SVG_H

#include "postgres.h"

#include "lib/stringinfo.h"

/* The most bytes of a picture: as a data URI it fits the 32,766 characters of a Power BI cell. */
#define GK_MOST_SVG_BYTES 24000

/* How much is left out to meet that limit: 0 = nothing … */
#define GK_LEAST_DETAIL 5

typedef struct GkSvg
{
	StringInfoData markup;
	int			width;
	int			height;
	int			detail;			/* 0 … GK_LEAST_DETAIL */
} GkSvg;

/* The alignment of a text. */
typedef enum GkAnchor
{
	GK_START,
	GK_MIDDLE,
	GK_END
} GkAnchor;

/* Begins a picture; all texts here and below are markup (markup.h). */
extern void gk_svg_begin(GkSvg *svg, int width, int height, int detail, const char *title,
						 const char *description);

/* Ends it. */
extern void gk_svg_end(GkSvg *svg);

/* Its heading: what it shows, and of what. */
extern void gk_svg_heading(GkSvg *svg, const char *what, const char *of_what);

/* A text; `style` are more attributes, "" for none. */
extern void gk_svg_text(GkSvg *svg, double x, double y, GkAnchor anchor, const char *style,
						const char *text);

/* A line. */
extern void gk_svg_line(GkSvg *svg, double x1, double y1, double x2, double y2,
						const char *style);

/* A rectangle. */
extern void gk_svg_rectangle(GkSvg *svg, double x, double y, double width, double height,
							 const char *style);

/* A circle. */
extern void gk_svg_circle(GkSvg *svg, double x, double y, double radius, const char *style);

/* A path through points, with gaps where y is NaN. */
extern void gk_svg_path(GkSvg *svg, const double *x, const double *y, int count,
						const char *style);

/* Appends a length, to a tenth of a pixel. */
extern void gk_append_length(StringInfo markup, double value);

/* Appends two lengths, with what must stand between them. */
extern void gk_append_lengths(StringInfo markup, double x, double y);

/* The colour of a cluster by its place among the clusters. */
extern const char *gk_cluster_color(int place);

/* Begins a path of the shapes of a cluster, appends one, ends it. */
extern void gk_svg_begin_shapes(GkSvg *svg, int place, double size, double opacity);
extern void gk_svg_shape(GkSvg *svg, int place, double x, double y, double size);
extern void gk_svg_end_shapes(GkSvg *svg);

#endif							/* GK_SVG_H */
