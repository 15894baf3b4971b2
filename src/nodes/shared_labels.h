/*
 * The labels of this node's rows by their ids, in shared memory: the session of a fit leaves them
 * there, and the sessions of Citus that write the labels table look them up.
 *
 * They outlive the transaction that left them, which must not keep its locks while others write,
 * and end with the next one: after that, the session may serve somebody else.  Only sessions of the
 * same role that know the key can look.  An id is its bytes: no function of its type is called.
 */
#ifndef GK_SHARED_LABELS_H
#define GK_SHARED_LABELS_H

#include "postgres.h"

#include "storage/dsm.h"
#include "utils/uuid.h"

/* What is known of a row. */
typedef struct GkSharedLabel
{
	bool		has_cluster;	/* false = the row could not be clustered; the rest is not set */
	int32		cluster;
	double		distance;
} GkSharedLabel;

/* The bytes that a row with this id takes, besides those that each takes. */
extern Size gk_shared_id_bytes(Oid type, Datum id, bool is_null);

/*
 * Makes room for so many rows whose ids take so many bytes, instead of what this session left
 * before; 53200 beyond the limits of host memory.  If the transaction fails, nothing is left.
 */
extern void gk_shared_labels_create(Oid id_type, int64 rows, Size id_bytes, const pg_uuid_t *key);

/* Adds a row.  Rows whose id is NULL, or is there more than once, are for the rest alone. */
extern void gk_shared_labels_add(Datum id, bool is_null, const GkSharedLabel *label);

/* Lets others look; returns by which handle. */
extern dsm_handle gk_shared_labels_publish(void);

/* True if this session has left the labels of that key, as this role. */
extern bool gk_shared_labels_are(const pg_uuid_t *key);

/*
 * The rows that nobody has taken, in turn, from *place = 0 on; false at their end, or if this
 * session has left none.  *id is a copy in the current memory context.
 */
extern bool gk_shared_labels_rest(uint64 *place, Oid *id_type, Datum *id, bool *is_null,
								  GkSharedLabel *label);

/* Drops what this session has left. */
extern void gk_shared_labels_drop(void);

/* What a query looks at. */
typedef struct GkLabelsView GkLabelsView;

/*
 * Finds the labels of that key among the handles, for as long as the current memory context.  NULL
 * if there are none on this server, or the ids are of another type.
 */
extern GkLabelsView *gk_labels_view(const dsm_handle *handles, int count, const pg_uuid_t *key,
									Oid id_type);

/* Looks for an id; false if it is not there, or stands for several rows. */
extern bool gk_labels_find(const GkLabelsView *view, Datum id, bool take, GkSharedLabel *label);

#endif							/* GK_SHARED_LABELS_H */
