/*
 * The rows of a source labelled by a model.
 */
#ifndef GK_ASSIGN_H
#define GK_ASSIGN_H

#include "postgres.h"

#include "fit_call.h"
#include "model.h"

/* The version that an argument names; 0, the deployed one, for NULL. */
extern int	gk_version_argument(FunctionCallInfo fcinfo, int number);

/*
 * Says that the labels in the engine are those of a model, as gk_call_describe_fit() does of a fit;
 * a label is a centroid's place in the order of ties.
 */
extern void gk_call_describe_model(GkCall *call, const GkModel *model);

/*
 * Reads the rows of a source and labels them by a version of a model; begins the job and SPI.
 * A label is a centroid's position in the order of ties.  The model stays valid as long as the
 * caller's context.
 */
extern const GkModel *gk_label_source(GkCall *call, Oid relation_id, int version,
									  const char *source, const char *id_column, Oid id_type,
									  const char *labels_table, GkIfExists if_exists);

#endif							/* GK_ASSIGN_H */
