/*
 * Pictures as SVG.
 */
#include "postgres.h"

#include <math.h>

#include "svg.h"

/* Colours that colour-blind people can distinguish, also in grey, on white and on black. */
static const char *const colors[] = {
	"#1a78c8", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a09000", "#8a8a8a"
};

/* Shapes: as many, so that a cluster differs by both. */
typedef enum Shape
{
	CIRCLE,
	SQUARE,
	TRIANGLE,
	DIAMOND,
	CROSS,
	WEDGE,
	PLUS,
	HOURGLASS
} Shape;

/* The colour of a cluster. */
const char *
gk_cluster_color(int place)
{
	return colors[place % lengthof(colors)];
}

/* The shape of a cluster: the second eight have the colours again, and other shapes. */
static Shape
shape_of(int place)
{
	int			count = lengthof(colors);

	return (place + place / count) % count;
}

/* Appends a length. */
void
gk_append_length(StringInfo markup, double value)
{
	double		tenths = rint(Max(-1e6, Min(value, 1e6)) * 10.0);
	long long	whole = (long long) fabs(tenths);

	if (!isfinite(value))
		tenths = whole = 0;
	if (tenths < 0.0)
		appendStringInfoChar(markup, '-');
	if (whole >= 10 || whole == 0)
		appendStringInfo(markup, "%lld", whole / 10);
	if (whole % 10 != 0)
		appendStringInfo(markup, ".%lld", whole % 10);
}

/* Appends two lengths. */
void
gk_append_lengths(StringInfo markup, double x, double y)
{
	gk_append_length(markup, x);
	if (!(y < 0.0))
		appendStringInfoChar(markup, ' ');
	gk_append_length(markup, y);
}

/* Appends an attribute that is a length. */
static void
append_attribute(GkSvg *svg, const char *name, double value)
{
	appendStringInfo(&svg->markup, " %s=\"", name);
	gk_append_length(&svg->markup, value);
	appendStringInfoChar(&svg->markup, '"');
}

/* Begins a picture. */
void
gk_svg_begin(GkSvg *svg, int width, int height, int detail, const char *title,
			 const char *description)
{
	svg->width = width;
	svg->height = height;
	svg->detail = detail;
	initStringInfo(&svg->markup);
	appendStringInfo(&svg->markup,
					 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\""
					 " height=\"%d\" role=\"img\" fill=\"currentColor\""
					 " font-family=\"system-ui,sans-serif\" font-size=\"12\">"
					 "<title>%s</title><desc>%s</desc>\n",
					 width, height, width, height, title, description);
}

/* Ends it. */
void
gk_svg_end(GkSvg *svg)
{
	appendStringInfoString(&svg->markup, "</svg>");
}

/* Its heading. */
void
gk_svg_heading(GkSvg *svg, const char *what, const char *of_what)
{
	gk_svg_text(svg, 10.0, 19.0, GK_START, "font-size=\"14\" font-weight=\"600\"", what);
	if (of_what[0] != '\0')
		gk_svg_text(svg, svg->width - 10.0, 19.0, GK_END, "opacity=\".7\"", of_what);
}

/* A text. */
void
gk_svg_text(GkSvg *svg, double x, double y, GkAnchor anchor, const char *style, const char *text)
{
	static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};

	appendStringInfoString(&svg->markup, "<text");
	append_attribute(svg, "x", x);
	append_attribute(svg, "y", y);
	appendStringInfo(&svg->markup, "%s%s%s>%s</text>\n", anchors[anchor],
					 style[0] != '\0' ? " " : "", style, text);
}

/* A line. */
void
gk_svg_line(GkSvg *svg, double x1, double y1, double x2, double y2, const char *style)
{
	appendStringInfoString(&svg->markup, "<path d=\"M");
	gk_append_lengths(&svg->markup, x1, y1);
	appendStringInfoChar(&svg->markup, 'L');
	gk_append_lengths(&svg->markup, x2, y2);
	appendStringInfo(&svg->markup, "\" stroke=\"currentColor\" %s/>\n", style);
}

/* A rectangle. */
void
gk_svg_rectangle(GkSvg *svg, double x, double y, double width, double height, const char *style)
{
	appendStringInfoString(&svg->markup, "<rect");
	append_attribute(svg, "x", x);
	append_attribute(svg, "y", y);
	append_attribute(svg, "width", Max(width, 0.0));
	append_attribute(svg, "height", Max(height, 0.0));
	appendStringInfo(&svg->markup, " %s/>\n", style);
}

