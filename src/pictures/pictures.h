/*
 * The pictures of a model.
 */
#ifndef GK_PICTURES_H
#define GK_PICTURES_H

#include "postgres.h"

#include "subject.h"
#include "svg.h"

typedef struct GkPicture
{
	const char *name;
	const char *heading;

	/* What the version lacks for the picture; NULL if nothing. */
	const char *(*missing) (const GkSubject *subject);

	/* A description of the picture for those who cannot see it, as markup. */
	const char *(*describe) (const GkSubject *subject);
	void		(*draw) (const GkSubject *subject, GkSvg *svg);
} GkPicture;

/* All pictures, the last of which has no name. */
extern const GkPicture gk_pictures[];

/* Sizes of a picture that can be asked for. */
#define GK_LEAST_WIDTH 240
#define GK_LEAST_HEIGHT 160
#define GK_MOST_LENGTH 4000

/* The limits of psi from which to watch drift, and from which to refit. */
#define GK_PSI_WATCH 0.1
#define GK_PSI_REFIT 0.25

/* Draws a picture that lacks nothing: SVG of at most GK_MOST_SVG_BYTES. */
extern const char *gk_draw_picture(const GkSubject *subject, const GkPicture *picture, int width,
								   int height);

/* Each of them, in a file of its own. */
extern const char *gk_clusters_missing(const GkSubject *subject);
extern const char *gk_clusters_describe(const GkSubject *subject);
extern void gk_clusters_draw(const GkSubject *subject, GkSvg *svg);
extern const char *gk_profile_missing(const GkSubject *subject);
extern const char *gk_profile_describe(const GkSubject *subject);
extern void gk_profile_draw(const GkSubject *subject, GkSvg *svg);
extern const char *gk_sizes_missing(const GkSubject *subject);
extern void gk_sizes_draw(const GkSubject *subject, GkSvg *svg);
extern const char *gk_elbow_missing(const GkSubject *subject);
extern const char *gk_elbow_describe(const GkSubject *subject);
extern void gk_elbow_draw(const GkSubject *subject, GkSvg *svg);
extern const char *gk_convergence_missing(const GkSubject *subject);
extern const char *gk_convergence_describe(const GkSubject *subject);
extern void gk_convergence_draw(const GkSubject *subject, GkSvg *svg);
extern const char *gk_drift_missing(const GkSubject *subject);
extern const char *gk_drift_describe(const GkSubject *subject);
extern void gk_drift_draw(const GkSubject *subject, GkSvg *svg);
extern const char *gk_history_missing(const GkSubject *subject);
extern const char *gk_history_describe(const GkSubject *subject);
extern void gk_history_draw(const GkSubject *subject, GkSvg *svg);

#endif							/* GK_PICTURES_H */
