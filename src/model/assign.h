/*
 * The rows of a source labelled by a model.
 */
#ifndef GK_ASSIGN_H
#define GK_ASSIGN_H

#include "postgres.h"

#include "fit_call.h"
#include "model.h"

/*
 * Says that a call, before it reads, is to compare rows as a model does: with its features, shift,
 * scale and metric; the centroids become fit.points, in the order in which ties are decided.
 */
extern void gk_call_compare_as(GkCall *call, const GkModel *model);

/* Raises 42804 or 22000 unless the rows that a call has read are like those of a model. */
extern void gk_call_check_as(const GkCall *call, const GkModel *model);

/*
 * Raises 40001 if others have deployed another version than that of a model, which was deployed
 * when it was read: rows that were read by a newer snapshot must not be labelled by it.
 */
extern void gk_check_overtaken(const GkModel *model);

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

/*
 * Where gk_call_write_labels() of a call that makes a version finds newer labels, rows are read
 * anew once the version is written, and labelled by the one that is deployed: the first keeps what
 * the call asks for, before its job ends, and the second labels.  If the call is bound, or the
 * locks of others stop the reading, the second leaves the labels as others have written them, with
 * a WARNING, and returns false: the fit is worth more.
 */
extern void gk_keep_request(const GkCall *call, GkArguments *asked);
extern bool gk_assign_newer(const GkCall *call, Oid relation_id, int version, GkArguments *asked);

#endif							/* GK_ASSIGN_H */
