/*
 * The subject of a picture or a report: a version of a model, and its other versions.
 */
#ifndef GK_SUBJECT_H
#define GK_SUBJECT_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "summary.h"

/* What is known of a version in the course of a model; numbers are NaN if they are not known. */
typedef struct GkPast
{
	int			version;
	const char *day;			/* when it was finished: 2026-01-31; "" if that is not known */
	bool		deployed;		/* now */
	bool		was_deployed;	/* now or before */
	int64		rows;			/* -1 = not known */
	int			k;				/* 0 = not known */
	double		inertia;
	double		explained;		/* share of the variance that the clusters explain */
	double		silhouette;		/* the full one, else the simplified one */
	double		psi;
} GkPast;

typedef struct GkSubject
{
	Relation	relation;
	GkHeads    *heads;
	const char *model;			/* its name, with that of its schema */
	GkModelRow	row;			/* the version's head */
	GkSummary	summary;
	bool		is_simplified;	/* a silhouette among the versions is the simplified one */
	int			count;			/* of the versions */
	GkPast	   *past;			/* by number */
	Jsonb	   *drift;			/* of gk_subject_drift(), when the subject is read; NULL = none */
} GkSubject;

/* Begins to read an open model; reads what is known of its versions. */
extern void gk_open_subject(GkSubject *subject, Relation relation);

/* Moves to a version, the deployed one if it is 0; false without one, XX001 if there are two. */
extern bool gk_find_subject(GkSubject *subject, int version);

/* Moves to the deployed version; false unless there is exactly one. */
extern bool gk_find_deployed_subject(GkSubject *subject);

/*
 * Reads its clusters and its drift: XX001 if it is damaged.  Where that is raised, here and in
 * drawing, nothing but memory is taken.
 */
extern void gk_read_subject(GkSubject *subject);

/* Ends reading; the model stays open. */
extern void gk_close_subject(GkSubject *subject);

/* A number of the version; NaN if it is not known. */
extern double gk_subject_number(const GkSubject *subject, GkModelAttribute number);

/* A jsonb of the version; NULL if there is none. */
extern Jsonb *gk_subject_json(const GkSubject *subject, GkModelAttribute number);

/* The newest version with a drift, or this one if it has a drift; NULL if none has. */
extern const GkPast *gk_subject_drift(const GkSubject *subject);

/* The beginning of a text of a row, as much as a page shows; NULL for NULL. */
extern char *gk_row_beginning(const GkModelRow *row, GkModelAttribute number);

/* The places of clusters, the largest first; by their order where sizes are not known. */
extern int *gk_clusters_by_size(const GkSummary *summary);

#endif							/* GK_SUBJECT_H */
