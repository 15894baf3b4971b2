/*
 * The pictures of a model: their list, and drawing one within the size limit.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "markup.h"
#include "pictures.h"

const GkPicture gk_pictures[] = {
	{"clusters", "Clusters", gk_clusters_missing, gk_clusters_describe, gk_clusters_draw},
	{"profile", "Profile", gk_profile_missing, gk_profile_describe, gk_profile_draw},
	{"sizes", "Sizes", gk_sizes_missing, gk_clusters_describe, gk_sizes_draw},
	{"elbow", "Number of clusters", gk_elbow_missing, gk_elbow_describe, gk_elbow_draw},
	{"convergence", "Convergence", gk_convergence_missing, gk_convergence_describe,
	gk_convergence_draw},
	{"drift", "Drift", gk_drift_missing, gk_drift_describe, gk_drift_draw},
	{"history", "History", gk_history_missing, gk_history_describe, gk_history_draw},
	{NULL}
};

/* Draws a picture with this much left out. */
static void
draw(const GkSubject *subject, const GkPicture *picture, int width, int height, int detail,
	 GkSvg *svg)
{
	const char *of_what = gk_clip(psprintf("%s, version %d", subject->model, subject->row.version),
								  width - 40.0 - 1.2 * gk_text_width(picture->heading));
	const char *title = psprintf("%s of %s", picture->heading, of_what);

	gk_svg_begin(svg, width, height, detail, title, picture->describe(subject));
	gk_svg_heading(svg, picture->heading, of_what);
	picture->draw(subject, svg);
	gk_svg_end(svg);
}

/* Draws a picture with as much detail as the size limit allows. */
const char *
gk_draw_picture(const GkSubject *subject, const GkPicture *picture, int width, int height)
{
	GkSvg		svg;

	for (int detail = 0; detail <= GK_LEAST_DETAIL; detail++)
	{
		CHECK_FOR_INTERRUPTS();
		draw(subject, picture, width, height, detail, &svg);
		if (svg.markup.len <= GK_MOST_SVG_BYTES)
			return svg.markup.data;
		pfree(svg.markup.data);
	}
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("picture is too large"),
			 errdetail("The limit is %d bytes.", GK_MOST_SVG_BYTES),
			 errhint("Ask for a smaller width and height.")));
}
