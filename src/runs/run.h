/*
 * The record of a run: a row of the model that shows its state, and a notification.
 */
#ifndef GK_RUN_H
#define GK_RUN_H

#include "postgres.h"

#include "utils/jsonb.h"
#include "utils/relcache.h"

#include "draft.h"
#include "owner.h"

/*
 * Marks runs as failed that are recorded as running but are not, except one version.  As the
 * owner, under the lock that excludes other runs.  SPI must be connected.
 */
extern void gk_mark_lost(Relation relation, int but);

/*
 * Records the beginning of a run, as the owner; returns its version.  Until gk_leave_run(), the
 * session prevents others from changing the model, across transactions.
 */
extern int	gk_enter_run(Oid relation_id, const char *note);
extern void gk_leave_run(Oid relation_id, int version);

/* Records that it failed, as the owner, and tells so; nothing if the model is gone. */
extern void gk_record_failure(Oid relation_id, int version, const ErrorData *error, bool tells);

/* The contents of the notification, which is sent at commit. */
typedef struct GkNews
{
	int			version;
	const char *status;
	bool		deployed;
	double		psi;			/* NaN = not known */
	int64		moved;			/* -1 = not known */
	const char *error_code;		/* NULL = none */
} GkNews;

/* Sends it on the channel that the definition names, if any. */
extern void gk_tell(Relation relation, const Jsonb *definition, const GkNews *news);

#endif							/* GK_RUN_H */