/* A circle. */
void
gk_svg_circle(GkSvg *svg, double x, double y, double radius, const char *style)
{
	appendStringInfoString(&svg->markup, "<circle");
	append_attribute(svg, "cx", x);
	append_attribute(svg, "cy", y);
	append_attribute(svg, "r", radius);
	appendStringInfo(&svg->markup, " %s/>\n", style);
}

/* A path through points. */
void
gk_svg_path(GkSvg *svg, const double *x, const double *y, int count, const char *style)
{
	bool		is_open = false;

	appendStringInfoString(&svg->markup, "<path d=\"");
	for (int i = 0; i < count; i++)
	{
		if (isnan(y[i]))
		{
			is_open = false;
			continue;
		}
		appendStringInfoChar(&svg->markup, is_open ? 'L' : 'M');
		gk_append_lengths(&svg->markup, x[i], y[i]);
		is_open = true;
	}
	appendStringInfo(&svg->markup, "\" fill=\"none\" stroke-linejoin=\"round\" %s/>\n", style);
}

/* Begins a path of the shapes of a cluster. */
void
gk_svg_begin_shapes(GkSvg *svg, int place, double size, double opacity)
{
	Shape		shape = shape_of(place);

	appendStringInfo(&svg->markup, "<path opacity=\"%.2g\"", opacity);
	if (shape == CIRCLE || shape == CROSS || shape == PLUS)
	{
		appendStringInfo(&svg->markup, " stroke=\"%s\"", gk_cluster_color(place));
		append_attribute(svg, "stroke-width", shape == CIRCLE ? 2.0 * size : Max(1.2, size / 1.8));
		if (shape == CIRCLE)
			appendStringInfoString(&svg->markup, " stroke-linecap=\"round\"");
	}
	else
		appendStringInfo(&svg->markup, " fill=\"%s\"", gk_cluster_color(place));
	appendStringInfoString(&svg->markup, " d=\"");
}

/* Appends moves by lengths, given as multiples of the size. */
static void
append_moves(StringInfo markup, double size, const char *letters, const double *moves)
{
	for (; *letters != '\0'; letters++)
	{
		appendStringInfoChar(markup, *letters);
		if (*letters == 'z')
			continue;
		if (*letters == 'h' || *letters == 'v')
			gk_append_length(markup, *moves++ * size);
		else
		{
			gk_append_lengths(markup, moves[0] * size, moves[1] * size);
			moves += 2;
		}
	}
}

/* Appends a shape. */
void
gk_svg_shape(GkSvg *svg, int place, double x, double y, double size)
{
	static const struct
	{
		double		x;			/* where it begins, as a multiple of the size */
		double		y;
		const char *letters;
		double		moves[6];
	}			shapes[] = {
		[CIRCLE] = {0.0, 0.0, "h", {0.0}},
		[SQUARE] = {-0.9, -0.9, "hvhz", {1.8, 1.8, -1.8}},
		[TRIANGLE] = {0.0, -1.2, "lhz", {1.2, 2.1, -2.4}},
		[DIAMOND] = {0.0, -1.3, "lllz", {1.3, 1.3, -1.3, 1.3, -1.3, -1.3}},
		[CROSS] = {-0.9, -0.9, "lml", {1.8, 1.8, 0.0, -1.8, -1.8, 1.8}},
		[WEDGE] = {0.0, 1.2, "lhz", {1.2, -2.1, -2.4}},
		[PLUS] = {-1.2, 0.0, "hmv", {2.4, -1.2, -1.2, 2.4}},
		[HOURGLASS] = {-1.0, -1.1, "hlhz", {2.0, -2.0, 2.2, 2.0}}
	};
	Shape		shape = shape_of(place);

	appendStringInfoChar(&svg->markup, 'M');
	gk_append_lengths(&svg->markup, x + shapes[shape].x * size, y + shapes[shape].y * size);
	append_moves(&svg->markup, size, shapes[shape].letters, shapes[shape].moves);
}

/* Ends the path. */
void
gk_svg_end_shapes(GkSvg *svg)
{
	appendStringInfoString(&svg->markup, "\"/>\n");
}
