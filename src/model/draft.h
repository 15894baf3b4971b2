/*
 * A row of a model that is about to be written.
 */
#ifndef GK_DRAFT_H
#define GK_DRAFT_H

#include "postgres.h"

#include "access/tupdesc.h"

#include "model.h"

/* Attributes that are not set are NULL. Values lie in the memory context current at the call. */
typedef struct GkDraft
{
	TupleDesc	descriptor;		/* of gkmeans_model */
	Datum		values[GK_MODEL_ATTRIBUTES];
	bool		nulls[GK_MODEL_ATTRIBUTES];
} GkDraft;

extern void gk_begin_draft(GkDraft *draft);
extern void gk_draft_set(GkDraft *draft, GkModelAttribute number, Datum value);
extern void gk_draft_text(GkDraft *draft, GkModelAttribute number, const char *text);
extern void gk_draft_json(GkDraft *draft, GkModelAttribute number, const char *json);
extern void gk_draft_texts(GkDraft *draft, GkModelAttribute number, const char *const *texts,
						   int count);
extern void gk_draft_doubles(GkDraft *draft, GkModelAttribute number, const double *values,
							 int count);
extern void gk_draft_measures(GkDraft *draft, GkModelAttribute number, const double *values,
							  int count);
extern void gk_draft_measure_matrix(GkDraft *draft, GkModelAttribute number, const double *values,
									int rows, int columns);
extern void gk_draft_matrix(GkDraft *draft, GkModelAttribute number, const double *values,
							int rows, int columns);
extern void gk_draft_reals(GkDraft *draft, GkModelAttribute number, const float *values,
						   int rows, int columns);
extern void gk_draft_integers(GkDraft *draft, GkModelAttribute number, const int32 *values,
							  int count);

/* Raises 42622 if one of the names of clusters, or all of them, are longer than a model takes. */
extern void gk_check_names(ArrayType *names);

/* Sets who created the version, and when. */
extern void gk_draft_begun(GkDraft *draft);

/* Sets when it was completed, and marks it as deployed; its writer sets since when. */
extern void gk_draft_deployed(GkDraft *draft, const char *status);

/* Writes the row into a model, which must be locked.  SPI must be connected. */
extern void gk_insert_draft(const GkDraft *draft, Oid relation_id);

/* Writes what is set into the head row of a version that is there.  SPI must be connected. */
extern void gk_update_draft(const GkDraft *draft, Oid relation_id, int version);

#endif							/* GK_DRAFT_H */
